"""Measures a duration without the time in which the machine itself stood still.

A test bounds a duration to check the code, but a busy machine can exceed the bound: it runs a thread seconds after the
thread is due. So a second thread, which only wakes again and again, measures meanwhile how late threads run.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

_TICK_S = 0.01


class Stopwatch:
    """A context manager. seconds: how long its body took, without late_s. late_s: how late threads ran meanwhile."""

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
        # After a standstill the body's thread may run, and end, before this thread has woken.
        self.late_s += max(0.0, self._left - due)
