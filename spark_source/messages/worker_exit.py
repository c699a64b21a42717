"""How the worker that plans a stream ends: with what it opened closed, whichever news of the end comes first.

Spark closes the worker's input and sends SIGTERM, in either order, a moment apart, perhaps more than once. The first
becomes an exception, on whose way out the worker stops its reader; what comes while that is being done would undo it.
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
    """Exit at the first SIGTERM, and stop at the exit, should the signal have come just before stop was to be called.

    Main thread only. stop: harmless when called twice; calls be_undisturbed first.
    """
    atexit.register(stop)
    signal.signal(signal.SIGTERM, _exit)


def be_undisturbed() -> None:
    """From now on SIGTERM is ignored, if exit_in_order took it: the process is ending already."""
    if signal.getsignal(signal.SIGTERM) is _exit:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _exit(number: int, _: FrameType | None) -> None:
    be_undisturbed()
    sys.exit(128 + number)
