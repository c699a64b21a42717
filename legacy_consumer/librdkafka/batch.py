"""What a poll of librdkafka brought."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from legacy_consumer.fetcher import Message
from legacy_consumer.librdkafka.client import RdMessage
from legacy_consumer.librdkafka.client_consumer import offsets_after
from zk_layout.model import TopicPartition


class LibrdkafkaBatch:
    """Implements FetchedBatch over confluent_kafka's own messages.

    A batch without messages tells that positions moved without any: its next_offsets are where they are now.
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
        """The messages as confluent_kafka made them; none of them is an error."""
        return cast("Sequence[Message]", self._messages)  # topic and the like are None in errors only

    def without(self, partitions: Collection[TopicPartition]) -> LibrdkafkaBatch:
        """The batch less these partitions; the same object if it has none of them."""
        unwanted = {tp for tp in partitions if tp in self._next_offsets}
        if not unwanted:
            return self
        kept = [m for m in self._messages if (m.topic(), m.partition()) not in unwanted]
        return LibrdkafkaBatch(kept, offsets_after(kept))
