"""Fetchers of a simulated world: the fake ones, without real waiting, and with room for others to act."""

from __future__ import annotations

from functools import partial

from legacy_consumer.fetching.fetcher import LATEST, NO_POSITION
from tests.support.fake_kafka import FakeBatch, FakeFetcher


def no_strike():
    """Nothing strikes the thread here."""


class PatientClock:
    """A stream's view of the world's clock: waiting passes no time of the world's, only of the stream's patience.

    Between two looks some time has passed, as for a user that takes long over every single message.
    """

    def __init__(self, clock):
        self._clock = clock
        self.waited = 0.0
        self.strike = no_strike
        """Called wherever an exception may strike the consuming thread."""

    def monotonic(self):
        self.strike()
        self.waited += 1e-4
        return self._clock.now + self.waited

    def wall_ms(self):
        return self._clock.wall_ms()

    def wait(self, event, timeout_s):
        self.waited += timeout_s
        return event.is_set()


class SimulatedFetcher(FakeFetcher):
    """Of one of the member's streams: others act when a poll begins, and when it has fetched and not returned yet."""

    def __init__(self, member, clock):
        super().__init__(member.world.kafka)
        self._clock = clock
        self._world = member.world
        self._name = member.name
        self.before_poll_begins = partial(member.world.before_poll, member)
        self.before_poll_returns = partial(member.world.interlude, member)
        self.found_ends = {}
        """{partition: where its log ended}, of those that are to begin there, since somebody has taken them away."""

    def poll(self, max_messages, timeout_s):
        self._clock.strike()
        self._meanwhile(self.before_poll_begins)
        changes, self._changes = self._changes, []
        for what, which in changes:
            for tp in which:
                if what == "unassign":
                    self._positions.pop(tp, None)
                else:
                    self._positions[tp] = which[tp] if which[tp] in (LATEST, NO_POSITION) else max(which[tp], 0)
        self._tell_of_the_lost()
        self._world.brokers.fail(self._name)
        # of a topic that was created again
        placed = self._place_the_lost() if self._world.topics.come_and_go else {}
        found = {**self._find_ends(), **placed}
        messages = [] if found else self._fetch(max_messages)
        for message in messages if self._world.topics.come_and_go else ():
            self._world.checker.note_fetched(self._name, message.tp, message.number)
        if not (messages or found):
            self._clock.waited += timeout_s
        self._meanwhile(self.before_poll_returns)
        self._clock.strike()
        return FakeBatch(messages, found) if messages or found else None

    def _find_ends(self):
        found = {tp: self._kafka.ends[tp] for tp, position in sorted(self._positions.items()) if position == LATEST}
        for tp, end in found.items():
            self._world.record("end found", self._name, tp, end)
        self._positions.update(found)
        self.found_ends.update(found)
        return found

    def _meanwhile(self, act):
        """Nothing strikes the code that acts meanwhile."""
        strike, self._clock.strike = self._clock.strike, no_strike
        try:
            act()
        finally:
            self._clock.strike = strike
