"""The common behaviour of messages of both fetchers: comparison, hash, length, pickling."""

from __future__ import annotations

from typing import TypeAlias

from legacy_consumer.fetching.fetcher import Message

Fields: TypeAlias = tuple[
    str,
    int,
    int,
    "bytes | None",
    "bytes | None",
    tuple[int, int],
    "list[tuple[str, bytes | None]] | None",
]


class ComparableMessage(Message):
    """Messages are equal if their fields are, with any fetcher; true even with an empty value; without an order.

    A pickled or copied message becomes a KeptMessage, which does not hold the memory of its fetch.
    """

    __slots__ = ()

    def error(self) -> None:
        """Return None, as a confluent_kafka.Message without an error does."""
        return

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.value() or b"")

    def __eq__(self, other: object) -> bool:
        return fields_of(self) == fields_of(other) if isinstance(other, ComparableMessage) else NotImplemented

    def __ne__(self, other: object) -> bool:
        # the message classes of both fetchers are tuples, and tuple has its own __ne__
        return not self == other

    def __hash__(self) -> int:
        return hash((self.topic(), self.partition(), self.offset()))

    def __lt__(self, other: object) -> bool:
        return NotImplemented

    __le__ = __gt__ = __ge__ = __lt__

    def __reduce__(self) -> tuple[type[KeptMessage], Fields]:
        return KeptMessage, fields_of(self)

    def __repr__(self) -> str:
        return f"<message {self.topic()}/{self.partition()} at offset {self.offset()}>"


class KeptMessage(ComparableMessage):
    """A pickled or copied message: only its fields."""

    __slots__ = ("_fields",)

    def __init__(self, *fields: object) -> None:
        self._fields: Fields = fields  # type: ignore[assignment] # fields_of sets them

    def topic(self) -> str:
        """The topic's name."""
        return self._fields[0]

    def partition(self) -> int:
        """The partition's number."""
        return self._fields[1]

    def offset(self) -> int:
        """The message's offset."""
        return self._fields[2]

    def key(self) -> bytes | None:
        """The key, None if it has none."""
        return self._fields[3]

    def value(self) -> bytes | None:
        """The value, None for a deletion in a compacted topic."""
        return self._fields[4]

    def timestamp(self) -> tuple[int, int]:
        """(type, ms since 1970); (0, -1) = not available."""
        return self._fields[5]

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """The headers, None if there are none."""
        return self._fields[6]


def fields_of(message: Message) -> Fields:
    """Return all fields of a message."""
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp(),
        message.headers(),
    )
