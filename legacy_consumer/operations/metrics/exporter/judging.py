"""Lags and verdicts of all groups, from what was read and where the logs end. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from legacy_consumer.offsets.judgement import Verdict
from legacy_consumer.operations.admin.group_table import GroupPartition
from legacy_consumer.operations.admin.lag_verdict import (
    DEFAULT,
    Judging,
    Kind,
    Sample,
    Window,
    extend,
    judge,
    judge_group,
)
from legacy_consumer.operations.metrics.exporter.cluster_reader import ReadCluster, ReadGroup
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Logs:
    """The brokers' answers at one refresh. begins: the starts of logs that some group has not read to the end."""

    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgedPartition:
    """lag: None if it is not known; at least 0, for an offset beyond the log's end is an error and no lag.

    verdict: None where the group has nothing to do with the partition any more: its topic is gone, or all members left.
    """

    row: GroupPartition
    owned: bool
    lag: int | None
    verdict: Kind | None


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """A group as it is exported."""

    read: ReadGroup
    partitions: tuple[JudgedPartition, ...]
    verdict: Kind
    verdicts: Mapping[Kind, int]
    brokers: Mapping[str, int]
    """{member: how many brokers lead what it owns}."""

    @property
    def lag(self) -> int | None:
        """The sum over what the group consumes; None if one is not known, for a part of a sum looks like progress."""
        lags = [one.lag for one in self.consumed]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) and self.read.problem is None else None

    @property
    def unowned(self) -> int:
        """Partitions that the group consumes and no registered member owns."""
        return sum(not one.owned for one in self.consumed)

    @property
    def consumed(self) -> list[JudgedPartition]:
        """The partitions that are the group's business."""
        return [one for one in self.partitions if one.verdict is not None]


class _Kept(NamedTuple):
    """The observations of a partition, and the time when it was last owned."""

    window: Window
    owned_at_ms: int


class ClusterJudge:
    """Keeps the windows of the partitions that are owned, or were lately. Give it every refresh, in order.

    Lately: a member that is killed and started again and again is seen now and then, and its partitions stand still.
    """

    def __init__(self, judging: Judging = DEFAULT) -> None:
        self._judging = judging
        self._windows: dict[tuple[str, str, int], _Kept] = {}

    def judge(self, cluster: ReadCluster, logs: Logs, seen_at_ms: int) -> tuple[JudgedGroup, ...]:
        """The groups with lags and verdicts. logs: of this refresh; what brokers did not tell is unknown.

        seen_at_ms: as Sample has it.
        """
        windows: dict[tuple[str, str, int], _Kept] = {}
        judged = tuple(self._judge_group(group, cluster, logs, seen_at_ms, windows) for group in cluster.groups)
        self._windows = windows
        return judged

    def _judge_group(
        self,
        group: ReadGroup,
        cluster: ReadCluster,
        logs: Logs,
        seen_at_ms: int,
        windows: dict[tuple[str, str, int], _Kept],
    ) -> JudgedGroup:
        if group.problem is not None:
            return JudgedGroup(group, (), Kind.ERROR, {}, {})
        partitions: list[JudgedPartition] = []
        kinds: Counter[Kind] = Counter()
        verdicts = []
        for row in group.partitions:
            key = (row.group, row.topic, row.partition)
            tp = TopicPartition(row.topic, row.partition)
            end = logs.ends.get(tp)
            begin = 0 if end == 0 else logs.begins.get(tp)
            # where the begin was not asked for, the offset lies at the end of the log or beyond
            found = row.judge(None if end is None else (begin or 0, end))
            in_log = None if begin is None or end is None else end - begin
            lag = row.lag(found, begin, end)
            owned = group.is_owned(row)
            sample = Sample(seen_at_ms, row.committed, lag, row.committed_at_ms, row.topic_czxid)
            kept = self._windows.get(key)
            owned_at_ms = seen_at_ms if owned else kept.owned_at_ms if kept is not None else None
            if owned_at_ms is not None and seen_at_ms - owned_at_ms < self._judging.span_ms:
                window = extend(kept.window if kept is not None else (), sample, self._judging)
                windows[key] = _Kept(window, owned_at_ms)
            else:
                # most partitions of an old cluster have no owner: only the newest look counts
                window = (sample,)
            kind = None
            if tp in cluster.existing and group.consumes(row.topic):
                problem = row.error
                if problem is None and found.verdict in {Verdict.EARLIER_TOPIC, Verdict.BEFORE_LOG}:
                    problem = found.reason
                verdict = judge(window, has_owner=owned, problem=problem, in_log=in_log, judging=self._judging)
                verdicts.append(verdict)
                kind = verdict.kind
                kinds[kind] += 1
            partitions.append(JudgedPartition(row, owned, _to_read(lag, in_log), kind))
        brokers = group.brokers_of_members(cluster.leaders)
        return JudgedGroup(group, tuple(partitions), judge_group(verdicts).kind, kinds, brokers)


def _to_read(lag: int | None, in_log: int | None) -> int | None:
    """Return the number of messages behind the offset that the log still has.

    Beyond the log's end a member continues by its auto.offset.reset, which the exporter does not know.
    """
    if lag is None or lag < 0:
        return None
    return lag if in_log is None else min(lag, in_log)
