"""An exception that a signal handler raises while a call waits, as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

_SOON_S = 0.1


class InterruptedTestError(Exception):
    """Raised by the handler."""


def interrupt(call: Callable[[], object]) -> None:
    """Call it, and interrupt it in the main thread while it waits."""

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
    """Interrupt a join() of a thread that goes on."""
    interrupt(lambda: thread.join(60))
