"""A group at one moment, frozen and sorted: the only input of an assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from rebalance.member_kinds import MemberKind
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, TopicPartition

_T = TypeVar("_T")

Assignment: TypeAlias = Mapping[TopicPartition, ConsumerThreadId]
"""The thread that should own each partition of the subscribed topics; sorted by partition."""


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group in ZooKeeper at one moment.

    members: {consumer id: registration}, ids sorted as Java sorts text, only the readable ones.
    partitions: {topic: partition numbers ascending} for every topic of the cluster that a member may subscribe to; a
    topic that does not exist is missing or has an empty tuple.
    created: {topic: the zxid at which its znode was created} of existing topics; another zxid means another topic of
    the same name with other logs. unreadable: {consumer id: why its registration is unreadable}; a JVM member fails
    over one, this project logs it and continues. kinds: {consumer id: which client seems to have registered it}, of
    unreadable members, too; no assignor looks at it. exclude_internal_topics: the reading member's own setting, applied
    to every member's topic filter, as the JVM does.
    """

    group: str
    members: Mapping[str, ConsumerRegistration]
    partitions: Mapping[str, tuple[int, ...]]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    exclude_internal_topics: bool = True
    kinds: Mapping[str, MemberKind] = field(default_factory=dict)
    created: Mapping[str, int] = field(default_factory=dict)


def remember_last(ask: Callable[[GroupSnapshot], _T]) -> Callable[[GroupSnapshot], _T]:
    """Return a function that remembers its last result, and calls ask only for another snapshot object."""
    last: list[tuple[GroupSnapshot, _T]] = []

    def remembering(snapshot: GroupSnapshot) -> _T:
        if not last or last[0][0] is not snapshot:
            last[:] = [(snapshot, ask(snapshot))]
        return last[0][1]

    return remembering
