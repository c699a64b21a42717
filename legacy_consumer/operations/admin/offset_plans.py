"""The plan of a change of a group's offsets: the offsets before it, and after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from legacy_consumer.errors import NoSuchGroupError, NoSuchPartitionError, NoSuchTopicError
from legacy_consumer.offsets.judgement import written_elsewhere
from legacy_consumer.offsets.topic_partitions import TopicsOnce, is_topic_name
from legacy_consumer.operations.admin.errors import UnreadableOffsetsError
from legacy_consumer.operations.admin.group_acls import GroupAcls
from legacy_consumer.operations.admin.group_members import RegisteredMember, read_members
from legacy_consumer.operations.admin.group_table import GroupPartition, read_group_partitions
from legacy_consumer.operations.admin.offset_files import marks_of
from legacy_consumer.operations.admin.topic_fence import TopicCreations
from zk_layout.model import TopicPartition
from zk_layout.paths import GroupPath
from zk_layout.store import ZkStore


@dataclass(frozen=True, slots=True)
class Standing:
    """The present offset and owner of one partition of a group.

    offset: None if no committed offset counts. version: that of the offset znode, None if there is none. owner: the
    text of the owner znode. problem: why the offset znode cannot be read, and unreadable its data then. outlived: an
    offset that was committed for an earlier topic of that name. zxid: that of the last write of the offset znode.
    is_fragile: as in Judgement.
    """

    offset: int | None = None
    version: int | None = None
    owner: str | None = None
    problem: str | None = None
    outlived: int | None = None
    unreadable: bytes | None = None
    zxid: int | None = None
    is_fragile: bool = False

    @property
    def elsewhere(self) -> int | None:
        """The offset to write into a file or another group."""
        return written_elsewhere(self.offset, self.outlived)


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """One partition of a plan. after: None = delete the znode. again: write the offset even if it does not change."""

    partition: TopicPartition
    before: Standing
    after: int | None
    again: bool = False

    @property
    def changes(self) -> bool:
        """Return whether there is anything to write."""
        if self.before.problem is not None or self.before.offset != self.after:
            return True
        if self.before.is_fragile:
            return True
        return self.again and (self.after is not None or self.before.version is not None)

    @property
    def moves_by(self) -> int | None:
        """How many messages the group skips (below 0: reads again); None if unknown."""
        if self.before.offset is None or self.after is None:
            return None
        return self.after - self.before.offset


@dataclass(frozen=True, slots=True)
class OffsetPlan:
    """The plan for one group: ZooKeeper writes all its offsets, or none.

    members: the members that were registered when the plan was made. acls: for the group, if the plan creates it.
    creations: of the topics for which the offsets are meant; see topic_fence. marks: the backup's mark of each topic.
    is_new: the group did not exist, and the plan creates it; a group that was deleted since is not created again.
    """

    group: str
    changes: tuple[OffsetChange, ...]
    members: tuple[RegisteredMember, ...] = ()
    acls: GroupAcls | None = None
    creations: TopicCreations = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    is_new: bool = False

    @property
    def to_write(self) -> tuple[OffsetChange, ...]:
        """The changes that differ from the offsets in ZooKeeper."""
        return tuple(change for change in self.changes if change.changes)

    def for_members(self) -> OffsetPlan:
        """Return the plan for running members: they have read on since their last commits, so it writes each offset."""
        return replace(self, changes=tuple(replace(change, again=True) for change in self.changes))

    @property
    def backup(self) -> dict[TopicPartition, int | None]:
        """The offsets that count now, of all partitions of the plan whose offsets can be read."""
        return {c.partition: c.before.elsewhere for c in self.changes if c.before.unreadable is None}

    @property
    def unreadable(self) -> dict[TopicPartition, bytes]:
        """The data of the offset znodes that cannot be read."""
        return {c.partition: c.before.unreadable for c in self.changes if c.before.unreadable is not None}


def standing_of(row: GroupPartition) -> Standing:
    """Return the present offset and owner of a row's partition."""
    judgement = row.judge()
    return Standing(
        row.committed,
        row.offset_version,
        row.owner,
        row.written.problem,
        judgement.outlived,
        row.unreadable,
        row.written.zxid,
        judgement.is_fragile,
    )


def read_standings(store: ZkStore, group: str, topics: TopicsOnce | None = None) -> dict[TopicPartition, Standing]:
    """Return every partition that the group subscribes to, or has an offset or an owner of. Raises: NoSuchGroupError.

    topics: what the plan has read of the topics; each topic is read once, before the brokers are asked about it.
    """
    rows = read_group_partitions(store, [group], include_unclaimed=True, cluster=topics)
    # asked last: a group that was deleted during the reads must not look like an empty one
    if store.exists(GroupPath(group).path) is None:
        raise NoSuchGroupError(group)
    return {TopicPartition(row.topic, row.partition): standing_of(row) for row in rows}


def choose_partitions(
    cluster: TopicsOnce, standings: Mapping[TopicPartition, Standing], topics: Mapping[str, Collection[int] | None]
) -> dict[TopicPartition, Standing]:
    """Choose the partitions of these topics ({topic: partitions, None = all}).

    Without topics, all existing partitions of the group are chosen. The group need not have consumed a named topic:
    its partitions are read from the cluster.
    Raises: NoSuchTopicError, NoSuchPartitionError; the reason why a topic cannot be read.
    """
    for topic in topics:
        if not is_topic_name(topic):
            raise NoSuchTopicError(topic)
    lives = cluster.lives(topics or {tp.topic for tp in standings})
    cluster.refuse_unreadable(lives)
    if not topics:
        there = {topic: frozenset(life.partitions) for topic, life in lives.items()}
        return {tp: s for tp, s in standings.items() if tp.partition in there.get(tp.topic, ())}
    chosen: dict[TopicPartition, Standing] = {}
    for topic, numbers in topics.items():
        if topic not in lives:
            raise NoSuchTopicError(topic)
        for number in lives[topic].partitions if numbers is None else sorted(numbers):
            tp = TopicPartition(topic, number)
            if number not in lives[topic].partitions:
                raise NoSuchPartitionError(tp, len(lives[topic].partitions))
            chosen[tp] = standings.get(tp, Standing())
    return chosen


def make_plan(
    store: ZkStore,
    group: str,
    standings: Mapping[TopicPartition, Standing] | None,
    after: Mapping[TopicPartition, int | None],
    acls: GroupAcls | None = None,
    *,
    topics: TopicsOnce | None = None,
    members: Sequence[RegisteredMember] | None = None,
) -> OffsetPlan:
    """Return the plan that sets the offsets to `after`. acls: for the group's folders, if the plan creates them.

    standings: None if there is no such group, and the plan is to create it.
    topics: as they were when `after` was decided. members: of the group, if the caller has read them already.
    Raises: ZooKeeperError; the reason why a topic of the plan cannot be read.
    """
    names = {tp.topic for tp, offset in after.items() if offset is not None}
    topics = topics or TopicsOnce(store)
    topics.refuse_unreadable({tp.topic for tp in after})
    origins = topics.origins(names)
    creations = {topic: origins[topic].czxid if topic in origins else None for topic in names}
    before = standings or {}
    changes = tuple(OffsetChange(tp, before.get(tp, Standing()), after[tp]) for tp in sorted(after))
    members = read_members(store, [group]) if members is None else members
    named = {tp.topic for tp in after}
    marks = marks_of(named, topics.origins(named), [(tp, standing.zxid) for tp, standing in before.items()])
    return OffsetPlan(group, changes, tuple(members), acls, creations, marks, is_new=standings is None)


def readable_offsets(group: str, standings: Mapping[TopicPartition, Standing]) -> dict[TopicPartition, int]:
    """Return {partition: offset} to write to another group. Raises: UnreadableOffsetsError."""
    problems = tuple(standing.problem for standing in standings.values() if standing.problem is not None)
    if problems:
        raise UnreadableOffsetsError(group, problems)
    return {tp: offset for tp, standing in standings.items() if (offset := standing.elsewhere) is not None}
