"""A consumer belongs to the process that made it.

A forked child has a copy of the object and of its sockets, but none of its threads: any call would disturb the parent's
connections, or wait without end for a missing thread.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from legacy_consumer.errors import ForkedConsumerError


class ToldInChild(Protocol):
    """Hooks that must run in a forked child before any of the child's code."""

    def end_in_child(self) -> None:
        """End the object's work in the child. Called only in the child; takes no lock."""
        ...


class _Generation:
    """The number of forks between the first process and this one."""

    def __init__(self) -> None:
        self.number = 0
        self.told: weakref.WeakSet[ToldInChild] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._next)

    def _next(self) -> None:
        self.number += 1
        for one in self.told:
            one.end_in_child()


_generation = _Generation()


class OwningProcess:
    """Remembers the process that made it. told: the object whose end_in_child() runs in a forked child."""

    def __init__(self, told: ToldInChild | None = None) -> None:
        self._number = _generation.number
        if told is not None:
            _generation.told.add(told)

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a forked child's copy."""
        return self._number != _generation.number

    def __reduce__(self) -> str:
        msg = "a consumer cannot be pickled or copied: make another one in the process that needs it"
        raise TypeError(msg)

    def check(self) -> None:
        """Refuse a call in a forked child. Raises: ForkedConsumerError."""
        if self._number != _generation.number:
            raise ForkedConsumerError
