"""One group as an operator wants to see it: who is in it, who owns what, and how far behind it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from legacy_consumer.admin.group_members import RegisteredMember, read_members
from legacy_consumer.admin.group_table import GroupPartition, read_group_partitions
from legacy_consumer.errors import BrokersUnavailableError, MissingListenerError, NoSuchGroupError
from legacy_consumer.fetcher import LogOffsets
from rebalance.clock import Clock, SystemClock
from rebalance.group_strategy import Strategy, owner_id, strategies_of_group, strategies_of_members
from rebalance.group_warnings import GroupWarning, group_warnings
from rebalance.reader import GroupReader
from rebalance.subscription import is_wildcard
from zk_layout.model import ConsumerRegistration, TopicPartition
from zk_layout.paths import GroupPath
from zk_layout.store import ZkStore


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member whose registration can be read.

    subscription: ((topic or regex, stream count), ...). threads: all its streams.
    partitions: how many it owns. registered_at_ms: by ZooKeeper's clock.
    kind: which client seems to have registered it. divides_by: the strategies that give it just what it owns.
    """

    consumer_id: str
    pattern: str
    subscription: tuple[tuple[str, int], ...]
    threads: int
    partitions: int
    registered_at_ms: int
    kind: str
    divides_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableMember:
    """A registration that no member can read, and over which members of the JVM fail every rebalance."""

    consumer_id: str
    problem: str
    registered_at_ms: int
    kind: str


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far behind a group is in one partition.

    owner_is_member: whether the owner belongs to a registered member; False without an owner.
    log_end: the offset after the last message; None if no broker said.
    lag: None unless both offsets are known; below 0 if the committed offset lies beyond the end of the log.
    committed_age_ms: since the last commit.
    error: what is wrong with the znodes of the partition.
    """

    topic: str
    partition: int
    owner: str | None
    owner_is_member: bool
    owned_since_ms: int | None
    committed: int | None
    committed_at_ms: int | None
    committed_age_ms: int | None
    log_end: int | None
    lag: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group at one moment.

    no_log_ends: why no log end is known, if none is.
    divides_by: the strategies, all of them, that explain who owns what; none while the group moves or disagrees.
    warnings: what cannot work, and what to do.
    """

    group: str
    members: tuple[GroupMember, ...]
    unreadable: tuple[UnreadableMember, ...]
    partitions: tuple[PartitionLag, ...]
    no_log_ends: str | None = None
    divides_by: tuple[str, ...] = ()
    warnings: tuple[GroupWarning, ...] = ()

    @property
    def total_lag(self) -> int:
        """The messages still to be consumed, as far as known; an offset beyond the log's end counts as none."""
        return sum(max(0, row.lag) for row in self.partitions if row.lag is not None)

    @property
    def unowned(self) -> int:
        """How many partitions no registered member owns."""
        return sum(not row.owner_is_member for row in self.partitions)


def describe_group(
    store: ZkStore, log_offsets: LogOffsets, group: str, *, clock: Clock | None = None
) -> GroupDescription:
    """Describe every partition that the group owns, has committed or subscribes to.

    Brokers that cannot be asked leave log end and lag open, and the reason in no_log_ends.
    Raises: NoSuchGroupError, ZooKeeperError.
    """
    if store.exists(GroupPath(group).path) is None:
        raise NoSuchGroupError(group)
    registered = read_members(store, [group])
    rows = read_group_partitions(store, [group], include_unclaimed=True)
    log_ends, no_log_ends = _log_ends(log_offsets, [TopicPartition(row.topic, row.partition) for row in rows])
    now_ms = (clock or SystemClock()).wall_ms()
    ids = {member.consumer_id for member in registered}
    partitions = tuple(_with_lag(row, log_ends, ids, now_ms) for row in rows)
    owned = Counter(owner_id(row.owner) for row in partitions if row.owner is not None)
    owners = {TopicPartition(row.topic, row.partition): row.owner for row in rows if row.owner is not None}
    group_now = GroupReader(store, group, exclude_internal_topics=True, on_change=None).read()
    shown = strategies_of_members(group_now, owners)
    return GroupDescription(
        group,
        members=tuple(
            _member(member, member.registration, owned, shown.get(member.consumer_id, ()))
            for member in registered
            if member.registration is not None
        ),
        unreadable=tuple(
            UnreadableMember(member.consumer_id, member.problem, member.registered_at_ms, member.kind.value)
            for member in registered
            if member.problem is not None
        ),
        partitions=partitions,
        no_log_ends=no_log_ends,
        divides_by=tuple(map(str, strategies_of_group(group_now, owners))),
        warnings=tuple(group_warnings(group_now, owners)),
    )


def _log_ends(
    log_offsets: LogOffsets, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], str | None]:
    if not partitions:
        return {}, None
    try:
        return log_offsets.latest(partitions), None
    except (BrokersUnavailableError, MissingListenerError) as error:
        # the group's own znodes are worth showing without the brokers
        return {}, str(error)


def _with_lag(
    row: GroupPartition, log_ends: dict[TopicPartition, int], ids: Collection[str], now_ms: int
) -> PartitionLag:
    log_end = log_ends.get(TopicPartition(row.topic, row.partition))
    lag = None if row.committed is None or log_end is None else log_end - row.committed
    # two clocks: what ZooKeeper stamped a moment ago may lie in our future
    age_ms = None if row.committed_at_ms is None else max(0, now_ms - row.committed_at_ms)
    return PartitionLag(
        topic=row.topic,
        partition=row.partition,
        owner=row.owner,
        owner_is_member=row.owner is not None and owner_id(row.owner) in ids,
        owned_since_ms=row.owned_since_ms,
        committed=row.committed,
        committed_at_ms=row.committed_at_ms,
        committed_age_ms=age_ms,
        log_end=log_end,
        lag=lag,
        error=row.error,
    )


def _member(
    member: RegisteredMember, registration: ConsumerRegistration, owned: Counter[str], shown: Sequence[Strategy]
) -> GroupMember:
    counted = registration.subscription[:1] if is_wildcard(registration) else registration.subscription
    return GroupMember(
        consumer_id=member.consumer_id,
        pattern=registration.pattern.value,
        subscription=counted,
        threads=sum(streams for _, streams in counted),
        partitions=owned[member.consumer_id],
        registered_at_ms=member.registered_at_ms,
        kind=member.kind.value,
        divides_by=tuple(map(str, shown)),
    )
