"""Lags and verdicts of all groups, computed from their znodes and the log ends. No I/O."""

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
    """lag: None if unknown; never below 0, since an offset beyond the log's end is an error and no lag.

    verdict: None if the group no longer consumes the partition: its topic is gone, or all members left the topic.
    """

    row: GroupPartition
    owned: bool
    lag: int | None
    verdict: Kind | None


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """A group with its lags and verdicts, as the exporter shows it."""

    read: ReadGroup
    partitions: tuple[JudgedPartition, ...]
    verdict: Kind
    verdicts: Mapping[Kind, int]
    brokers: Mapping[str, int]
    """{consumer id: the number of brokers that lead its partitions}."""

    @property
    def lag(self) -> int | None:
        """The sum over the consumed partitions; None if one lag is unknown: a partial sum would look like progress."""
        lags = [one.lag for one in self.consumed]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) and self.read.problem is None else None

    @property
    def unowned(self) -> int:
        """The number of partitions that the group consumes and no registered member owns."""
        return sum(not one.owned for one in self.consumed)

    @property
    def consumed(self) -> list[JudgedPartition]:
        """The partitions that the group consumes."""
        return [one for one in self.partitions if one.verdict is not None]


class _Kept(NamedTuple):
    """The window of a partition, and the time when it was last owned."""

    window: Window
    owned_at_ms: int


class ClusterJudge:
    """Keeps the windows of the partitions that are owned, or were recently. Pass every refresh, in order.

    Recently: a member that crashes and restarts repeatedly is registered only at some refreshes, and its partitions do
    not move meanwhile.
    """

    def __init__(self, judging: Judging = DEFAULT) -> None:
        self._judging = judging
        self._windows: dict[tuple[str, str, int], _Kept] = {}

    def judge(self, cluster: ReadCluster, logs: Logs, seen_at_ms: int) -> tuple[JudgedGroup, ...]:
        """Return the groups with lags and verdicts. logs: of this refresh; without a broker's answer a lag is unknown.

        seen_at_ms: as in Sample.
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
            # if no broker was asked for the first offset, the committed one lies at the end of the log or beyond
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
                # most partitions of an old cluster have no owner: for these only the newest sample is kept
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
    """Return the number of messages after the offset that the log still has; None if unknown.

    An offset beyond the log's end is unknown: a member then continues by its auto.offset.reset, which the exporter does
    not know.
    """
    if lag is None or lag < 0:
        return None
    return lag if in_log is None else min(lag, in_log)
