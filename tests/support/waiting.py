"""Waits on conditions."""

from __future__ import annotations

import time


def eventually(condition, timeout_s=90.0):
    """Call condition until it returns a true value, and return that; an error counts as not yet.

    Raises: AssertionError after timeout_s.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        error = None
        try:
            if result := condition():
                return result
        except Exception as failure:
            error = failure
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s") from error
        time.sleep(0.01)
