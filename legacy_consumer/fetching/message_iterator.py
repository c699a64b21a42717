"""An iterator over fetched messages that another thread can stop between any two of them.

No Python code of ours runs between two messages, so an exception from outside (Ctrl-C, a soft time limit) never comes
between a message and its count. The native decoder has such an iterator over columns. This file has the seam to it,
and the same in Python over message objects.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Protocol

from legacy_consumer.fetching.fetcher import Message


class MessageIterator(Protocol):
    """One thread at a time consumes it; any thread may read handed_out and shut it."""

    @property
    def handed_out(self) -> int:
        """The number of messages that it has handed out."""
        ...

    def __iter__(self) -> Iterator[Message]:
        """Return the allowed messages that it has not handed out yet."""
        ...

    def allow(self, most: int) -> bool:
        """Allow this many more messages; return False if there will be none. Start a new iteration then."""
        ...

    def shut(self) -> int:
        """Hand out no more messages. Returns: the number handed out."""
        ...


class ListIterator:
    """Implements MessageIterator over a list, which may be filled until its messages are asked for.

    map(), which is C code, first takes an entry of the gate, a list with one entry for each allowed message: another
    thread can clear this list in one step. The state of the iterator over numbers shows how many messages were handed
    out.
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
        # a thread that calls shut() finds the new gate, or has set _is_shut before this check
        if self._is_shut:
            gate.clear()
        return bool(gate)

    def shut(self) -> int:
        """See MessageIterator."""
        self._is_shut = True
        self._gate.clear()
        return self.handed_out
