"""What threads wait for, sound whatever exception strikes them.

A user's thread may be interrupted at any line, by Ctrl-C or a soft time limit, and go on. threading.Condition and
threading.Event are made of Python code: an exception that strikes as they enter their lock leaves it taken, and all
other threads wait for it for ever. A finaliser or a signal handler that comes in there waits for its own thread. Here
nothing is shared but a set, which changes in one step.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable


class Signal:
    """Wakes the threads that wait for something, so that they look again."""

    def __init__(self) -> None:
        self._bells: set[threading.Lock] = set()
        """A lock of each waiting thread, which it waits for, and which notify releases."""

    def notify(self) -> None:
        """Let all that wait look again."""
        for bell in list(self._bells):
            # it rings already
            with contextlib.suppress(RuntimeError):
                bell.release()

    def wait_for(self, is_reached: Callable[[], object], timeout_s: float | None = None) -> bool:
        """Wait until that is true, at most timeout_s; True if it is. It is asked again after each notify."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        bell = threading.Lock()
        bell.acquire()
        try:
            # before the first look: a change after it rings
            self._bells.add(bell)
            return _wait_for(is_reached, bell, end_s)
        finally:
            self._bells.discard(bell)


def _wait_for(is_reached: Callable[[], object], bell: threading.Lock, end_s: float | None) -> bool:
    while not is_reached():
        left_s = threading.TIMEOUT_MAX if end_s is None else end_s - time.monotonic()
        if left_s <= 0:
            return False
        bell.acquire(timeout=min(left_s, threading.TIMEOUT_MAX))
    return True


class Flag(Signal):
    """As threading.Event."""

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False

    def set(self) -> None:
        """Set it, and wake all that wait."""
        self._is_set = True
        self.notify()

    def clear(self) -> None:
        """Take it back."""
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most timeout seconds; True if it is."""
        return self.wait_for(self.is_set, timeout)
