"""Failover: one member gets all partitions, and the next one takes over if it leaves."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from rebalance.assignors.java_hash import java_sort_key
from rebalance.assignors.members import subscribers_by_topic
from rebalance.assignors.seam import (
    Assignor,
    AssignorProperty,
    Cluster,
    GroupAssignment,
    PropertyValue,
    Subscriptions,
    given,
)
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)

PRIORITY = AssignorProperty(
    "assignment.consumer.priority",
    2**31 - 1,
    "failover gives all partitions to the member with the highest priority, and among equals to the smallest id",
)

_INT32 = struct.Struct(">i")
_LOWEST = -(2**31)


class FailoverAssignor(Assignor):
    """Each topic goes completely to its subscriber with the highest priority.

    Ties: the member id that sorts first. User data: the priority, an int32, big endian. A member without user data has
    the default, which is the highest. A member with invalid data has the lowest, and a warning names it.
    """

    name = "failover"
    properties = (PRIORITY,)

    def __init__(self) -> None:
        self._priority = 2**31 - 1

    def configure(self, properties: Mapping[str, PropertyValue]) -> None:
        """Set this member's priority."""
        priority = properties[PRIORITY.name]
        assert isinstance(priority, int)
        self._priority = priority

    def subscription_user_data(self, topics: Sequence[str]) -> bytes:  # noqa: ARG002
        """Return this member's priority."""
        return _INT32.pack(self._priority)

    def assign(self, cluster: Cluster, subscriptions: Subscriptions) -> GroupAssignment:
        """See the class."""
        places = {
            member: (-_priority_of(member, subscription.user_data), java_sort_key(member))
            for member, subscription in subscriptions.items()
        }
        shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        for topic, members in subscribers_by_topic(subscriptions).items():
            shares[min(members, key=places.__getitem__)] += cluster.partitions(topic)
        return given(shares)


def _priority_of(member: str, user_data: bytes) -> int:
    if not user_data:
        return 2**31 - 1
    if len(user_data) != _INT32.size:
        logger.warning(
            "failover: member %s tells %d bytes and no priority, it comes last: does it run another assignor?",
            member,
            len(user_data),
        )
        return _LOWEST
    priority: int = _INT32.unpack(user_data)[0]
    return priority
