"""Reads the first offsets and ends of logs, of many partitions in few requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from legacy_consumer.errors import BrokersUnavailableError, KafkaError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.librdkafka.client_queries import QueryHandle
from legacy_consumer.fetching.topic_names import has_a_possible_name
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)


class LibrdkafkaLogOffsets:
    """Implements LogOffsets: one request to each leader (checked with brokers 0.8.2.2 to 3.9.1). From any thread.

    existing: returns which of these partitions exist. The requests name only existing partitions: before 0.11 a request
    for another one creates its topic, unless auto.create.topics.enable is off, and librdkafka waits some seconds for
    the partition.
    timeout_s: the longest time of each call. Partitions without an answer are missing from the result, and named in the
    log.
    Raises: BrokersUnavailableError if no broker answers; MissingListenerError and ConfigError at the first call.
    """

    def __init__(
        self,
        open_handle: Callable[[], QueryHandle],
        existing: Callable[[Collection[TopicPartition]], Collection[TopicPartition]],
        *,
        timeout_s: float = 5.0,
    ) -> None:
        self._open_handle = open_handle
        self._existing = existing
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._handle: QueryHandle | None = None
        self._closed = False

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first message of each log."""
        return _known(self._ask(dict.fromkeys(partitions, EARLIEST)))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last message of each log."""
        return _known(self._ask(dict.fromkeys(partitions, LATEST)))

    def at_time(self, partition: TopicPartition, time_ms: int) -> int | None:
        """As at_times, for one partition."""
        return self.at_times({partition: time_ms})[partition]

    def before(self, partition: TopicPartition, time_ms: int, most: int) -> list[int]:
        """As at_time, because librdkafka asks for only one offset."""
        del most
        found = self.at_time(partition, time_ms)
        return [] if found is None else [found]

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the brokers' offset for each time (ms since 1970); None if they know none.

        Brokers from 0.10.1 on: the first message with this timestamp or a later one; None = all are older. Older
        brokers: the newest segment last written to by then; None = all were written to since.
        Raises: FetchError if the messages of one have no timestamps, or a broker refuses to tell;
        BrokersUnavailableError if a leader has no answer.
        """
        found: dict[TopicPartition, int | None] = {}
        for tp, answer in self._ask(times).items():
            if isinstance(answer, KafkaError):
                raise answer
            found[tp] = answer if answer >= 0 else None
        return found

    def close(self) -> None:
        """Close the connections; twice is harmless. Waits for a call in another thread."""
        with self._lock:
            self._closed = True
            handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def _ask(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        possible = [tp for tp in times if has_a_possible_name(tp.topic)]
        existing = self._existing(possible) if possible else ()
        wanted = {tp: time_ms for tp, time_ms in times.items() if tp in existing}
        answers: dict[TopicPartition, int | KafkaError] = {
            tp: BrokersUnavailableError(f"{tp}: there is no such partition") for tp in times if tp not in wanted
        }
        if not wanted:
            return answers
        with self._lock:
            if self._closed:
                raise BrokersUnavailableError("the connections to the brokers were closed")
            handle = self._handle = self._handle or self._open_handle()
            try:
                answers |= handle.offsets_for_times(wanted, self._timeout_s)
            except BrokersUnavailableError:
                self._handle = None  # the next call uses the brokers that are registered at that time
                handle.close()
                raise
        for answer in answers.values():
            if isinstance(answer, KafkaError):
                logger.info("no log offset: %s", answer)
        return answers


def _known(answers: Mapping[TopicPartition, int | KafkaError]) -> dict[TopicPartition, int]:
    return {tp: answer for tp, answer in answers.items() if not isinstance(answer, KafkaError) and answer >= 0}
