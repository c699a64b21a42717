"""The members of groups, including the registrations that cannot be read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rebalance.assignors.java_hash import java_sort_key
from rebalance.member_kinds import MemberKind, registration_kind
from rebalance.subscription import is_wildcard, subscribed_topics, unreadable_reason
from zk_layout.codecs import decode_registration
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ConsumerRegistration
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath
from zk_layout.store import ZkStore


@dataclass(frozen=True, slots=True)
class RegisteredMember:
    """One child of `/consumers/G/ids`: a registration, or the reason why it cannot be read.

    kind: the client that seems to have written it.
    registered_at_ms: when the znode was created, by ZooKeeper's clock. session_id: the session that holds the znode; 0
    if the znode is not ephemeral.
    """

    group: str
    consumer_id: str
    registration: ConsumerRegistration | None
    problem: str | None
    registered_at_ms: int
    kind: MemberKind = MemberKind.UNKNOWN
    session_id: int = 0


def read_members(store: ZkStore, groups: Sequence[str]) -> list[RegisteredMember]:
    """Return the members of these groups, in the order of the groups; ids sorted as Java sorts text.

    It takes two batches of reads for any number of groups. A member that leaves between them is left out.
    """
    members: list[tuple[str, str]] = []
    children = store.get_children_many([ConsumerIdsPath(group).path for group in groups])
    for group, ids in zip(groups, children, strict=True):
        members += [(group, consumer_id) for consumer_id in sorted(ids or (), key=java_sort_key)]
    paths = [ConsumerIdPath(*member).path for member in members]
    found: list[RegisteredMember] = []
    for (group, consumer_id), path, znode in zip(members, paths, store.get_data_many(paths), strict=True):
        if znode is not None:
            registration, problem = _decode(path, znode.data)
            kind = registration_kind(consumer_id, znode.data)
            stat = znode.stat
            found.append(
                RegisteredMember(group, consumer_id, registration, problem, stat.ctime_ms, kind, stat.ephemeral_owner)
            )
    return found


def topics_of(member: RegisteredMember, cluster_topics: Collection[str]) -> Collection[str]:
    """Return the topics that a member subscribes to; none if its registration cannot be read."""
    return () if member.registration is None else subscribed_topics(member.registration, cluster_topics)


def needs_cluster_topics(members: Collection[RegisteredMember]) -> bool:
    """Return whether a member subscribes by a topic filter, so that the cluster's topics must be read."""
    return any(member.registration is not None and is_wildcard(member.registration) for member in members)


def _decode(path: str, data: bytes | None) -> tuple[ConsumerRegistration | None, str | None]:
    try:
        registration = decode_registration(path, data)
    except MalformedZnodeError as error:
        return None, str(error)
    problem = unreadable_reason(registration)
    return (None, f"{path}: {problem}") if problem else (registration, None)
