"""Finds unused groups, and znodes that groups keep of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from legacy_consumer.offsets.judgement import (
    TopicOrigin,
    judge,
    written_elsewhere,
    written_in_zookeeper,
)
from legacy_consumer.offsets.topic_lives import read_topic_origins
from legacy_consumer.operations.admin.errors import DamagedRecordError, NothingOfTopicError, OpenMigrationError
from legacy_consumer.operations.admin.group_trees import GroupTree, read_trees
from legacy_consumer.operations.admin.migration.record import Phase, decode_record
from legacy_consumer.operations.admin.offset_files import marks_of
from zk_layout.errors import BadVersionError
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdsPath, ConsumersPath, GroupPath, OffsetPath
from zk_layout.store import ZkStore


@dataclass(frozen=True, slots=True)
class GroupUse:
    """When a group was last used, as its znodes show it.

    members: the number of registered members. last_commit_ms: the time of the newest offset. last_seen_ms: the same, or
    the creation of the group's folders if it never committed. offsets: {partition: offset for a backup, None without}.
    unreadable: {partition: the data} of offset znodes that hold no offset. marks: of the topics that the offsets were
    judged by, for a backup.
    open_migration: the phase of an open migration, or why its record cannot be read; None otherwise.
    is_migrated: its migration is finished.
    tree: the reading that all this comes from; a deletion deletes nothing else.
    """

    group: str
    members: int
    last_commit_ms: int | None
    last_seen_ms: int
    offsets: Mapping[TopicPartition, int | None]
    unreadable: Mapping[TopicPartition, bytes]
    marks: Mapping[str, str]
    open_migration: str | None
    is_migrated: bool
    tree: GroupTree

    @property
    def topics(self) -> int:
        """The number of topics of which the group has offsets."""
        return len({tp.topic for tp in [*self.offsets, *self.unreadable]})


def read_use(store: ZkStore, groups: Sequence[str]) -> list[GroupUse]:
    """Return the use of these groups; groups that are gone are left out. Raises: ZooKeeperError."""
    trees = read_trees(store, groups)
    origins = read_topic_origins(store, {tp.topic for tree in trees for tp in tree.offsets})
    return [_use_of(tree, origins) for tree in trees]


def zookeeper_ms(store: ZkStore) -> int:
    """Return ZooKeeper's time in ms since 1970: writes `/consumers` unchanged, and reads the time of that write.

    Raises: NotPermittedError; NoNodeError if there never was a group.
    """
    path = ConsumersPath().path
    znode = store.get_data(path)
    try:
        return store.set_data(path, znode.data or b"", znode.stat.version).mtime_ms
    except BadVersionError:
        # another operator has just written it for the same purpose
        return store.get_data(path).stat.mtime_ms


def find_unused(use: Sequence[GroupUse], *, now_ms: int, older_than_ms: int) -> list[GroupUse]:
    """Return the groups without members and open migration that committed nothing for so long.

    Groups with a znode that a session holds are left out, since a deletion would be refused.
    """
    return [
        one
        for one in use
        if one.members == 0
        and not one.tree.held(None)
        and one.open_migration is None
        and now_ms - one.last_seen_ms > older_than_ms
    ]


def refuse_removal(use: Sequence[GroupUse], topic: str | None) -> None:
    """Refuse to remove a group whose migration is open, or a topic of which no group has a znode.

    Raises: OpenMigrationError, DamagedRecordError; NothingOfTopicError.
    """
    for one in use:
        if topic is None and one.open_migration is not None:
            if one.tree.record is not None:
                decode_record(one.group, one.tree.record)
            raise OpenMigrationError(one.group, one.open_migration)
    if topic is not None and not any(one.tree.below(topic) for one in use):
        raise NothingOfTopicError(topic, tuple(one.group for one in use))


def _use_of(tree: GroupTree, origins: Mapping[str, TopicOrigin]) -> GroupUse:
    offsets: dict[TopicPartition, int | None] = {}
    unreadable: dict[TopicPartition, bytes] = {}
    for tp, znode in sorted(tree.offsets.items()):
        written = written_in_zookeeper(OffsetPath(tree.group, *tp).path, znode)
        if written.problem is not None:
            unreadable[tp] = znode.data or b""
        else:
            found = judge(written, origins.get(tp.topic))
            offsets[tp] = written_elsewhere(found.position, found.outlived)
    last = max((znode.stat.mtime_ms for znode in tree.offsets.values()), default=None)
    folders = (GroupPath(tree.group).path, ConsumerIdsPath(tree.group).path)
    made = max(tree.stats[path].ctime_ms for path in folders if path in tree.stats)
    open_migration, is_migrated = _migration_of(tree)
    return GroupUse(
        tree.group,
        tree.members,
        last,
        made if last is None else last,
        offsets,
        unreadable,
        marks_of({tp.topic for tp in offsets}, origins, [(tp, znode.stat.mzxid) for tp, znode in tree.offsets.items()]),
        open_migration,
        is_migrated,
        tree,
    )


def _migration_of(tree: GroupTree) -> tuple[str | None, bool]:
    """Return GroupUse's open_migration and is_migrated."""
    if tree.record is None:
        return None, False
    try:
        phase = decode_record(tree.group, tree.record).phase
    except DamagedRecordError as error:
        return str(error), False
    return phase.value if phase.is_open else None, phase is Phase.FINISHED
