"""Verifies that a group's rebalance is over and its result is sound, as Kafka's VerifyConsumerRebalance, and more.

Sound means: every partition of every topic that a member subscribes to is owned exactly once, by a stream of a member
that is registered for that topic, and the session of that member holds the owner znode. No other partition is owned.
Each of these topics can be read. No request for a reset stays without a client that ends it; a running reset is
reported, but is no problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from legacy_consumer.errors import NoSuchGroupError
from legacy_consumer.member.resets import StandingReset, standing_reset
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.group_members import read_members
from legacy_consumer.operations.admin.group_snapshots import read_snapshots
from legacy_consumer.operations.admin.group_table import GroupPartition, read_group_partitions
from legacy_consumer.operations.admin.led_groups import follows_leader
from rebalance.assignors.threads import threads_per_topic
from rebalance.errors import AssignmentRefusedError
from rebalance.group_strategy import ClassicStrategy, owner_id, strategies_of_group
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.errors import NotPermittedError
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.paths import ConsumerIdPath, GroupPath, OwnerPath, OwnersPath, TopicOwnersPath
from zk_layout.store import ZkStore


@dataclass(frozen=True, slots=True)
class Problem:
    """One violation. code: a word for programs; topic and partition if it is about one."""

    code: str
    text: str
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """members: their number; without members there is nothing to check. partitions: the number that should be owned.

    divides_by: the strategies that explain the owners. is_led: whether a leader's assignor chose the owners.
    running_reset: the reset that a command is carrying out.
    """

    group: str
    members: int
    partitions: int
    problems: tuple[Problem, ...]
    divides_by: tuple[str, ...] = ()
    running_reset: StandingReset | None = None
    is_led: bool = False

    @property
    def is_sound(self) -> bool:
        """Return whether there is no problem."""
        return not self.problems


def verify_groups(
    store: ZkStore, groups: Sequence[str], *, strategy: ClassicStrategy | None = None
) -> list[Verification]:
    """As verify_group, for many groups. A group that an ACL hides is not sound; one that is gone is left out."""
    found: list[Verification] = []
    for group in groups:
        try:
            found.append(verify_group(store, group, strategy=strategy))
        except NotPermittedError as error:
            found.append(Verification(group, 0, 0, (Problem("not_permitted", str(error)),)))
        except NoSuchGroupError:
            continue
    return found


def verify_group(store: ZkStore, group: str, *, strategy: ClassicStrategy | None = None) -> Verification:
    """Verify a group from one reading. strategy: how the group should divide its partitions; None = do not check that.

    Raises: NoSuchGroupError, ZooKeeperError.
    """
    members = read_members(store, [group])
    cluster = TopicsOnce(store)
    snapshot = read_snapshots(store, members, cluster).get(group, GroupSnapshot(group, {}, {}))
    rows = read_group_partitions(store, [group])
    owned = {TopicPartition(row.topic, row.partition): row for row in rows if row.owner is not None}
    owners = {tp: row.owner or "" for tp, row in owned.items()}
    sessions = {member.consumer_id: member.session_id for member in members}
    ghosts = [ConsumerIdPath(group, member.consumer_id).path for member in members if not member.session_id]
    expected = [TopicPartition(topic, number) for topic, numbers in snapshot.partitions.items() for number in numbers]
    unknown = [tp for tp in owned if tp.topic in cluster.problems]
    due, refusal = _divide(snapshot, strategy)
    problems = [
        *(Problem("unreadable_member", f"{name}: {reason}") for name, reason in snapshot.unreadable.items()),
        *(Problem("unreadable_topic", str(reason), topic) for topic, reason in sorted(cluster.problems.items())),
        *(Problem("permanent_member", f"{path} is not ephemeral: it stays when its member is gone") for path in ghosts),
        *_foreign_names(store, group),
        *_permanent_owners(group, owned),
        *_of_expected(snapshot, expected, owned, sessions, due, strategy),
        *_unexpected(snapshot, {*expected, *unknown}, owned),
        *_of_strategy(due, owners, strategy),
        *refusal,
    ]
    reset = standing_reset(store, group)
    # asked last: a group that was deleted during the reads must not look like an empty one
    if store.exists(GroupPath(group).path) is None:
        raise NoSuchGroupError(group)
    is_running = reset is not None and reset.is_running
    if reset is not None and not is_running:
        problems.append(Problem("reset", f"{reset.text}; {reset.advice}"))
    divides_by = tuple(map(str, strategies_of_group(snapshot, owners))) if members else ()
    running = reset if is_running else None
    readable = [member for member in members if member.registration is not None]
    is_led = bool(readable) and all(map(follows_leader, readable))
    return Verification(group, len(members), len(expected), tuple(problems), divides_by, running, is_led)


def _of_expected(
    snapshot: GroupSnapshot,
    expected: Sequence[TopicPartition],
    owned: Mapping[TopicPartition, GroupPartition],
    sessions: Mapping[str, int],
    due: Assignment,
    strategy: ClassicStrategy | None,
) -> Iterator[Problem]:
    threads = threads_per_topic(snapshot)
    for tp in expected:
        row = owned.get(tp)
        if row is None or row.owner is None:
            should = f", and by {strategy} {due[tp]} should own it" if tp in due else ""
            yield Problem("no_owner", f"no owner for {tp}{should}", *tp)
            continue
        owner = owner_id(row.owner)
        if not row.owner_session:
            continue  # _permanent_owners reports it, whatever its text
        if owner not in sessions:
            yield Problem("unknown_owner", f"{row.owner} owns {tp} and is no registered member", *tp)
        elif not _is_among(row.owner, threads.get(tp.topic, ())):
            yield Problem("wrong_thread", f"{row.owner} owns {tp} and has no such stream for the topic", *tp)
        elif row.owner_session != sessions[owner]:
            yield Problem(
                "wrong_session",
                f"{tp} is held by session 0x{row.owner_session:x}, while its owner {owner} lives in "
                f"0x{sessions[owner]:x}",
                *tp,
            )


def _permanent_owners(group: str, owned: Mapping[TopicPartition, GroupPartition]) -> Iterator[Problem]:
    """Report owner znodes that no session ends: other members would wait for them for ever."""
    for tp, row in owned.items():
        if not row.owner_session:
            path = OwnerPath(group, *tp).path
            yield Problem(
                "permanent_owner",
                f"{path} is not ephemeral: it blocks {tp} until somebody deletes it; make sure that no member consumes "
                "the partition, then delete the znode with ZooKeeper's own client",
                *tp,
            )


def _is_among(owner: str, threads: Sequence[ConsumerThreadId]) -> bool:
    return any(owner in (str(thread), thread.consumer_id) for thread in threads)


def _unexpected(
    snapshot: GroupSnapshot, expected: set[TopicPartition], owned: Mapping[TopicPartition, GroupPartition]
) -> Iterator[Problem]:
    for tp in sorted(owned.keys() - expected):
        known = "the topic has no such partition" if tp.topic in snapshot.partitions else "no member subscribes to it"
        yield Problem("not_to_be_owned", f"{owned[tp].owner} owns {tp}, but {known}", *tp)


def _foreign_names(store: ZkStore, group: str) -> Iterator[Problem]:
    """Report owner znodes whose name is no partition: members of Kafka do not see them and own the same messages."""
    [topics] = store.get_children_many([OwnersPath(group).path])
    paths = [TopicOwnersPath(group, topic).path for topic in topics or ()]
    for topic, path, names in zip(topics or (), paths, store.get_children_many(paths), strict=True):
        for name in names or ():
            if OwnerPath.parse(f"{path}/{name}") is None:
                yield Problem(
                    "foreign_owner",
                    f"{path}/{name} is no name that Kafka's members use (pykafka and Kafka 0.7 do): other members do "
                    "not see this owner and read the same messages; give that client a group of its own",
                    topic,
                )


def _divide(snapshot: GroupSnapshot, strategy: ClassicStrategy | None) -> tuple[Assignment, Sequence[Problem]]:
    """Return the thread that should own each partition by this strategy, or why the strategy refuses."""
    if strategy is None:
        return {}, ()
    try:
        return strategy.assign(snapshot), ()
    except AssignmentRefusedError as error:
        return {}, (Problem("strategy_refuses", str(error)),)


def _of_strategy(
    due: Assignment, owners: Mapping[TopicPartition, str], strategy: ClassicStrategy | None
) -> Iterator[Problem]:
    """Yield the partitions that another member should own; no_owner yields the partitions without an owner."""
    for tp, thread in due.items():
        owner = owners.get(tp)
        if owner is not None and owner not in (str(thread), thread.consumer_id):
            yield Problem("other_owner", f"{owner} owns {tp}, and by {strategy} {thread} should own it", *tp)
