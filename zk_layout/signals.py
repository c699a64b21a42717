"""A signal and a flag for waiting threads, which work on after any exception that interrupts a thread in them.

An exception such as Ctrl-C or a soft time limit may interrupt a user's thread at any line, and the thread may go on.
threading.Condition and threading.Event are made of Python code: an exception at the moment in which they take their
lock leaves it taken, and all other threads wait for it for ever. A finaliser or a signal handler that runs at that
moment waits for its own thread. The classes here share only a set between threads, and it changes in one step.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable


class Signal:
    """Wakes the threads that wait for a condition, so that they check it again."""

    def __init__(self) -> None:
        self._bells: set[threading.Lock] = set()
        """A lock for each waiting thread, which the thread waits for, and which notify() releases."""

    def notify(self) -> None:
        """Wake all waiting threads, so that they check again."""
        for bell in list(self._bells):
            # another notify() has released it already
            with contextlib.suppress(RuntimeError):
                bell.release()

    def wait_for(self, is_reached: Callable[[], object], timeout_s: float | None = None) -> bool:
        """Wait until is_reached() is true, at most timeout_s; True if it is. Calls it again after each notify()."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        bell = threading.Lock()
        bell.acquire()
        try:
            # before the first check, so that a notify() after the check wakes this thread
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
    """Like threading.Event."""

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False

    def set(self) -> None:
        """Set the flag, and wake all waiting threads."""
        self._is_set = True
        self.notify()

    def clear(self) -> None:
        """Clear the flag."""
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most timeout seconds; True if it is."""
        return self.wait_for(self.is_set, timeout)
