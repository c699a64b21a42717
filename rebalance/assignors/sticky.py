"""Sticky: shares that are as even as possible, and of these the ones that move the fewest partitions.

Members write the same user data as Java's StickyAssignor and CooperativeStickyAssignor, so they can join groups of
Java. The division is at least as even as Java's. If it is as even, it moves no more partitions. If there is one best
division, both assignors compute it. If there are several, Java's choice depends on the order of a hash map, and the
choice of this assignor on the order of topics, numbers and ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalance.assignors.even_shares import divide_alike, divide_by_topic
from rebalance.assignors.members import NO_GENERATION, Memory, latest_owners, subscribers_by_topic
from rebalance.assignors.seam import (
    Assignor,
    Cluster,
    GroupAssignment,
    MemberAssignment,
    RebalanceProtocol,
    Subscription,
    Subscriptions,
    given,
)
from rebalance.assignors.sticky_user_data import (
    decode_generation,
    decode_sticky,
    encode_generation,
    encode_sticky,
)
from rebalance.errors import UnreadableUserDataError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)


class StickyAssignor(Assignor):
    """Members release all partitions before they join, and write their last share into their user data."""

    name = "sticky"
    version = 1

    def __init__(self) -> None:
        self._memory = Memory()

    def subscription_user_data(self, topics: Sequence[str]) -> bytes:  # noqa: ARG002
        """Return this member's last share as user data; empty if it never had one."""
        return encode_sticky(*self._memory) if self._memory != Memory() else b""

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:
        """Remember the share for the next join."""
        self._memory = Memory(assignment.partitions, generation)

    def assign(self, cluster: Cluster, subscriptions: Subscriptions) -> GroupAssignment:
        """Divide by the members' user data; unreadable data count as an empty share, as in Java."""
        memories = {}
        for member, subscription in subscriptions.items():
            try:
                memories[member] = self._recall(subscription)
            except UnreadableUserDataError as error:
                logger.warning("%s: what member %s had cannot be read, it keeps nothing: %s", self.name, member, error)
                memories[member] = Memory()
        return given(divide(cluster, subscriptions, memories))

    def _recall(self, subscription: Subscription) -> Memory:
        if subscription.user_data:
            return Memory(*decode_sticky(subscription.user_data))
        generation = subscription.generation
        return Memory(subscription.owned, NO_GENERATION if generation is None else generation)


class CooperativeStickyAssignor(StickyAssignor):
    """Members keep fetching partitions that stay with them; a partition that moves has no owner for one generation.

    A member's partitions are in its subscription; its user data contain the generation, for brokers and clients that
    have no field for it.
    """

    name = "cooperative-sticky"
    version = 0
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def subscription_user_data(self, topics: Sequence[str]) -> bytes:  # noqa: ARG002
        """Return the generation of the last assignment; empty if there was none."""
        return encode_generation(self._memory.generation) if self._memory != Memory() else b""

    def _recall(self, subscription: Subscription) -> Memory:
        if subscription.generation is not None:
            return Memory(subscription.owned, subscription.generation)
        generation = decode_generation(subscription.user_data) if subscription.user_data else NO_GENERATION
        return Memory(subscription.owned, generation)


def divide(
    cluster: Cluster, subscriptions: Subscriptions, memories: Mapping[str, Memory]
) -> dict[str, list[TopicPartition]]:
    """Return {member: its share} of all partitions of the subscribed topics.

    memories: partitions that are gone, or whose topic the member no longer subscribes to, are ignored.
    """
    subscribers = {
        topic: members for topic, members in subscribers_by_topic(subscriptions).items() if cluster.partitions(topic)
    }
    partitions = {topic: cluster.partitions(topic) for topic in subscribers}
    owners = latest_owners(
        {
            member: Memory(
                [tp for tp in memory.owned if tp.topic in subscriptions[member].topics and cluster.has(tp)],
                memory.generation,
            )
            for member, memory in memories.items()
        }
    )
    shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    if not partitions:
        return shares
    first, *others = subscribers.values()
    if all(members == first for members in others):
        shares.update(divide_alike([partition for some in partitions.values() for partition in some], first, owners))
    else:
        shares.update(divide_by_topic(partitions, subscribers, owners))
    return shares
