"""Detects a signal handler or a logging handler that runs inside a call of the same consumer, on the same thread.

That call may hold locks, and continues only after the handler returns: a call that waits for these locks would never
end. The stack of the thread shows it. A counter of running calls would not work: it stays wrong after an
exception between a call and its counting.
"""

from __future__ import annotations

import inspect
from types import CodeType, FrameType

from legacy_consumer.errors import CallInProgressError

_MODULES = frozenset(
    f"legacy_consumer.{name}"
    for name in (
        "member.committer",
        "member.connector",
        "member.gate",
        "member.hand_source",
        "member.stream",
        "member.stream_delivery",
        "member.telling",
        "simple_consumer",
        "member.interrupted_calls",
    )
)


def is_inside(*consumers: object, but: CodeType | None = None) -> bool:
    """Return whether this thread is in a call of one of these objects, apart from the call that asks.

    but: the code of a method whose calls do not count. Takes no lock.
    """
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and _is_ours(frame):
        # skip the frames of the asking call, up to its caller: the user's code or a handler
        frame = frame.f_back
    while frame is not None:
        if _is_ours(frame) and frame.f_code is not but:
            asked = frame.f_locals.get("self")
            if any(asked is consumer for consumer in consumers):
                return True
        frame = frame.f_back
    return False


def refuse_inside(*consumers: object) -> None:
    """Raise CallInProgressError if is_inside."""
    if is_inside(*consumers):
        raise CallInProgressError


def _is_ours(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") in _MODULES
