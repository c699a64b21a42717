"""Range as in Java's consumer: each topic by itself, in contiguous runs, one run for each member."""

from __future__ import annotations

from rebalance.assignors.members import subscribers_by_topic
from rebalance.assignors.seam import Assignor, Cluster, GroupAssignment, Subscriptions, given
from zk_layout.model import TopicPartition


class RangeAssignor(Assignor):
    """Five partitions, members a, b: a gets 0 1 2, b gets 3 4. The same for every topic, so a gets more of each.

    Differs from the classic range: a member counts once for any number of threads, and static members come first, in
    the order of their instance ids.
    """

    name = "range"

    def assign(self, cluster: Cluster, subscriptions: Subscriptions) -> GroupAssignment:
        """Assign as the class says."""
        shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        for topic, members in subscribers_by_topic(subscriptions).items():
            partitions = cluster.partitions(topic)
            each, extra = divmod(len(partitions), len(members))
            start = 0
            for position, member in enumerate(members):
                end = start + each + (position < extra)
                shares[member] += partitions[start:end]
                start = end
        return given(shares)
