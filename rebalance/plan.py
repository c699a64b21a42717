"""From what is owned to what is assigned, moving as little as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rebalance.snapshot import Assignment
from zk_layout.model import ConsumerThreadId, TopicPartition

Share: TypeAlias = Mapping[TopicPartition, ConsumerThreadId]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one member has to do about its owner znodes. Each map is sorted by partition.

    keep: stays with the thread that has it; its znode, position and buffer are not touched.
    release: given up by the thread named, which is the present one.
    claim: to be taken by the thread named.
    A partition that moves between two streams of the same member is in release and in claim: its znode
    holds the thread id and must be written anew.
    """

    keep: Mapping[TopicPartition, ConsumerThreadId]
    release: Mapping[TopicPartition, ConsumerThreadId]
    claim: Mapping[TopicPartition, ConsumerThreadId]


def make_plan(
    owned: Mapping[TopicPartition, ConsumerThreadId], assigned: Mapping[TopicPartition, ConsumerThreadId]
) -> Plan:
    """The difference between what a member owns now and what it is to own.

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
    """One member's share of an assignment, sorted as the assignment is."""
    return {partition: thread for partition, thread in assignment.items() if thread.consumer_id == consumer_id}
