"""What the brokers of a simulated world answer beside messages: where logs end, and errors.

In some worlds auto.offset.reset is largest: a partition without an offset begins at the end of its log. The member asks
for that end, and gets it, or an error, or no answer for some of the partitions: then its fetcher finds the end later.
In others a poll raises FetchError now and then, before it has taken any message.
"""

from __future__ import annotations

import random

from legacy_consumer.errors import BrokersUnavailableError, FetchError
from tests.simulation.zookeeper import InjectedError


class Brokers:
    """Drawn from a generator of its own, so that worlds without any of this are what they were."""

    def __init__(self, world, *, may_begin_at_end):
        self._world = world
        self._rng = rng = random.Random(f"brokers {world.seed}")
        self.begins_at_end = rng.random() < 0.15 and may_begin_at_end
        """auto.offset.reset=largest."""
        self._fails = rng.choice((0.02, 0.1, 0.3)) if rng.random() < 0.15 else 0.0

    def fail(self, name):
        """Raise FetchError now and then, to this member."""
        if self._fails and self._world.faults and self._rng.random() < self._fails:
            self._world.record("poll fails", name)
            raise FetchError(None, "injected: a broker answers with an error")

    def log_ends(self, name, partitions):
        """Return where these logs end, as far as a broker tells this member."""
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
    """What one member asks about logs; implements LogOffsets, as far as members use it."""

    def __init__(self, member):
        self._member = member

    def latest(self, partitions):
        return self._member.world.brokers.log_ends(self._member.name, sorted(partitions))
