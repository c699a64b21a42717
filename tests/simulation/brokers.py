"""The answers of brokers in a simulated world other than messages: log ends, and errors.

In some worlds auto.offset.reset is largest: a partition without an offset begins at the end of its log. The member asks
for that end, and gets it, or an error, or no answer for some of the partitions: then its fetcher finds the end later.
In some worlds a poll raises FetchError now and then, before it has fetched any message.
"""

from __future__ import annotations

import random

from legacy_consumer.errors import BrokersUnavailableError, FetchError
from tests.simulation.zookeeper import InjectedError


class Brokers:
    """The brokers' answers in a world. Its generator is its own: other choices of a seed do not depend on it."""

    def __init__(self, world, *, may_begin_at_end):
        self._world = world
        self._rng = rng = random.Random(f"brokers {world.seed}")
        self.begins_at_end = rng.random() < 0.15 and may_begin_at_end
        """Whether auto.offset.reset is largest."""
        self._fails = rng.choice((0.02, 0.1, 0.3)) if rng.random() < 0.15 else 0.0

    def fail(self, name):
        """Raise FetchError now and then, in a poll of this member."""
        if self._fails and self._world.faults and self._rng.random() < self._fails:
            self._world.record("poll fails", name)
            raise FetchError(None, "injected: a broker answers with an error")

    def log_ends(self, name, partitions):
        """Return {partition: its log's end} for the partitions that brokers answer, or raise an error."""
        fate = self._rng.choice(("down", "unforeseen", "some", "all", "all", "all")) if self._world.faults else "all"
        if fate == "down":
            raise BrokersUnavailableError("injected: no broker answers")
        if fate == "unforeseen":
            raise InjectedError("unforeseen")
        told = [tp for tp in partitions if fate == "all" or self._rng.random() < 0.5]
        for tp in told:
            self._world.record("end found", name, tp, self._world.kafka.ends[tp])
            self._world.record("placed", name, tp, self._world.kafka.ends[tp], "asked")
        return {tp: self._world.kafka.ends[tp] for tp in told}


class LogEnds:
    """One member's questions about logs; implements the part of LogOffsets that members use."""

    def __init__(self, member):
        self._member = member

    def latest(self, partitions):
        return self._member.world.brokers.log_ends(self._member.name, sorted(partitions))
