"""Users that decide where partitions start: some keep offsets with their results, some seek if none is committed.

With offsets.by.hand the user's results hold the offsets of one topic, as a database would, and the group commits none.
With auto.offset.reset=none a partition without an offset waits until its user seeks.
"""

from __future__ import annotations

import random

from legacy_consumer.errors import NotAssignedError
from tests.simulation.zookeeper import InjectedError


class Placing:
    """The world's settings for such users. Its generator is its own: the other choices do not depend on it."""

    def __init__(self, seed, topics, *, has_jvm_members, is_acknowledging):
        self.rng = rng = random.Random(f"by hand {seed}")
        may_be = not has_jvm_members and not is_acknowledging
        self.topics = frozenset([rng.choice(sorted(topics))] if rng.random() < 0.15 and may_be else ())
        """The topics of offsets.by.hand: one or none."""
        self.waits_for_users = rng.random() < 0.15 and not has_jvm_members
        """Whether auto.offset.reset is none."""
        self.results = {}
        """{partition: the offset after the last message whose result is kept}."""

    def keep(self, tp, offset):
        """Keep a message's result, and the offset after it; the kept offset never falls."""
        if tp.topic in self.topics:
            self.results[tp] = max(self.results.get(tp, 0), offset + 1)


class KeepingListener:
    """A listener that answers from the results; now and then the database fails, or lacks a partition."""

    def __init__(self, member):
        self._member = member

    def starting_offsets(self, partitions):
        world, name = self._member.world, self._member.name
        placing = world.placing
        chance = placing.rng.random() if world.faults else 1.0
        if chance < 0.05:
            raise InjectedError("no database")
        world.interlude(self._member)
        answer = {tp: placing.results.get(tp, 0) for tp in partitions if tp.topic in placing.topics}
        if chance < 0.15 and answer:
            del answer[placing.rng.choice(sorted(answer))]
        for tp, offset in answer.items():
            world.record("begins", name, tp, offset)
        return answer

    def before_starting_fetchers(self, claimed, assignment):
        self._pass()

    def before_releasing_partitions(self, partitions):
        self._pass()

    def _pass(self):
        """Let other actors act; now and then the hook first shuts its member down, or ends its streams."""
        member = self._member
        trouble = member.world.trouble
        if trouble.has_signals and member.world.faults and not member.closing and trouble.signals.random() < 0.05:
            trouble.signals.choice((member.end_streams, member.ask_to_close))()
        member.world.interlude(member)


def place(member, tp):
    """Seek to 0 in a partition without an offset, as a user does; False if the member has lost the partition."""
    try:
        member.delivery.stream_with(tp).seek(tp, 0)
    except NotAssignedError:
        return False
    member.world.record("sought", member.name, tp, 0)
    return True
