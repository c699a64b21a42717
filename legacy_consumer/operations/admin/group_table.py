"""Groups as a table: one row for each partition of a group.

Each batch of reads covers all groups: first the topics under `offsets` and `owners`, then their partitions, then the
znodes themselves. So the number of batches does not grow with the number of groups, and znodes that the caller does
not want are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from legacy_consumer.offsets.judgement import (
    Judgement,
    TopicOrigin,
    Verdict,
    WrittenOffset,
    judge,
    written_in_zookeeper,
)
from legacy_consumer.offsets.topic_partitions import TopicsOnce, is_topic_name
from legacy_consumer.operations.admin.group_members import (
    RegisteredMember,
    needs_cluster_topics,
    read_members,
    topics_of,
)
from zk_layout.codecs import decode_owner
from zk_layout.errors import MalformedZnodeError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import OffsetsPath, OwnersPath, TopicOffsetsPath, TopicOwnersPath, number_of
from zk_layout.store import ZkStore, Znode

logger = safe_logger(__name__)

_SHOWN = 3
_NOTHING = WrittenOffset(None)

Key = tuple[str, str, int]
"""group, topic, partition"""


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """The znodes of a group for one partition.

    committed: the next offset to consume; None if no offset counts. A literal -1 and an offset of an earlier topic of
    the same name do not count.
    committed_at_ms: when the offset znode was last written. owned_since_ms: when the owner znode was created. Both in
    ms since 1970, by ZooKeeper's clock.
    owner: the text of the owner znode, a consumer thread id if its writer keeps to the protocol.
    error: the path and the reason if the owner znode or the offset znode holds data that no member can read.
    owner_session: the session that holds the owner znode; 0 if it is not ephemeral and stays until it is deleted.
    offset_version: the version of the offset znode, for a command that changes it.
    written, origin: the facts by which the offset is judged; origin is None if the topic does not exist.
    unreadable: the data of the offset znode if it holds no offset. exists: whether the topic has this partition.
    """

    group: str
    topic: str
    partition: int
    committed: int | None = None
    committed_at_ms: int | None = None
    owner: str | None = None
    owned_since_ms: int | None = None
    error: str | None = None
    owner_session: int | None = None
    offset_version: int | None = None
    written: WrittenOffset = _NOTHING
    origin: TopicOrigin | None = None
    unreadable: bytes | None = None
    exists: bool = True

    @property
    def topic_czxid(self) -> int | None:
        """The zxid of the topic's creation, which tells topics of one name apart; None if there is no topic."""
        return None if self.origin is None else self.origin.czxid

    def judge(self, log: tuple[int, int] | None = None) -> Judgement:
        """Return the judgement of the offset. log: (first offset, end); None if unknown."""
        return judge(self.written, self.origin, log)

    def lag(self, judgement: Judgement, begin: int | None, end: int | None) -> int | None:
        """Return how far the offset is behind the log's end; None if unknown, below 0 if it lies beyond the end.

        For an offset of an earlier topic it is the whole log, since a group begins a new topic with its first message.
        If nothing was committed and the log is empty, it is 0.
        """
        if self.committed is None and begin is not None and begin == end:
            return 0
        start = begin if judgement.verdict is Verdict.EARLIER_TOPIC else self.committed
        return None if start is None or end is None else end - start


def read_group_partitions(
    store: ZkStore,
    groups: Sequence[str],
    *,
    topics: Callable[[str], bool] | None = None,
    partitions: Callable[[int], bool] | None = None,
    include_unclaimed: bool = False,
    members: Sequence[RegisteredMember] | None = None,
    cluster: TopicsOnce | None = None,
) -> list[GroupPartition]:
    """Return the rows of these groups, sorted by group, topic and partition: every offset znode and every owner znode.

    topics, partitions: whether a topic or a partition is wanted; the others are not read.
    include_unclaimed: also return partitions without both znodes, of topics that a member subscribes to or that have a
    directory under `offsets` or `owners`; then the registrations and the topics are read too.
    members, cluster: what the caller has read of these already.
    A group that does not exist has no rows. If a znode cannot be read, its row has an error. A name that is no
    partition number (Kafka 0.7 writes `<broker>-<partition>`) is left out with a warning in the log.
    Raises: ZooKeeperError.
    """
    wanted_groups = list(dict.fromkeys(groups))
    cluster = cluster or TopicsOnce(store)
    offset_dirs, owner_dirs = _topic_dirs(store, wanted_groups, topics)
    keys, paths = _znodes(store, offset_dirs, owner_dirs, partitions)
    znodes = store.get_data_many(paths)
    offsets: dict[Key, tuple[str, Znode]] = {}
    owners: dict[Key, tuple[str, Znode]] = {}
    for (is_owner, key), path, znode in zip(keys, paths, znodes, strict=True):
        if znode is not None:  # None: it was deleted between the reads
            (owners if is_owner else offsets)[key] = path, znode
    rows = offsets.keys() | owners.keys()
    if include_unclaimed:
        members = read_members(store, wanted_groups) if members is None else members
        rows |= _unclaimed(members, cluster, offset_dirs + owner_dirs, topics, partitions)
    origins = cluster.origins({topic for _, topic, _ in rows})
    existing = cluster.existing({TopicPartition(topic, partition) for _, topic, partition in rows})
    return [
        replace(
            _row(key, offsets.get(key), owners.get(key), origins.get(key[1])),
            exists=TopicPartition(*key[1:]) in existing,
        )
        for key in sorted(rows)
    ]


def _topic_dirs(
    store: ZkStore, groups: Sequence[str], topics: Callable[[str], bool] | None
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return (group, topic) of the directories under `offsets`, and the same under `owners`."""
    parents = [OffsetsPath(group).path for group in groups] + [OwnersPath(group).path for group in groups]
    children = store.get_children_many(parents)

    def wanted(found: Sequence[tuple[str, ...] | None]) -> list[tuple[str, str]]:
        pairs = ((group, topic) for group, names in zip(groups, found, strict=True) for topic in names or ())
        return [pair for pair in pairs if topics is None or topics(pair[1])]

    return wanted(children[: len(groups)]), wanted(children[len(groups) :])


def _znodes(
    store: ZkStore,
    offset_dirs: Sequence[tuple[str, str]],
    owner_dirs: Sequence[tuple[str, str]],
    partitions: Callable[[int], bool] | None,
) -> tuple[list[tuple[bool, Key]], list[str]]:
    """Return (whether it is an owner znode, its key) for each offset and owner znode, and their paths."""
    parents = [TopicOffsetsPath(*each).path for each in offset_dirs]
    parents += [TopicOwnersPath(*each).path for each in owner_dirs]
    keys: list[tuple[bool, Key]] = []
    paths: list[str] = []
    children = store.get_children_many(parents)
    for number, ((group, topic), parent, names) in enumerate(
        zip([*offset_dirs, *owner_dirs], parents, children, strict=True)
    ):
        is_owner = number >= len(offset_dirs)
        odd: list[str] = []
        for name in names or ():
            partition = number_of(name)
            if partition is None:
                odd.append(name)
            elif partitions is None or partitions(partition):
                keys.append((is_owner, (group, topic, partition)))
                paths.append(f"{parent}/{name}")
        if odd:
            # one line for any number of names: any client may create znodes there
            some = ", ".join(odd[:_SHOWN]) + (", ..." if len(odd) > _SHOWN else "")
            logger.warning("%s: %d names are no partition numbers and left out: %s", parent, len(odd), some)
    return keys, paths


def _unclaimed(
    members: Sequence[RegisteredMember],
    cluster: TopicsOnce,
    dirs: Iterable[tuple[str, str]],
    topics: Callable[[str], bool] | None,
    partitions: Callable[[int], bool] | None,
) -> set[Key]:
    """Return every partition of the topics that a group subscribes to or has a directory for."""
    cluster_topics = cluster.names() if needs_cluster_topics(members) else ()
    pairs = set(dirs)
    for member in members:
        subscribed = topics_of(member, cluster_topics)
        # a registration may hold any text as a topic, also one that no znode can have as its name
        pairs |= {(member.group, topic) for topic in subscribed if is_topic_name(topic)}
    if topics is not None:
        pairs = {pair for pair in pairs if topics(pair[1])}
    lives = cluster.lives({topic for _, topic in pairs})
    return {
        (group, topic, partition)
        for group, topic in pairs
        if topic in lives
        for partition in lives[topic].partitions
        if partitions is None or partitions(partition)
    }


def _row(
    key: Key, offset: tuple[str, Znode] | None, owner: tuple[str, Znode] | None, origin: TopicOrigin | None
) -> GroupPartition:
    group, topic, partition = key
    committed_at_ms = owner_text = owned_since_ms = owner_session = offset_version = unreadable = None
    written = _NOTHING
    problems: list[str] = []
    if offset is not None:
        written = written_in_zookeeper(*offset)
        stat = offset[1].stat
        committed_at_ms, offset_version = stat.mtime_ms, stat.version
        if written.problem is not None:
            problems.append(written.problem)
            unreadable = offset[1].data or b""
    if owner is not None:
        path, znode = owner
        owned_since_ms = znode.stat.ctime_ms
        owner_session = znode.stat.ephemeral_owner
        owner_text = (znode.data or b"").decode("utf-8", "backslashreplace")
        try:
            decode_owner(path, znode.data)
        except MalformedZnodeError as error:
            problems.append(str(error))
    return GroupPartition(
        group,
        topic,
        partition,
        judge(written, origin).position,
        committed_at_ms,
        owner_text,
        owned_since_ms,
        "; ".join(problems) or None,
        owner_session,
        offset_version,
        written,
        origin,
        unreadable,
    )
