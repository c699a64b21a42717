"""Range: each topic by itself, in contiguous runs."""

from __future__ import annotations

from rebalance.assignors.threads import partitions_of, threads_per_topic
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.model import ConsumerThreadId, TopicPartition


def range_assign(group: GroupSnapshot) -> Assignment:
    """Give each consumer thread a contiguous run of every topic's partitions.

    Five partitions, threads a-0, a-1, b-0: a-0 gets 0 1, a-1 gets 2 3, b-0 gets 4.
    A JVM member computes only its own topics; for these the result is the same.

    Returns: {TopicPartition: ConsumerThreadId}, each partition of a subscribed topic exactly once, sorted.
    A topic without partitions, or that does not exist, adds nothing.
    Source: Scala consumer, PartitionAssignor.scala, RangeAssignor. Threads sort as text: c-10 before c-2.
    """
    assignment: dict[TopicPartition, ConsumerThreadId] = {}
    subscribers = threads_per_topic(group, as_partitions=True)
    for topic, threads in subscribers.items():
        partitions = partitions_of(topic, group.partitions.get(topic, ()))
        each, extra = divmod(len(partitions), len(threads))
        start = 0
        for position, thread in enumerate(threads):
            end = start + each + (position < extra)
            if start == end:
                break
            assignment.update(dict.fromkeys(partitions[start:end], thread))
            start = end
    return assignment
