"""Fetchers of a simulated world: the fake ones, without real waiting, and with room for others to act."""

from __future__ import annotations

from legacy_consumer.fetching.fetcher import NO_POSITION
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
    """before: called when a poll begins; interlude: when it has fetched and not returned yet."""

    def __init__(self, kafka, clock, before, interlude):
        super().__init__(kafka)
        self._clock = clock
        self.before_poll_begins = before
        self.before_poll_returns = interlude

    def poll(self, max_messages, timeout_s):
        self._clock.strike()
        self._meanwhile(self.before_poll_begins)
        changes, self._changes = self._changes, []
        for what, which in changes:
            for tp in which:
                if what == "unassign":
                    self._positions.pop(tp, None)
                else:
                    self._positions[tp] = which[tp] if which[tp] == NO_POSITION else max(which[tp], 0)
        self._tell_of_the_lost()
        messages = self._fetch(max_messages)
        if not messages:
            self._clock.waited += timeout_s
        self._meanwhile(self.before_poll_returns)
        self._clock.strike()
        return FakeBatch(messages) if messages else None

    def _meanwhile(self, act):
        """Nothing strikes the code that acts meanwhile."""
        strike, self._clock.strike = self._clock.strike, no_strike
        try:
            act()
        finally:
            self._clock.strike = strike
