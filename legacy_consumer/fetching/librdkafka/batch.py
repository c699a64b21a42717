"""The result of a poll of librdkafka."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from legacy_consumer.errors import FetchError
from legacy_consumer.fetching.comparable_message import ComparableMessage
from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.fetching.librdkafka.client import RdMessage
from zk_layout.model import TopicPartition

_UNREADABLE: Any = object()
"""Stands for headers that confluent_kafka cannot decode."""
_headers_of = operator.methodcaller("headers")
"""If confluent_kafka cannot decode headers, it sets an exception and returns an incomplete list all the same. This
function checks for that after each call. For a direct call the interpreter stops checking once it has specialised it,
and the exception appears some lines later."""


class LibrdkafkaMessage(ComparableMessage, tuple["RdMessage"]):
    """A message of confluent_kafka with the behaviour of the columnar fetcher's messages; never an error.

    A tuple with one element, since no other object is made faster.
    """

    __slots__ = ()

    def topic(self) -> str:
        """Return the topic's name."""
        return self[0].topic()  # type: ignore[return-value] # topic and the like are None in errors only

    def partition(self) -> int:
        """Return the partition's number."""
        return self[0].partition()  # type: ignore[return-value]

    def offset(self) -> int:
        """Return the message's offset."""
        return self[0].offset()  # type: ignore[return-value]

    def key(self) -> bytes | None:
        """Return the key, None if it has none."""
        return self[0].key()

    def value(self) -> bytes | None:
        """Return the value, None for a deletion in a compacted topic."""
        return self[0].value()

    def timestamp(self) -> tuple[int, int]:
        """Return (type, ms since 1970); (0, -1) = not available."""
        timestamp = self[0].timestamp()
        return timestamp if timestamp[0] else (0, -1)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers, None if there are none. Raises: FetchError for a name that is not UTF-8."""
        message = self[0]
        try:
            found = _headers_of(message)
        except SystemError:
            # confluent_kafka keeps the incomplete list, and reading it would end the process
            message.set_headers(_UNREADABLE)
            found = _UNREADABLE
        if found is _UNREADABLE:
            raise FetchError(
                TopicPartition(self.topic(), self.partition()),
                f"offset {self.offset()}: the name of a header is not UTF-8, and librdkafka's client cannot show its "
                "headers: set fetcher=columnar",
            )
        return found or None


class LibrdkafkaBatch:
    """Implements FetchedBatch over confluent_kafka's own messages.

    A batch without messages reports positions that moved without messages: its next_offsets are the new ones.
    """

    __slots__ = ("_messages", "_next_offsets")

    def __init__(self, messages: Sequence[RdMessage], next_offsets: Mapping[TopicPartition, int]) -> None:
        self._messages = messages
        self._next_offsets = next_offsets

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """The offset after the last message of each partition in the batch."""
        return self._next_offsets

    def messages(self) -> Sequence[Message]:
        """Return the messages, each in a light wrapper."""
        return list(map(LibrdkafkaMessage, zip(self._messages, strict=True)))
