"""Whether a group waits for members that left, and who has what meanwhile. No clock and no ZooKeeper here.

Members a, b and c have two partitions each. When b leaves, its two would be divided at once between a and c, and most
of the others would change hands too, only to change back when b has been restarted. A group that is patient divides as
if b were still there: a and c keep what they have, b's two have no owner. It is over when the group is whole, which is
as many members as there were before the first one left, whoever they are; or when the time is up, counted from that
first departure, so that others who leave meanwhile do not prolong it.

Not everybody waits. Members of the JVM know of no such thing, and who has only just joined did not see anybody leave:
both want at once what a group of those present gives them. That is theirs meanwhile too, or a member of the JVM would
use up its tries on what others keep.

    the group before b left     a a b b c c
    of those present            a a a c c c
    meanwhile                   a a . . c c
    if c does not wait          a a . c c c
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rebalance.snapshot import Assignment
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, TopicPartition

Members: TypeAlias = Mapping[str, ConsumerRegistration]


@dataclass(frozen=True, slots=True)
class Absence:
    """Some have left, and those who stay wait.

    before: the members when the first of them left. until_s: on the reader's clock, when the time is up.
    """

    before: Members
    until_s: float

    def companions(self, members: Members) -> frozenset[str]:
        """Who has been there all the time; one that was restarted under its id has another registration."""
        return frozenset(name for name, known in self.before.items() if members.get(name) == known)


def note_members(
    absence: Absence | None, last: Members | None, members: Members, *, now_s: float, delay_s: float
) -> Absence | None:
    """What the wait is after a look at the group; None = nobody is waited for.

    last: the members at the look before, None if this is the first.
    """
    if absence is None:
        left = last is not None and len(members) < len(last)
        return Absence(last, now_s + delay_s) if left and last is not None and delay_s > 0 else None
    is_whole = len(members) >= len(absence.before)
    return None if is_whole or now_s >= absence.until_s else absence


def standing(before: Assignment, now: Assignment, patient: Collection[str], companions: Collection[str]) -> Assignment:
    """Who is to have what while the patient ones wait; what those who left had, and nobody is due, is left out.

    before: the assignment as if nobody had left; now: that of those present. Both of the topics as they are now.
    companions: who has been there all the time, the patient ones among them.
    """
    stands: dict[TopicPartition, ConsumerThreadId] = {}
    for tp, thread in now.items():
        former = before.get(tp)
        if former is None or thread.consumer_id not in patient:
            stands[tp] = thread
        elif former.consumer_id in patient:
            stands[tp] = former
        elif former.consumer_id in companions:
            # one that does not wait has given it up
            stands[tp] = thread
    return stands
