"""A consumer belongs to the process that made it.

A forked child has a copy of the object and of its sockets, but none of its threads: whatever it did would disturb the
parent's connections, or wait for ever for a thread that is not there.
"""

from __future__ import annotations

import os

from legacy_consumer.errors import ForkedConsumerError


class _Generation:
    """How many forks lie between the first process and this one."""

    def __init__(self) -> None:
        self.number = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._next)

    def _next(self) -> None:
        self.number += 1


_generation = _Generation()


class OwningProcess:
    """Remembers in which process it was made."""

    def __init__(self) -> None:
        self._number = _generation.number

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a forked child's copy."""
        return self._number != _generation.number

    def check(self) -> None:
        """Raises: ForkedConsumerError in a forked child."""
        if self._number != _generation.number:
            raise ForkedConsumerError
