"""Calls an assignor, checks its result, and holds back partitions that a cooperative group may not assign yet.

The coordinator calls `divide_group`. If that raises, the group continues with the result of `keep_shares`: no member
loses its share because an assignor fails.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rebalance.assignors.members import NO_GENERATION, Memory, latest_owners
from rebalance.assignors.seam import (
    Assignor,
    Cluster,
    GroupAssignment,
    MemberAssignment,
    RebalanceProtocol,
    Subscriptions,
    given,
    sorted_subscriptions,
)
from rebalance.errors import AssignorFailedError
from zk_layout.model import TopicPartition
from zk_layout.shown import in_one_line

MAX_USER_DATA_BYTES = 1 << 20
"""The most bytes of one member. The metadata of all members must fit into the leader's memory, and those of each member
into one znode or request.
"""


def divide_group(
    assignor: Assignor, protocol: RebalanceProtocol, cluster: Cluster, subscriptions: Subscriptions
) -> GroupAssignment:
    """Return the partitions that each member may fetch in this generation; every member is in the result.

    Eager: the assignor's result. Cooperative: the same without partitions that another member still has.

    Raises: AssignorFailedError with the assignor's fault.
    """
    asked = sorted_subscriptions(subscriptions)
    for member, subscription in asked.items():
        if (size := len(subscription.user_data)) > MAX_USER_DATA_BYTES:
            raise AssignorFailedError(
                assignor.name, f"member {member} tells {size} bytes of user data, {MAX_USER_DATA_BYTES} are allowed"
            )
    with _faults_of(assignor, "it"):
        # the assignor gets its own copy, so that its changes have no effect on `asked`
        said = assignor.assign(cluster.in_order(), sorted_subscriptions(asked))
        assignment = _checked(assignor.name, said, cluster, asked)
    return assignment if protocol is RebalanceProtocol.EAGER else _hold_back(assignment, asked)


def user_data_of(assignor: Assignor, topics: Sequence[str]) -> bytes:
    """Return the assignor's user data for the leader. Raises: AssignorFailedError with the assignor's fault."""
    with _faults_of(assignor, "its subscription_user_data"):
        data: object = assignor.subscription_user_data(topics)
    if not isinstance(data, bytes):
        what = f"its subscription_user_data returned {type(data).__name__} and not bytes"
        raise AssignorFailedError(assignor.name, what)
    if len(data) > MAX_USER_DATA_BYTES:
        what = f"its subscription_user_data returned {len(data)} bytes, {MAX_USER_DATA_BYTES} are allowed"
        raise AssignorFailedError(assignor.name, what)
    return data


def tell_share(assignor: Assignor, share: MemberAssignment, generation: int) -> None:
    """Pass its member's share to the assignor. Raises: AssignorFailedError with the assignor's fault."""
    with _faults_of(assignor, "its on_assignment"):
        assignor.on_assignment(share, generation)


def keep_shares(
    protocol: RebalanceProtocol,
    cluster: Cluster,
    subscriptions: Subscriptions,
    previous: Mapping[str, Sequence[TopicPartition]],
) -> GroupAssignment:
    """Return an assignment without an assignor: each remaining member keeps its partitions.

    A partition without an owner, because its member left or the topic grew, goes to the subscriber with the smallest
    share, the first of them as Java sorts text. In a cooperative group nobody gets it as long as another member says
    that it owns it.
    """
    asked = sorted_subscriptions(subscriptions)
    shares: dict[str, list[TopicPartition]] = {member: [] for member in asked}
    kept: set[TopicPartition] = set()
    takers: dict[str, list[str]] = {}
    for member, subscription in asked.items():
        # a set, because the loop looks up the topic of each partition
        topics = frozenset(subscription.topics)
        for topic in topics:
            takers.setdefault(topic, []).append(member)
        for partition in previous.get(member, ()):
            if partition.topic in topics and cluster.has(partition) and partition not in kept:
                kept.add(partition)
                shares[member].append(partition)
    for partition in sorted(_to_divide(cluster, asked) - kept):
        shares[min(takers[partition.topic], key=lambda member: len(shares[member]))].append(partition)
    assignment = given(shares)
    return assignment if protocol is RebalanceProtocol.EAGER else _hold_back(assignment, asked)


@contextmanager
def _faults_of(assignor: Assignor, what: str) -> Iterator[None]:
    """Turn any error of the assignor into AssignorFailedError.

    Also SystemExit and a cancellation: they would end the leader's thread, and so stop the group. But a
    KeyboardInterrupt in the main thread, the only one that Python interrupts, comes from the user and is passed on.
    """
    try:
        yield
    except AssignorFailedError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        raise AssignorFailedError(assignor.name, f"{what} raised {in_one_line(error)}") from error


def _to_divide(cluster: Cluster, subscriptions: Subscriptions) -> set[TopicPartition]:
    topics = {topic for subscription in subscriptions.values() for topic in subscription.topics}
    return {partition for topic in topics for partition in cluster.partitions(topic)}


def _checked(name: str, said: Any, cluster: Cluster, subscriptions: Subscriptions) -> dict[str, MemberAssignment]:
    """Return the assignment, sorted. Raises: AssignorFailedError at the first fault.

    Each part of the result is read once, and the returned assignment holds the cluster's own partitions. So it holds
    nothing unchecked, whatever objects the assignor returns: iterators, 1.0 and True for 1, lists for bytes.
    """
    if not isinstance(said, Mapping):
        raise AssignorFailedError(name, f"it returned {type(said).__name__} and not what each member is given")
    existing = {partition: partition for topic in cluster.topics for partition in cluster.partitions(topic)}
    holders: dict[TopicPartition, str] = {}
    assignment = dict.fromkeys(subscriptions, MemberAssignment())
    for member, share in said.items():
        if member not in subscriptions:
            raise AssignorFailedError(name, f"it gives to {member!r}, which is no member")
        if not isinstance(share, MemberAssignment):
            raise AssignorFailedError(
                name, f"it gives {type(share).__name__} and not a MemberAssignment to member {member}"
            )
        user_data: object = share.user_data
        if not isinstance(user_data, bytes):
            raise AssignorFailedError(
                name, f"its user data for member {member} are {type(user_data).__name__} and not bytes"
            )
        if len(user_data) > MAX_USER_DATA_BYTES:
            raise AssignorFailedError(
                name, f"its user data for member {member} are more than {MAX_USER_DATA_BYTES} bytes"
            )
        topics = frozenset(subscriptions[member].topics)
        mine: list[TopicPartition] = []
        partitions: Iterable[object] = share.partitions
        for partition in partitions:
            if not isinstance(partition, TopicPartition):
                raise AssignorFailedError(name, f"it gives {partition} to member {member}, which is no TopicPartition")
            if (known := existing.get(partition)) is None:
                raise AssignorFailedError(name, f"it gives {partition} to member {member}, which does not exist")
            if known.topic not in topics:
                raise AssignorFailedError(
                    name, f"it gives {known} to member {member}, which does not subscribe to {known.topic}"
                )
            if known in holders:
                raise AssignorFailedError(name, f"it gives {known} to {holders[known]} and to {member}")
            holders[known] = member
            mine.append(known)
        assignment[member] = MemberAssignment(tuple(sorted(mine)), user_data)
    if left := sorted(_to_divide(cluster, subscriptions) - holders.keys()):
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise AssignorFailedError(name, f"it gives {left[0]}{more} to no member")
    return assignment


def _hold_back(assignment: Mapping[str, MemberAssignment], subscriptions: Subscriptions) -> dict[str, MemberAssignment]:
    """Leave out partitions that another member owns and their new member does not: the owner must release them first.

    A member that owns and keeps a partition keeps it, also if another member wrongly says that it owns it, too.
    """
    having: dict[TopicPartition, set[str]] = {}
    for member, subscription in subscriptions.items():
        for partition in subscription.owned:
            having.setdefault(partition, set()).add(member)
    latest = latest_owners(
        {
            member: Memory(
                subscription.owned, NO_GENERATION if subscription.generation is None else subscription.generation
            )
            for member, subscription in subscriptions.items()
        }
    )
    return {
        member: MemberAssignment(
            tuple(
                partition
                for partition in share.partitions
                if not having.get(partition, set()) - {member} or latest.get(partition) == member
            ),
            share.user_data,
        )
        for member, share in assignment.items()
    }
