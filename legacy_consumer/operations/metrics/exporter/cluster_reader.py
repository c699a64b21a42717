"""Reads all groups of a cluster, in batches; groups without members less often.

A group with members is read at each refresh. A group without members changes only when an operator changes it, and
most groups of an old cluster have none. Such a group is read at every idle_every-th refresh, by turns; in between,
the exporter serves the data of its last read. Each refresh checks all groups for new members. It also reads a group
again if one of its topics was deleted or created, because the old data is not about the present topic.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from legacy_consumer.offsets.judgement import TopicOrigin
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.admin.group_members import read_members
from legacy_consumer.operations.admin.group_reads import read_apart
from legacy_consumer.operations.admin.group_snapshots import consumed_topics, read_snapshots
from legacy_consumer.operations.admin.group_table import GroupPartition, read_group_partitions
from legacy_consumer.operations.admin.leadership import read_leaders
from legacy_consumer.operations.admin.led_groups import LedGroup, read_led_groups
from rebalance.group_strategy import owner_id
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdsPath
from zk_layout.store import ZkStore

_GROUPS_AT_ONCE = 100
"""The number of groups that are read in the same few batches, with a pause after them."""
_LEADERS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which groups to export, and how often to read groups without members."""

    wanted: Callable[[str], bool] = lambda _: True
    idle_every: int = 10


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """The znodes of one group. members: the number of registrations; unreadable: the number of unreadable ones.

    ids: the members' ids, to find owners. subscribed: the topics that the members subscribe to; None if there is no
    member, or a registration is unreadable. problem: the reason why the group cannot be read; then nothing else is
    known. led: the state of a led group, if a member follows a leader.
    """

    group: str
    members: int
    unreadable: int
    ids: frozenset[str]
    partitions: tuple[GroupPartition, ...]
    subscribed: frozenset[str] | None = None
    problem: str | None = None
    led: LedGroup | None = None

    def consumes(self, topic: str) -> bool:
        """Return whether the group consumes the topic; it does not if all members have left the topic."""
        return self.subscribed is None or topic in self.subscribed

    def is_owned(self, row: GroupPartition) -> bool:
        """Return whether a registered member owns the partition."""
        return row.owner is not None and owner_id(row.owner) in self.ids

    def brokers_of_members(self, leaders: Mapping[TopicPartition, int]) -> dict[str, int]:
        """Return {consumer id: the number of brokers that lead its partitions}."""
        brokers: dict[str, set[int]] = {consumer_id: set() for consumer_id in self.ids}
        for row in self.partitions:
            leader = leaders.get(TopicPartition(row.topic, row.partition))
            if leader is not None and row.owner is not None and (owner := owner_id(row.owner)) in brokers:
                brokers[owner].add(leader)
        return {consumer_id: len(found) for consumer_id, found in sorted(brokers.items())}


@dataclass(frozen=True, slots=True)
class ReadCluster:
    """All groups, sorted by name; their existing partitions; the leaders of the owned partitions."""

    groups: tuple[ReadGroup, ...]
    existing: frozenset[TopicPartition]
    leaders: Mapping[TopicPartition, int]


class ClusterReader:
    """Reads the cluster, and remembers the data of groups without members. Only one thread may use it."""

    def __init__(self, selection: Selection | None = None) -> None:
        self._selection = selection or Selection()
        self._known: dict[str, ReadGroup] = {}
        self._round = 0

    def read(self, store: ZkStore, between: Callable[[], None] = lambda: None) -> ReadCluster:
        """Read for one refresh. between: called after each batch of groups, to keep a pace. Raises: ZooKeeperError."""
        groups = [group for group in list_groups(store) if self._selection.wanted(group)]
        listed, forbidden = read_apart(groups, lambda some: _list_members(store, some))
        cluster = TopicsOnce(store)
        origins = cluster.origins({row.topic for known in self._known.values() for row in known.partitions})
        due = [group for group, has_members in listed if has_members or self._is_due(group, origins)]
        fresh: dict[str, ReadGroup] = {}
        for start in range(0, len(due), _GROUPS_AT_ONCE):
            some = due[start : start + _GROUPS_AT_ONCE]
            read, bad = read_apart(some, lambda some: _read_groups(store, cluster, some))
            fresh.update((one.group, one) for one in read)
            forbidden |= bad
            between()
        fresh.update(
            (group, ReadGroup(group, 0, 0, frozenset(), (), problem=str(error))) for group, error in forbidden.items()
        )
        self._known = {group: fresh.get(group) or self._known[group] for group in groups}
        self._round += 1
        kept = {TopicPartition(row.topic, row.partition) for known in self._known.values() for row in known.partitions}
        existing = cluster.existing(kept)
        between()
        found = tuple(self._known[group] for group in groups)
        owned = {
            TopicPartition(row.topic, row.partition) for one in found for row in one.partitions if one.is_owned(row)
        }
        wanted = sorted(owned & existing)
        leaders: dict[TopicPartition, int] = {}
        for start in range(0, len(wanted), _LEADERS_AT_ONCE):
            leaders.update(read_leaders(store, wanted[start : start + _LEADERS_AT_ONCE]))
            between()
        return ReadCluster(found, existing, leaders)

    def _is_due(self, group: str, origins: Mapping[str, TopicOrigin]) -> bool:
        known = self._known.get(group)
        if known is None or known.members or known.problem is not None:
            return True
        if any(_creation(row.origin) != _creation(origins.get(row.topic)) for row in known.partitions):
            return True
        every = max(1, self._selection.idle_every)
        return (self._round + zlib.crc32(group.encode())) % every == 0


def _creation(origin: TopicOrigin | None) -> int | None:
    return None if origin is None else origin.czxid


def _list_members(store: ZkStore, groups: Sequence[str]) -> list[tuple[str, bool]]:
    """Return (group, whether it has members) for each group."""
    names = store.get_children_many([ConsumerIdsPath(group).path for group in groups])
    return [(group, bool(found)) for group, found in zip(groups, names, strict=True)]


def _read_groups(store: ZkStore, cluster: TopicsOnce, groups: Sequence[str]) -> list[ReadGroup]:
    ids: dict[str, set[str]] = {group: set() for group in groups}
    unreadable = dict.fromkeys(groups, 0)
    members = read_members(store, groups)
    rows: dict[str, list[GroupPartition]] = {group: [] for group in groups}
    for row in read_group_partitions(store, groups, include_unclaimed=True, members=members, cluster=cluster):
        rows[row.group].append(row)
    for member in members:
        ids[member.group].add(member.consumer_id)
        unreadable[member.group] += member.registration is None
    snapshots = read_snapshots(store, members, cluster)
    led = read_led_groups(store, members)
    return [
        ReadGroup(
            group,
            len(ids[group]),
            unreadable[group],
            frozenset(ids[group]),
            tuple(rows[group]),
            consumed_topics(snapshots.get(group)),
            led=led.get(group),
        )
        for group in groups
    ]
