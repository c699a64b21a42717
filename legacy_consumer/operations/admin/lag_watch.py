"""Reads groups repeatedly and judges the lag of each partition."""

from __future__ import annotations

from collections.abc import Mapping

from legacy_consumer.operations.admin.groups import GroupDescription, PartitionLag
from legacy_consumer.operations.admin.lag_verdict import (
    DEFAULT,
    GroupVerdict,
    Judging,
    Kind,
    Sample,
    Verdict,
    Window,
    extend,
    judge,
    judge_group,
)
from zk_layout.model import TopicPartition


class GroupWatch:
    """The windows of one group. Pass it every description of the group, in order; it drops partitions that are gone."""

    def __init__(self, judging: Judging = DEFAULT) -> None:
        self._judging = judging
        self._windows: dict[TopicPartition, Window] = {}

    def judge(self, look: GroupDescription, seen_at_ms: int) -> Mapping[TopicPartition, Verdict]:
        """Add this look to the windows, and return the verdict on each partition. seen_at_ms: as in Sample."""
        windows: dict[TopicPartition, Window] = {}
        verdicts: dict[TopicPartition, Verdict] = {}
        for row in look.partitions:
            tp = TopicPartition(row.topic, row.partition)
            window = extend(self._windows.get(tp, ()), sample_of(row, seen_at_ms), self._judging)
            windows[tp] = window
            verdicts[tp] = judge(
                window,
                has_owner=row.owner_is_member,
                problem=row.problem,
                in_log=row.in_log,
                judging=self._judging,
            )
        self._windows = windows
        return verdicts


def judge_whole(look: GroupDescription, verdicts: Mapping[TopicPartition, Verdict]) -> GroupVerdict:
    """Return the verdict on a group, without the partitions that it has left; error if the group cannot be read."""
    if look.problem is not None:
        return GroupVerdict(Kind.ERROR)
    return judge_group(verdict for tp, verdict in verdicts.items() if tp not in look.left)


def sample_of(row: PartitionLag, seen_at_ms: int) -> Sample:
    """Return the sample that one description of a partition adds to its window."""
    return Sample(seen_at_ms, row.committed, row.lag, row.committed_at_ms, row.topic_czxid)
