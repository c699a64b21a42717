"""How long something took, not counting how long the machine itself stood still meanwhile.

A bound on a duration is a promise of the code, but a busy machine can break it: a thread that is due now runs seconds
later. Therefore another thread, which only asks to be woken again and again, measures in the same run how late threads
run.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

_TICK_S = 0.01


class Stopwatch:
    """A context manager; afterwards seconds says how long its body took, and late_s how much of that is left out."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.late_s = 0.0
        self._began = 0.0
        self._left = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="stopwatch", daemon=True)

    def __enter__(self) -> Stopwatch:
        self._thread.start()
        self._began = time.monotonic()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left = time.monotonic()
        self._ended.set()
        self._thread.join()
        self.seconds = max(0.0, self._left - self._began - self.late_s)

    def _tick(self) -> None:
        due = time.monotonic() + _TICK_S
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            self.late_s += max(0.0, now - due)
            due = now + _TICK_S
        # The body's thread may be the first to run again after a standstill, and end before this one was woken for it.
        self.late_s += max(0.0, self._left - due)
