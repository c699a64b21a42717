"""Ends the worker that plans a stream so that its connections are closed, whichever signal of the end comes first.

Spark closes the worker's input and sends SIGTERM, in either order, a moment apart, perhaps more than once. The first
SIGTERM raises SystemExit, and the worker then stops its reader. Later ones would interrupt that.
"""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def exit_in_order(stop: Callable[[], None]) -> None:
    """Exit at the first SIGTERM, and call stop at the exit, in case the signal came just before a call of stop.

    Main thread only. stop: harmless when called twice; calls be_undisturbed first.
    """
    atexit.register(stop)
    signal.signal(signal.SIGTERM, _exit)


def be_undisturbed() -> None:
    """Ignore SIGTERM from now on, if exit_in_order handles it: the process is ending already."""
    if signal.getsignal(signal.SIGTERM) is _exit:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _exit(number: int, _: FrameType | None) -> None:
    be_undisturbed()
    sys.exit(128 + number)
