"""A consumer of librdkafka that fetches assigned partitions."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import confluent_kafka

from legacy_consumer.errors import FetchError
from legacy_consumer.fetching.librdkafka.client import Client, RdMessage, Settings, open_handle
from legacy_consumer.fetching.topic_names import NO_SUCH_NAME, has_a_possible_name
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.running_threads import is_running

logger = safe_logger(__name__)

_CLOSE_WAIT_S = 2.0
_FEW_PARTITIONS = 16
"""Up to this number of partitions, asking librdkafka for all positions costs almost nothing."""
_MANY_CANDIDATES = 64


class ConsumerHandle(Client):
    """One librdkafka consumer, which fetches assigned partitions. Only one thread at a time may use it.

    Raises: ConfigError for a setting that librdkafka does not accept.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._assigned: dict[TopicPartition, confluent_kafka.TopicPartition] = {}
        self._by_number: dict[int, list[TopicPartition]] = {}
        self._positions: dict[TopicPartition, int] = {}
        """The last positions that this handle returned; before the first, the positions of the assignment."""
        self._is_drained = False
        """Whether the queue was empty since all brokers were unreachable: later messages were fetched after that."""
        callbacks = {"error_cb": self.on_error}
        self._consumer = open_handle(confluent_kafka.Consumer, settings, callbacks, self.note_forgotten)

    @property
    def assigned(self) -> Collection[TopicPartition]:
        """The partitions that the consumer fetches."""
        return self._assigned.keys()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch these, or begin again. Raises: FetchError for a topic name that no broker accepts."""
        for tp in positions:
            if not has_a_possible_name(tp.topic):
                raise FetchError(tp, NO_SUCH_NAME)  # librdkafka would end the process
        self.unassign(positions)
        if positions:
            self._consumer.incremental_assign(
                [confluent_kafka.TopicPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
            )
        for tp in positions:
            self._assigned[tp] = confluent_kafka.TopicPartition(tp.topic, tp.partition)
        self._positions.update(positions)
        self._index()

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions; unknown ones are ignored."""
        going = [tp for tp in partitions if tp in self._assigned]
        if going:
            self._consumer.incremental_unassign([self._assigned[tp] for tp in going])
        for tp in going:
            del self._assigned[tp], self._positions[tp]
        self._index()

    def resume_positions(self) -> dict[TopicPartition, int]:
        """Return the positions from which another handle would continue."""
        return dict(self._positions)

    def _index(self) -> None:
        self._by_number = {}
        for tp in self._assigned:
            self._by_number.setdefault(tp.partition, []).append(tp)

    def consume(self, max_messages: int, timeout_s: float) -> list[RdMessage]:
        """Return the queued messages; if there are none, wait for some. Faults are among the messages.

        librdkafka itself would wait until max_messages have come, so it waits for only one.
        """
        was_suspected = self.may_stand_still
        self._is_drained &= was_suspected
        messages = self._consumer.consume(max_messages, 0)
        self._is_drained |= not messages
        if not messages and timeout_s > 0:
            messages = self._consumer.consume(1, timeout_s)
            if messages and max_messages > 1:
                messages += self._consumer.consume(max_messages - 1, 0)
        if messages:
            self.brokers_down = False
            if was_suspected and self._is_drained and any(message.error() is None for message in messages):
                self.may_stand_still = False
        return messages

    def next_offsets(self, messages: Sequence[RdMessage]) -> dict[TopicPartition, int]:
        """Return the offset after the last of these messages for each of their partitions.

        They must be the messages that consume returned last, without faults. librdkafka counts positions as it returns
        messages, so asking for these costs almost nothing, but looking at each message takes a quarter of the time of a
        batch of 500 with 4 partitions. With many partitions this asks only for partitions whose number is in the batch.
        """
        asked = self._assigned
        if len(asked) > _FEW_PARTITIONS:
            numbers = set(map(confluent_kafka.Message.partition, messages))
            asked = {tp: self._assigned[tp] for number in numbers for tp in self._by_number.get(number or 0, ())}
            if len(asked) > _MANY_CANDIDATES:
                return self.next_offsets_of(messages)
        return self._moved(asked)

    def next_offsets_of(self, messages: Sequence[RdMessage]) -> dict[TopicPartition, int]:
        """As next_offsets, but from these messages alone: after a fault they are fewer than consume returned."""
        offsets = offsets_after(messages)
        self._positions.update(offsets)
        return offsets

    def passed(self) -> dict[TopicPartition, int]:
        """Return new positions without messages: after the ends of transactions, and after aborted transactions."""
        return self._moved(self._assigned)

    def _moved(self, asked: Mapping[TopicPartition, confluent_kafka.TopicPartition]) -> dict[TopicPartition, int]:
        known = self._positions
        moved: dict[TopicPartition, int] = {}
        for tp, position in zip(asked, self._consumer.position(list(asked.values())), strict=True):
            offset = position.offset
            # librdkafka has no position between the assignment of a partition and its first message
            if offset >= 0 and offset != known[tp]:
                moved[tp] = known[tp] = offset
        return moved

    def close(self) -> None:
        """Stop, and free the handle; it cannot be used again.

        A thread closes it, since librdkafka may wait for ever if a broker reported a topic without partitions. Brokers
        do that for a moment after all of them were down. A handle that waits so is abandoned.
        """
        closing = threading.Thread(target=self._consumer.close, name="librdkafka-close", daemon=True)
        try:
            closing.start()
        except RuntimeError as error:  # in an atexit handler, from Python 3.12 on: the end of the process closes it
            logger.info("librdkafka's handle is left to the end of the process: %s", error)
            return
        closing.join(_CLOSE_WAIT_S)
        if is_running(closing):
            logger.warning("librdkafka does not close a handle; it is abandoned, and a new one is used")


def offsets_after(messages: Sequence[RdMessage]) -> dict[TopicPartition, int]:
    """Return the offset after the last of these messages for each partition."""
    last = dict(
        zip(
            zip(
                map(confluent_kafka.Message.topic, messages),
                map(confluent_kafka.Message.partition, messages),
                strict=True,
            ),
            map(confluent_kafka.Message.offset, messages),
            strict=True,
        )
    )
    return {
        TopicPartition(topic or "", partition or 0): (offset or 0) + 1 for (topic, partition), offset in last.items()
    }
