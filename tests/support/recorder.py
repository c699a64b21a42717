"""A watcher or session listener that records its events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Recorder(Generic[Event]):
    """Records the events with which any thread calls it; the test's thread asks for them."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    @property
    def events(self) -> list[Event]:
        with self._changed:
            return list(self._events)

    def wait_until(self, claim: Callable[[list[Event]], bool], timeout_s: float = 60.0) -> list[Event]:
        """Wait until the claim holds for the events, and return them. Raises: AssertionError after timeout_s."""
        with self._changed:
            if not self._changed.wait_for(lambda: claim(self._events), timeout_s):
                raise AssertionError(f"did not come: got {self._events}")
            return list(self._events)

    def wait_for(self, count: int) -> list[Event]:
        return self.wait_until(lambda events: len(events) >= count)
