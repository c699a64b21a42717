"""Waits for conditions of a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

POLL_S = 0.02
"""Seconds between two checks of a condition."""


def wait_for(is_met: Callable[[], bool], timeout_s: float, too_late: Callable[[], Exception]) -> None:
    """Look at a condition until it is met. Raises: what too_late makes, after timeout_s."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not is_met():
        if time.monotonic() > deadline:
            raise too_late()
        pause.wait(POLL_S)
