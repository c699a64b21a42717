"""Decides whether a group waits for absent members, and who owns which partition meanwhile. Pure.

Members a, b and c have two partitions each. When b leaves, a and c would take over its partitions at once, and most
other partitions would change their owner too, only to change back after b has restarted. A waiting group computes the
assignment as if b were still there: a and c keep their partitions, b's partitions have no owner. The wait ends when the
group is complete: it has as many members as before the first departure, under any ids. It also ends when the time is
over, counted from the first departure, so later departures do not extend it.

Some members do not wait. JVM members have no such rule, and a new member has not seen anybody leave. Both claim at once
their share of the group of present members. They get that share during the wait, since otherwise a JVM member would use
up its tries on partitions that others keep.

    the group before b left     a a b b c c
    of present members          a a a c c c
    meanwhile                   a a . . c c
    if c does not wait          a a . c c c
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from rebalance.snapshot import Assignment
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, TopicPartition

Members: TypeAlias = Mapping[str, ConsumerRegistration]


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """A member's memory of its group, for the wait for absent members.

    last: the members at the last reading, None before the first. before: the members at the first departure, while the
    group waits; None = the group waits for no member. impatient: present members that do not wait, though they stayed.
    """

    last: Members | None = None
    before: Members | None = None
    impatient: frozenset[str] = frozenset()

    @property
    def is_waiting(self) -> bool:
        """Whether the group waits for absent members."""
        return self.before is not None

    def companions(self, members: Members) -> frozenset[str]:
        """Return the members that never left; a member that restarted under its id has another registration."""
        before = self.before or {}
        return frozenset(name for name, known in before.items() if members.get(name) == known)

    def after_the_wait(self) -> GroupMemory:
        """Return the memory at the end of a wait: members that are still absent are not waited for any more."""
        return GroupMemory(self.last)


def note_members(known: GroupMemory, members: Members) -> GroupMemory:
    """Return the memory after a reading of the group. The time of a wait is a timer of the machine."""
    if known.before is None:
        has_shrunk = known.last is not None and len(members) < len(known.last)
        return GroupMemory(members, before=known.last if has_shrunk else None)
    return GroupMemory(members) if len(members) >= len(known.before) else replace(known, last=members)


def standing(before: Assignment, now: Assignment, patient: Collection[str], companions: Collection[str]) -> Assignment:
    """Return the assignment during the wait, without the partitions of absent members that no other member is due.

    before: the assignment as if no member had left; now: the assignment of the present members. Both for the topics as
    they are now. companions: the members that have stayed all the time, including the waiting ones.
    """
    stands: dict[TopicPartition, ConsumerThreadId] = {}
    for tp, thread in now.items():
        former = before.get(tp)
        if former is None or thread.consumer_id not in patient:
            stands[tp] = thread
        elif former.consumer_id in patient:
            stands[tp] = former
        elif former.consumer_id in companions:
            # the former owner stayed but does not wait, so it has released the partition
            stands[tp] = thread
    return stands
