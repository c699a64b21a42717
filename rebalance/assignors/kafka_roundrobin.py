"""Round-robin as in Java's consumer: all partitions by topic and number go to the members in turn."""

from __future__ import annotations

from rebalance.assignors.members import in_member_order, subscribers_by_topic
from rebalance.assignors.seam import Assignor, Cluster, GroupAssignment, Subscriptions, given
from zk_layout.model import TopicPartition


class RoundRobinAssignor(Assignor):
    """Topics s and t of two partitions, members a, b, c: a gets s/0 t/1, b gets s/1, c gets t/0.

    A member that does not subscribe to the next partition's topic loses its turn. Differs from the classic round-robin:
    no hash orders the partitions, and a member counts once for any number of threads.
    """

    name = "roundrobin"

    def assign(self, cluster: Cluster, subscriptions: Subscriptions) -> GroupAssignment:
        """Assign as the class says."""
        shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        circle = in_member_order(subscriptions)
        turn = 0
        for topic, subscribers in subscribers_by_topic(subscriptions).items():
            members = set(subscribers)
            for partition in cluster.partitions(topic):
                while circle[turn % len(circle)] not in members:
                    turn += 1
                shares[circle[turn % len(circle)]].append(partition)
                turn += 1
        return given(shares)
