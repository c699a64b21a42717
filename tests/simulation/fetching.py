"""Fetchers of a simulated world: fake fetchers that never really wait, and let other actors act during a poll."""

from __future__ import annotations

from functools import partial

from legacy_consumer.fetching.fetcher import LATEST, NO_POSITION
from tests.support.fake_kafka import FakeBatch, FakeFetcher


def no_strike():
    """Raise nothing: in place of Trouble.strike where no exception may interrupt the thread."""


class PatientClock:
    """The world's clock as a stream sees it: a wait moves only the stream's own time, not the world's.

    Each look at the clock adds 0.1 ms, as for a user that takes that long over every message.
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
    """The fetcher of one stream; other actors act when a poll begins, and after it has fetched, before it returns."""

    def __init__(self, member, clock):
        super().__init__(member.world.kafka)
        self._clock = clock
        self._world = member.world
        self._name = member.name
        self.before_poll_begins = partial(member.world.before_poll, member)
        self.before_poll_returns = partial(member.world.interlude, member)
        self.found_ends = {}
        """{partition: its log's end}, of partitions that begin at the end; User.take clears it."""

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
        # partitions of topics that were created again
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
        """Let other actors act; no exception interrupts them for this thread's sake."""
        strike, self._clock.strike = self._clock.strike, no_strike
        try:
            act()
        finally:
            self._clock.strike = strike
