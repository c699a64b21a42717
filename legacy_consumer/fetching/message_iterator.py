"""An iterator over fetched messages that another thread can shut between any two of them.

No code of ours runs between two messages, so an exception from outside (Ctrl-C, a soft time limit) never strikes
between a message and its count. The native decoder has such an iterator over columns. This is the seam to it, and the
same in Python over messages that are objects already.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Protocol

from legacy_consumer.fetching.fetcher import Message


class MessageIterator(Protocol):
    """Consumed by one thread at a time, asked and shut by any."""

    @property
    def handed_out(self) -> int:
        """How many messages have left it."""
        ...

    def __iter__(self) -> Iterator[Message]:
        """The messages that are allowed and have not left it yet."""
        ...

    def allow(self, most: int) -> bool:
        """From now on so many more may leave it; False if none will. Begin to iterate anew then."""
        ...

    def shut(self) -> int:
        """No message leaves it any more; how many did."""
        ...


class ListIterator:
    """Implements MessageIterator over a list, which may be filled until its messages are asked for.

    The C function map() asks the gate first, a list with one entry for each message that is allowed: to empty a list is
    one step. How many messages have left is how far the numbers have come.
    """

    __slots__ = ("_allowed", "_count", "_gate", "_is_shut", "_messages", "_numbers")

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._count = len(messages)
        self._numbers = iter(range(self._count))
        self._is_shut = False
        self._gate: list[Sequence[Message]] = []
        self._allowed = iter(self._gate)

    @property
    def handed_out(self) -> int:
        """See MessageIterator."""
        return self._count - operator.length_hint(self._numbers)

    def __iter__(self) -> Iterator[Message]:
        return map(operator.getitem, self._allowed, self._numbers)

    def allow(self, most: int) -> bool:
        """See MessageIterator."""
        gate = [self._messages] * min(most, operator.length_hint(self._numbers))
        self._gate.clear()
        self._gate = gate
        self._allowed = iter(gate)
        # a thread that shuts it finds the new gate, or was there before this look
        if self._is_shut:
            gate.clear()
        return bool(gate)

    def shut(self) -> int:
        """See MessageIterator."""
        self._is_shut = True
        self._gate.clear()
        return self.handed_out
