"""Interrupts a waiting call by an exception of a signal handler, as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

_SOON_S = 0.1


class InterruptedTestError(Exception):
    """Raised by the handler."""


def interrupt(call: Callable[[], object]) -> None:
    """Call a function in the main thread, and interrupt it while it waits."""

    def strike(number: int, frame: object) -> None:
        raise InterruptedTestError

    before = signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, _SOON_S)
        with pytest.raises(InterruptedTestError):
            call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupt_join(thread: threading.Thread) -> None:
    """Interrupt a join() of a thread that does not end."""
    interrupt(lambda: thread.join(60))
