"""A batch of messages for the user's code: a list that makes its messages when they are accessed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from typing import Any, overload

from legacy_consumer.fetching.fetcher import Message


class MessageBatch(MutableSequence[Message]):
    """Behaves like a list. Until it is changed, it holds no message: each access makes the message again."""

    __slots__ = ("_messages",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> MessageBatch: ...
    def __getitem__(self, index: int | slice) -> Message | MessageBatch:
        if isinstance(index, slice):
            return MessageBatch(self._messages[index])
        return self._messages[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._own()[index] = value

    def __delitem__(self, index: int | slice) -> None:
        del self._own()[index]

    def insert(self, index: int, value: Message) -> None:
        """As list.insert."""
        self._own().insert(index, value)

    def copy(self) -> MessageBatch:
        """As list.copy."""
        return self[:]

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """As list.sort."""
        self._own().sort(key=key, reverse=reverse)

    def __add__(self, other: Iterable[Message]) -> MessageBatch:
        return MessageBatch([*self, *other])

    def __radd__(self, other: Iterable[Message]) -> MessageBatch:
        return MessageBatch([*other, *self])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, MessageBatch | list) else NotImplemented

    def __reduce__(self) -> tuple[type[MessageBatch], tuple[list[Message]]]:
        return MessageBatch, (list(self),)

    def __repr__(self) -> str:
        return f"<{len(self)} messages>"

    def _own(self) -> list[Message]:
        if not isinstance(self._messages, list):
            self._messages = list(self._messages)
        return self._messages
