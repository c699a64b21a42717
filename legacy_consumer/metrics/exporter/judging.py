"""Lags and verdicts of all groups, from what was read and where the logs end. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from legacy_consumer.admin.group_table import GroupPartition
from legacy_consumer.admin.lag_verdict import DEFAULT, Judging, Kind, Sample, Window, extend, judge, judge_group
from legacy_consumer.metrics.exporter.cluster_reader import ReadCluster, ReadGroup
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class JudgedPartition:
    """lag: None if it is not known; at least 0, for an offset beyond the log's end is an error and no lag."""

    row: GroupPartition
    owned: bool
    lag: int | None
    verdict: Kind


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """A group as it is exported."""

    read: ReadGroup
    partitions: tuple[JudgedPartition, ...]
    verdict: Kind
    verdicts: Mapping[Kind, int]

    @property
    def lag(self) -> int:
        """The sum, as far as known."""
        return sum(one.lag for one in self.partitions if one.lag is not None)

    @property
    def unowned(self) -> int:
        """Partitions that no registered member owns."""
        return sum(not one.owned for one in self.partitions)


class ClusterJudge:
    """Keeps the windows of the partitions that are owned. Give it every refresh, in order."""

    def __init__(self, judging: Judging = DEFAULT) -> None:
        self._judging = judging
        self._windows: dict[tuple[str, str, int], Window] = {}

    def judge(
        self, cluster: ReadCluster, ends: Mapping[TopicPartition, int], seen_at_ms: int, *, ends_are_fresh: bool
    ) -> tuple[JudgedGroup, ...]:
        """The groups with lags and verdicts.

        ends_are_fresh: False if no broker told them this time: lags are then those to the ends last known, and no
        verdict is built on them.
        """
        windows: dict[tuple[str, str, int], Window] = {}
        judged = tuple(
            self._judge_group(group, cluster, ends, seen_at_ms, ends_are_fresh, windows) for group in cluster.groups
        )
        self._windows = windows
        return judged

    def _judge_group(
        self,
        group: ReadGroup,
        cluster: ReadCluster,
        ends: Mapping[TopicPartition, int],
        seen_at_ms: int,
        ends_are_fresh: bool,
        windows: dict[tuple[str, str, int], Window],
    ) -> JudgedGroup:
        partitions: list[JudgedPartition] = []
        kinds: Counter[Kind] = Counter()
        verdicts = []
        for row in group.partitions:
            key = (row.group, row.topic, row.partition)
            tp = TopicPartition(row.topic, row.partition)
            end = ends.get(tp)
            lag = None if end is None or row.committed is None else end - row.committed
            owned = group.is_owned(row)
            sample = Sample(seen_at_ms, row.committed, lag if ends_are_fresh else None, row.committed_at_ms)
            if owned:
                window = windows[key] = extend(self._windows.get(key, ()), sample, self._judging)
            else:
                # without an owner only the newest look counts, and most partitions of an old cluster have none
                window = (sample,)
            if tp in cluster.existing or row.error is not None:
                verdict = judge(window, has_owner=owned, problem=row.error, judging=self._judging)
                verdicts.append(verdict)
                kind = verdict.kind
            else:
                # offsets of a topic that is gone are nobody's trouble
                kind = Kind.OK
            kinds[kind] += 1
            partitions.append(JudgedPartition(row, owned, None if lag is None else max(0, lag), kind))
        return JudgedGroup(group, tuple(partitions), judge_group(verdicts).kind, kinds)
