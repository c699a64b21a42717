"""The seam to time. Callers pass a clock in, so a simulation can pass its own."""

from __future__ import annotations

import time
from typing import Protocol


class Waitable(Protocol):
    """A zk_layout.signals.Flag or a threading.Event; a thread waits until another one sets it."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most timeout seconds; True if it is set."""
        ...


class Clock(Protocol):
    """Time that only moves forward, in seconds."""

    def monotonic(self) -> float:
        """Return the seconds since a fixed moment."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for ids and timestamps."""
        ...

    def wait(self, event: Waitable, timeout_s: float) -> bool:
        """Wait until the event is set, at most timeout_s; True if it is set."""
        ...


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def wait(self, event: Waitable, timeout_s: float) -> bool:
        """Wait until the event is set, at most timeout_s; True if it is set."""
        return event.wait(timeout_s)
