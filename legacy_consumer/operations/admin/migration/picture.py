"""The state of a group on both sides at one moment: its members and offsets in ZooKeeper and in Kafka, its logs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from legacy_consumer.errors import NoSuchGroupError
from legacy_consumer.fetching.fetcher import LogOffsets
from legacy_consumer.offsets import GroupOffsets, KafkaOffset, ZooKeeperOffsetStore
from legacy_consumer.offsets.kafka import UNTOLD, committed_in_kafka, is_marked
from legacy_consumer.offsets.progress import Committed
from legacy_consumer.offsets.retries import coordinator_answer
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.group_members import RegisteredMember, read_members
from legacy_consumer.operations.admin.group_table import read_group_partitions
from legacy_consumer.operations.admin.migration.record import MigrationRecord, read_record
from legacy_consumer.operations.admin.offsets_in_kafka import has_coordinators
from legacy_consumer.operations.admin.topic_fence import TopicCreations
from rebalance.clock import Clock, SystemClock
from rebalance.group_strategy import owner_id
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import GroupPath
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
_NOTHING = Committed(None, None)
_NO_OFFSET = KafkaOffset(None)
ANSWER_WITHIN_S = 30.0
"""A new coordinator loads the offsets before it answers; brokers create their topic when the first one is asked for."""
_BACKOFF_S = 0.5


@dataclass(frozen=True, slots=True)
class Sides:
    """The clients of everything that a migration of one group reads or writes.

    kafka_members: returns the names of the consumers that have joined the group on the brokers' side.
    """

    group: str
    store: ZkStore
    kafka: GroupOffsets
    log_offsets: LogOffsets
    kafka_members: Callable[[], tuple[str, ...]]
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """One partition.

    exists: whether the topic has this partition. owner: the registered member that owns it, None without one.
    log: (first offset, end); None if no broker answered. problem: why its offset in ZooKeeper cannot be read;
    unreadable: the data of the znode then. is_marked: whether a step or a member of legacy-consumer wrote its offset in
    Kafka. is_moved: whether its offset in ZooKeeper was written after the migration's last step had read it.
    """

    tp: TopicPartition
    zookeeper: Committed = _NOTHING
    kafka: Committed = _NOTHING
    owner: str | None = None
    log: tuple[int, int] | None = None
    problem: str | None = None
    unreadable: bytes | None = None
    exists: bool = True
    is_marked: bool = False
    is_moved: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One group. members: its members in ZooKeeper. kafka_members: its members at the brokers.

    zxid: offsets that clients write to ZooKeeper after this look have a greater zxid.
    """

    group: str
    members: tuple[RegisteredMember, ...]
    kafka_members: tuple[str, ...]
    partitions: tuple[PartitionLook, ...]
    record: MigrationRecord | None
    zxid: int

    @property
    def creations(self) -> TopicCreations:
        """{topic: the zxid of its creation}, as read before all other data; None if there was no topic."""
        topics = {one.tp.topic: one.zookeeper.topic for one in self.partitions}
        return {name: None if topic is None else topic.czxid for name, topic in topics.items()}


def look_at(sides: Sides, *, will_write: bool = False) -> Look:
    """Read both sides of a group. Kafka is asked about all topics of the cluster: consumers there may read any of them.

    will_write: the caller will write to Kafka, so the coordinator is asked even if brokers then create its topic.
    Raises: NoSuchGroupError, BrokersUnavailableError, MissingListenerError, DamagedRecordError,
    ZooKeeperError.
    """
    store, group = sides.store, sides.group
    if store.exists(GroupPath(group).path) is None:
        raise NoSuchGroupError(group)
    record = read_record(store, group)
    members = read_members(store, [group])
    ids = {member.consumer_id for member in members}
    rows = {
        TopicPartition(row.topic, row.partition): row
        for row in read_group_partitions(store, [group], include_unclaimed=True)
    }
    # the offsets are read again below: a later write has a greater zxid than all of these
    zxid = max((row.written.zxid or 0 for row in rows.values()), default=0)
    existing = _all_partitions(store)
    readable = {tp.topic for tp in existing}
    asked = sorted(rows.keys() | existing)
    is_asked = will_write or has_coordinators(store)
    in_kafka = read_kafka(sides, asked) if is_asked else dict.fromkeys(asked, _NO_OFFSET)
    kafka_members = sides.kafka_members() if is_asked else ()
    shown = [tp for tp in asked if tp in rows or in_kafka[tp].offset is not None]
    offsets = ZooKeeperOffsetStore(store, group)
    in_zookeeper = offsets.read(shown)
    logs = _read_logs(sides.log_offsets, [tp for tp in shown if in_zookeeper[tp].topic is not None])
    looks = []
    for tp in shown:
        row = rows.get(tp)
        owner = None if row is None or row.owner is None else owner_id(row.owner)
        zookeeper = in_zookeeper[tp]
        looks.append(
            PartitionLook(
                tp,
                zookeeper,
                committed_in_kafka(in_kafka[tp], zookeeper.topic),
                owner if owner in ids else None,
                logs.get(tp),
                zookeeper.problem,
                None if row is None else row.unreadable,
                exists=tp in existing or (zookeeper.topic is not None and tp.topic not in readable),
                is_marked=is_marked(in_kafka[tp]),
                is_moved=record is not None and zookeeper.transaction > record.zxid,
            )
        )
    return Look(group, tuple(members), kafka_members, tuple(looks), record, zxid)


def has_offsets_in_kafka(sides: Sides) -> bool:
    """Return whether the group has an offset in Kafka, of any topic of the cluster. Raises: BrokersUnavailableError."""
    found = read_kafka(sides, _all_partitions(sides.store)) if has_coordinators(sides.store) else {}
    return any(one.offset is not None for one in found.values())


def read_kafka(sides: Sides, partitions: Collection[TopicPartition]) -> dict[TopicPartition, KafkaOffset]:
    """Return the group's offsets in Kafka, once its coordinator is ready. Raises: BrokersUnavailableError."""
    if not partitions:
        return {}
    found: dict[TopicPartition, KafkaOffset] = coordinator_answer(_BACKOFF_S, ANSWER_WITHIN_S)(
        sides.kafka.read, partitions, ANSWER_WITHIN_S
    )
    return {tp: found.get(tp, UNTOLD) for tp in partitions}


def _all_partitions(store: ZkStore) -> set[TopicPartition]:
    once = TopicsOnce(store)
    lives = once.lives([topic for topic in once.names() if topic not in _INTERNAL])
    for topic, problem in sorted(once.problems.items()):
        logger.warning("partitions of topic %s may be missing: %s", topic, problem)
    return {TopicPartition(topic, partition) for topic, life in lives.items() for partition in life.partitions}


def _read_logs(log_offsets: LogOffsets, partitions: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    if not partitions:
        return {}
    begins, ends = log_offsets.earliest(partitions), log_offsets.latest(partitions)
    return {tp: (begins[tp], ends[tp]) for tp in partitions if tp in begins and tp in ends}
