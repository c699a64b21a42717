"""Messages that are made as a loop asks for them, and that another thread can stop between any two.

No code of ours runs between two messages: what a loop turns is C's, map() over zip() over iterators. What can stop it
all the same is a *gate*, a list with one token for each message that may be handed out: an iterator over a list that
was emptied is at its end. It is asked before anything else of a message is, so what it ends is not half taken. To empty
a list is one step, from any thread and in a signal handler too.

How many were handed out is what an iterator over their numbers has left; nobody has to count.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Protocol

from legacy_consumer.fetcher import Message


class Portion(Protocol):
    """Some messages that are made alike. Consumed by one thread at a time."""

    @property
    def token(self) -> object:
        """What a gate lets each of them through with."""
        ...

    @property
    def numbers(self) -> Iterator[int]:
        """One for each that was not handed out yet: its length hint says how many."""
        ...

    def through(self, gate: Iterator[object]) -> Iterator[Message]:
        """The next ones, as many as the gate has tokens. Take no others meanwhile."""
        ...


class ListPortion:
    """Messages that are there already."""

    __slots__ = ("numbers", "token")

    def __init__(self, messages: Sequence[Message]) -> None:
        self.token = messages
        self.numbers = numbers(len(messages))

    def through(self, gate: Iterator[object]) -> Iterator[Message]:
        """See Portion."""
        return map(operator.getitem, gate, self.numbers)  # type: ignore[arg-type]


def left(portion: Portion) -> int:
    """How many of them are still to be handed out."""
    return operator.length_hint(portion.numbers)


def all_of(portion: Portion) -> Iterator[Message]:
    """What is left of it, with nothing that could stop it."""
    return portion.through(repeat(portion.token, left(portion)))


_SMALL = 1 << 10
_SMALL_NUMBERS = list(range(_SMALL))


def numbers(count: int) -> Iterator[int]:
    """As of range(count). Few are there already: to make and free each would take half as long as its value does."""
    return iter(range(count) if count > _SMALL else _SMALL_NUMBERS[:count])
