"""Plans the way from owned to assigned partitions, moving as few as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rebalance.snapshot import Assignment
from zk_layout.model import ConsumerThreadId, TopicPartition

Share: TypeAlias = Mapping[TopicPartition, ConsumerThreadId]


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of one member's owner znodes. Each map is sorted by partition.

    keep: stays with its thread; znode, position and buffer are not touched. release: released by its present thread.
    claim: claimed by this thread. A partition that moves between two streams of the same member is in release and in
    claim: its znode holds the thread id and must be written anew.
    """

    keep: Mapping[TopicPartition, ConsumerThreadId]
    release: Mapping[TopicPartition, ConsumerThreadId]
    claim: Mapping[TopicPartition, ConsumerThreadId]


def make_plan(
    owned: Mapping[TopicPartition, ConsumerThreadId], assigned: Mapping[TopicPartition, ConsumerThreadId]
) -> Plan:
    """Return the difference between a member's owned partitions and its share.

    Owned a/0 by c-0 and a/1 by c-1, assigned a/1 to c-0 and a/2 to c-1: release a/0 a/1, claim a/1 a/2.
    """
    keep: dict[TopicPartition, ConsumerThreadId] = {}
    release: dict[TopicPartition, ConsumerThreadId] = {}
    for partition in sorted(owned):
        thread = owned[partition]
        (keep if assigned.get(partition) == thread else release)[partition] = thread
    claim = {partition: assigned[partition] for partition in sorted(assigned) if partition not in keep}
    return Plan(keep, release, claim)


def owned_by(assignment: Assignment, consumer_id: str) -> Share:
    """Return one member's share of an assignment, sorted as the assignment is."""
    return {partition: thread for partition, thread in assignment.items() if thread.consumer_id == consumer_id}
