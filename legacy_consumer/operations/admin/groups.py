"""Descriptions of groups for operators: the members, the owners of the partitions, and the lag."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from legacy_consumer.errors import BrokersUnavailableError, MissingListenerError, NoSuchGroupError
from legacy_consumer.fetching.fetcher import LogOffsets
from legacy_consumer.member.resets import StandingReset, standing_resets
from legacy_consumer.offsets.judgement import Judgement, Verdict
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.group_members import RegisteredMember, read_members
from legacy_consumer.operations.admin.group_reads import read_apart
from legacy_consumer.operations.admin.group_snapshots import consumed_topics, read_snapshots
from legacy_consumer.operations.admin.group_table import GroupPartition, read_group_partitions
from legacy_consumer.operations.admin.leadership import read_leaders
from legacy_consumer.operations.admin.led_groups import LedGroup, read_led_groups
from rebalance.clock import Clock, SystemClock
from rebalance.group_strategy import ClassicStrategy, owner_id, strategies_of_group, strategies_of_members
from rebalance.group_warnings import GroupWarning, group_warnings
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import is_wildcard
from zk_layout.closed_znodes import exist_each
from zk_layout.errors import NotPermittedError
from zk_layout.model import ConsumerRegistration, TopicPartition
from zk_layout.paths import GroupPath
from zk_layout.store import ZkStore

_NOTHING = Judgement(Verdict.NONE)


class Hold(Enum):
    """Which session holds an owner znode: that decides when ZooKeeper deletes the znode."""

    LIVE = "live"
    """The session of the member that the znode names."""
    OTHER = "other session"
    """The named member is registered in another session: an old claim, which ends with the znode's session."""
    GONE = "no member"
    """A session holds the znode, but the named member is not registered."""
    PERMANENT = "permanent"
    """No session: the znode is not ephemeral, and blocks the partition until an operator deletes it."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member whose registration can be read.

    subscription: ((topic or regex, stream count), ...). threads: the number of its streams.
    partitions: the number that it owns. registered_at_ms: by ZooKeeper's clock.
    kind: the client that seems to have registered it. divides_by: the strategies that give it just what it owns.
    session_id: the session that holds its registration; 0 = none: the registration stays when the member is gone.
    brokers: the number of brokers that lead its partitions, so the number that it must connect to.
    """

    consumer_id: str
    pattern: str
    subscription: tuple[tuple[str, int], ...]
    threads: int
    partitions: int
    registered_at_ms: int
    kind: str
    divides_by: tuple[str, ...] = ()
    session_id: int = 0
    brokers: int = 0


@dataclass(frozen=True, slots=True)
class UnreadableMember:
    """A registration that no member can read. JVM members fail every rebalance because of it."""

    consumer_id: str
    problem: str
    registered_at_ms: int
    kind: str
    session_id: int = 0


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group's lag in one partition.

    owner_is_member: whether the owner belongs to a registered member; False without an owner.
    committed: None if there is no offset that counts; see judgement.
    log_end: the offset after the last message; None if no broker answered.
    lag: see GroupPartition.lag.
    committed_age_ms: the time since the last commit.
    error: what is wrong with the znodes of the partition.
    owner_session, hold: the session that holds the owner znode, and its meaning; None without an owner.
    log_begin: the offset of the first message; brokers are asked only if it makes a difference.
    judgement: whether the committed offset counts for the present topic.
    topic_czxid: the zxid of the topic's creation; None if there is no topic.
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
    owner_session: int | None = None
    hold: Hold | None = None
    log_begin: int | None = None
    judgement: Judgement = _NOTHING
    topic_czxid: int | None = None

    @property
    def problem(self) -> str | None:
        """The reason why the committed offset cannot be right, if its lag does not show that already."""
        if self.error is not None:
            return self.error
        found = self.judgement
        if found.verdict in {Verdict.EARLIER_TOPIC, Verdict.BEFORE_LOG}:
            return f"offset {found.offset} is {found.verdict.value}: {found.reason}"
        return None

    @property
    def in_log(self) -> int | None:
        """The number of messages in the log; None unless both its ends are known."""
        return None if self.log_end is None or self.log_begin is None else self.log_end - self.log_begin


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group at one moment.

    no_log_ends: why no log end is known; None if some are.
    divides_by: all strategies that explain the owners; none while partitions move or members disagree.
    warnings: what cannot work, and what to do.
    subscribed: the topics that a member subscribes to and that exist.
    left: the partitions that the group no longer consumes: they or their topic are gone, or all members have left the
    topic. The totals and the verdict on the group leave them out. gone: the part of `left` that does not exist.
    problem: why the group cannot be read; then nothing else about it is known.
    topic_problems: why topics of the group cannot be read; the partitions of these topics are not known.
    reset: the present request to reset its offsets. led: the state of a led group; None if no member follows a leader.
    """

    group: str
    members: tuple[GroupMember, ...]
    unreadable: tuple[UnreadableMember, ...]
    partitions: tuple[PartitionLag, ...]
    no_log_ends: str | None = None
    divides_by: tuple[str, ...] = ()
    warnings: tuple[GroupWarning, ...] = ()
    subscribed: frozenset[str] = frozenset()
    left: frozenset[TopicPartition] = frozenset()
    gone: frozenset[TopicPartition] = frozenset()
    problem: str | None = None
    reset: StandingReset | None = None
    led: LedGroup | None = None
    topic_problems: tuple[str, ...] = ()

    @property
    def total_lag(self) -> int | None:
        """The number of messages still to be consumed, as far as known; an offset beyond the log's end counts as 0.

        None if no lag is known.
        """
        consumed = self.consumed
        known = [max(0, row.lag) for row in consumed if row.lag is not None]
        return sum(known) if self.problem is None and (known or not consumed) else None

    @property
    def unknown_lags(self) -> int:
        """The number of partitions that total_lag leaves out because their lag is not known."""
        return sum(row.lag is None for row in self.consumed)

    @property
    def consumed(self) -> tuple[PartitionLag, ...]:
        """The partitions that the group consumes: all partitions except `left`."""
        return tuple(row for row in self.partitions if TopicPartition(row.topic, row.partition) not in self.left)

    @property
    def left_names(self) -> list[str]:
        """The names of what `left` holds: a topic, or single partitions if other partitions of the topic count."""
        counted = {row.topic for row in self.consumed}
        return sorted({str(tp) if tp.topic in counted else tp.topic for tp in self.left})

    @property
    def unowned(self) -> int:
        """The number of partitions that no registered member owns."""
        return sum(not row.owner_is_member for row in self.consumed)


@dataclass(frozen=True, slots=True)
class _ReadGroup:
    """The znodes of a group, as read."""

    group: str
    members: Sequence[RegisteredMember]
    rows: Sequence[GroupPartition]
    snapshot: GroupSnapshot
    reset: StandingReset | None
    leaders: Mapping[TopicPartition, int]
    led: LedGroup | None
    topic_problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Logs:
    """The brokers' answers about logs. silence: why no broker answered."""

    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    silence: str | None = None

    def of(self, row: GroupPartition) -> tuple[int | None, int | None]:
        """Return the first offset and the end of a row's log, each None if unknown."""
        tp = TopicPartition(row.topic, row.partition)
        return self.begins.get(tp), self.ends.get(tp)


def describe_group(
    store: ZkStore, log_offsets: LogOffsets, group: str, *, clock: Clock | None = None
) -> GroupDescription:
    """Describe every partition that the group owns, has committed or subscribes to.

    If the brokers do not answer, log ends and lags are None, and no_log_ends is the reason.
    Raises: NoSuchGroupError, ZooKeeperError.
    """
    read = _read_groups(store, [group], None, clock)
    # asked last: a group that was deleted during the reads must not look like an empty one
    if store.exists(GroupPath(group).path) is None:
        raise NoSuchGroupError(group)
    [found] = _described(read, log_offsets, clock)
    return found


def describe_groups(
    store: ZkStore,
    log_offsets: LogOffsets | None,
    groups: Sequence[str],
    *,
    topics: Callable[[str], bool] | None = None,
    clock: Clock | None = None,
) -> list[GroupDescription]:
    """As describe_group, for many groups: the number of requests does not grow with the number of groups.

    Groups that do not exist are left out; a group that an ACL hides has a problem.
    log_offsets: None = ask no broker; log ends and lags are then None. topics: whether a topic is wanted; the others
    are not read.
    """
    read, forbidden = read_apart(groups, lambda some: _read_groups(store, some, topics, clock))
    # asked last: a group that was deleted during the reads must not look like an empty one
    exist = exist_each(store, [GroupPath(group).path for group in groups])
    present = dict.fromkeys(group for group, exists in zip(groups, exist, strict=True) if exists)
    described = _described([one for one in read if one.group in present], log_offsets, clock)
    found = {one.group: one for one in described}
    return [
        GroupDescription(group, (), (), (), problem=str(forbidden[group])) if group in forbidden else found[group]
        for group in present
    ]


def _read_groups(
    store: ZkStore, groups: Sequence[str], topics: Callable[[str], bool] | None, clock: Clock | None
) -> list[_ReadGroup]:
    members: dict[str, list[RegisteredMember]] = {group: [] for group in groups}
    registered = read_members(store, groups)
    for member in registered:
        members[member.group].append(member)
    cluster = TopicsOnce(store)
    rows: dict[str, list[GroupPartition]] = {group: [] for group in groups}
    for row in read_group_partitions(
        store, groups, topics=topics, include_unclaimed=True, members=registered, cluster=cluster
    ):
        rows[row.group].append(row)
    snapshots = read_snapshots(store, registered, cluster)
    topics_of = {group: set(found.partitions) for group, found in snapshots.items()}
    owned = {TopicPartition(row.topic, row.partition) for own in rows.values() for row in own if row.owner is not None}
    leaders = read_leaders(store, sorted(owned))
    led = read_led_groups(store, registered)
    return [
        _ReadGroup(
            group,
            members[group],
            rows[group],
            snapshots.get(group) or GroupSnapshot(group, {}, {}),
            reset,
            leaders,
            led.get(group),
            tuple(
                str(cluster.problems[topic])
                for topic in sorted({row.topic for row in rows[group]} | topics_of.get(group, set()))
                if topic in cluster.problems
            ),
        )
        for group, reset in zip(groups, standing_resets(store, groups, clock=clock), strict=True)
    ]


def _described(
    read: Sequence[_ReadGroup], log_offsets: LogOffsets | None, clock: Clock | None
) -> list[GroupDescription]:
    logs = _ask(log_offsets, [row for one in read for row in one.rows])
    now_ms = (clock or SystemClock()).wall_ms()
    return [_description(one, logs, now_ms) for one in read]


def _description(read: _ReadGroup, logs: _Logs, now_ms: int) -> GroupDescription:
    registered, snapshot = read.members, read.snapshot
    sessions = {member.consumer_id: member.session_id for member in registered}
    owners = {TopicPartition(row.topic, row.partition): row.owner for row in read.rows if row.owner is not None}
    owned: dict[str, list[TopicPartition]] = {}
    for tp, thread in owners.items():
        owned.setdefault(owner_id(thread), []).append(tp)
    shown = strategies_of_members(snapshot, owners) if registered else {}
    return GroupDescription(
        read.group,
        members=tuple(
            _member(
                member,
                member.registration,
                owned.get(member.consumer_id, ()),
                shown.get(member.consumer_id, ()),
                read.leaders,
            )
            for member in registered
            if member.registration is not None
        ),
        unreadable=tuple(
            UnreadableMember(
                member.consumer_id, member.problem, member.registered_at_ms, member.kind.value, member.session_id
            )
            for member in registered
            if member.problem is not None
        ),
        partitions=tuple(partition_lag(row, logs.of(row), sessions, now_ms) for row in read.rows),
        no_log_ends=logs.silence,
        divides_by=tuple(map(str, strategies_of_group(snapshot, owners))) if registered else (),
        warnings=tuple(group_warnings(snapshot, owners)),
        subscribed=frozenset(snapshot.partitions),
        left=frozenset(_left(read)),
        gone=frozenset(TopicPartition(row.topic, row.partition) for row in read.rows if not row.exists),
        reset=read.reset,
        led=read.led,
        topic_problems=read.topic_problems,
    )


def _left(read: _ReadGroup) -> Iterator[TopicPartition]:
    topics = consumed_topics(read.snapshot)
    for row in read.rows:
        if not row.exists or (topics is not None and row.topic not in topics):
            yield TopicPartition(row.topic, row.partition)


def _ask(log_offsets: LogOffsets | None, rows: Collection[GroupPartition]) -> _Logs:
    """Return the ends of all logs, and the first offsets of the logs that a group has not read to the end."""
    if log_offsets is None or not rows:
        return _Logs({}, {})
    try:
        ends = log_offsets.latest(sorted({TopicPartition(row.topic, row.partition) for row in rows}))
        behind = sorted(
            {tp for row in rows if (row.committed or 0) < ends.get(tp := TopicPartition(row.topic, row.partition), 0)}
        )
        return _Logs(log_offsets.earliest(behind) if behind else {}, ends)
    except (BrokersUnavailableError, MissingListenerError, NotPermittedError) as error:
        # operators need the group's own znodes even if no broker answers
        return _Logs({}, {}, str(error))


def partition_lag(
    row: GroupPartition, log: tuple[int | None, int | None], sessions: Mapping[str, int], now_ms: int
) -> PartitionLag:
    """Return a group's lag in one partition. Every tool that shows a lag takes it from here.

    log: its first offset and its end, each None if unknown. sessions: {registered member of the group: its session}.
    """
    begin, end = log
    if end == 0:
        begin = 0  # _ask did not ask for the first offset of an empty log
    # if _ask did not ask for the first offset, the committed one lies at the end of the log or beyond
    judgement = row.judge(None if end is None else (begin or 0, end))
    # the two clocks differ: ZooKeeper's time of a recent commit may be later than this machine's time
    age_ms = None if row.committed_at_ms is None else max(0, now_ms - row.committed_at_ms)
    owner = None if row.owner is None else owner_id(row.owner)
    return PartitionLag(
        topic=row.topic,
        partition=row.partition,
        owner=row.owner,
        owner_is_member=owner in sessions,
        owned_since_ms=row.owned_since_ms,
        committed=row.committed,
        committed_at_ms=row.committed_at_ms,
        committed_age_ms=age_ms,
        log_end=end,
        lag=row.lag(judgement, begin, end),
        error=row.error,
        owner_session=row.owner_session,
        hold=None if owner is None else _hold(row.owner_session, sessions.get(owner)),
        log_begin=begin,
        judgement=judgement,
        topic_czxid=row.topic_czxid,
    )


def _hold(owner_session: int | None, member_session: int | None) -> Hold:
    if not owner_session:
        return Hold.PERMANENT
    if member_session is None:
        return Hold.GONE
    return Hold.LIVE if owner_session == member_session else Hold.OTHER


def _member(
    member: RegisteredMember,
    registration: ConsumerRegistration,
    owned: Sequence[TopicPartition],
    shown: Sequence[ClassicStrategy],
    leaders: Mapping[TopicPartition, int],
) -> GroupMember:
    counted = registration.subscription[:1] if is_wildcard(registration) else registration.subscription
    return GroupMember(
        consumer_id=member.consumer_id,
        pattern=registration.pattern.value,
        subscription=counted,
        threads=sum(streams for _, streams in counted),
        partitions=len(owned),
        registered_at_ms=member.registered_at_ms,
        kind=member.kind.value,
        divides_by=tuple(map(str, shown)),
        session_id=member.session_id,
        brokers=len({leaders[tp] for tp in owned if tp in leaders}),
    )
