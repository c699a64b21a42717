"""Finds groups that nobody uses any more, and what groups keep of topics that are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from legacy_consumer.admin.group_table import read_group_partitions
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdsPath, GroupPath
from zk_layout.store import ZkStore


@dataclass(frozen=True, slots=True)
class GroupUse:
    """When a group was last used, as far as its znodes tell.

    members: how many are registered. last_commit_ms: the newest offset. last_seen_ms: that, or when the group's
    folders came into being if it never committed.
    """

    group: str
    members: int
    last_commit_ms: int | None
    last_seen_ms: int
    offsets: Mapping[TopicPartition, int | None] = field(default_factory=dict)

    @property
    def topics(self) -> int:
        """Of how many topics it has offsets."""
        return len({tp.topic for tp in self.offsets})


def read_use(store: ZkStore, groups: Sequence[str]) -> list[GroupUse]:
    """The use of these groups; those that are gone are left out. Raises: ZooKeeperError."""
    stats = store.exists_many([GroupPath(group).path for group in groups])
    ids = store.exists_many([ConsumerIdsPath(group).path for group in groups])
    offsets: dict[str, dict[TopicPartition, int | None]] = {group: {} for group in groups}
    commits: dict[str, int] = {}
    for row in read_group_partitions(store, groups):
        if row.committed_at_ms is not None:
            offsets[row.group][TopicPartition(row.topic, row.partition)] = row.committed
            commits[row.group] = max(commits.get(row.group, 0), row.committed_at_ms)
    found: list[GroupUse] = []
    for group, stat, members in zip(groups, stats, ids, strict=True):
        if stat is None:
            continue
        last = commits.get(group)
        made = max(stat.ctime_ms, 0 if members is None else members.ctime_ms)
        count = 0 if members is None else members.num_children
        found.append(GroupUse(group, count, last, made if last is None else last, offsets[group]))
    return found


def find_unused(use: Sequence[GroupUse], *, now_ms: int, older_than_ms: int) -> list[GroupUse]:
    """The groups without members that committed nothing for so long."""
    return [one for one in use if one.members == 0 and now_ms - one.last_seen_ms > older_than_ms]
