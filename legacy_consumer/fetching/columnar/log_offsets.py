"""Reads the first offsets and ends of logs from the leaders, over connections of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, FetchError, MalformedResponseError
from legacy_consumer.fetching.columnar.connection import Connection
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.leaders import LeaderReader
from legacy_consumer.fetching.columnar.protocol import error_codes
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.list_offsets import (
    ListedOffset,
    decode_list_offsets,
    encode_list_offsets,
)
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)

_SHORTEST_S = 0.1


class ColumnarLogOffsets:
    """Implements LogOffsets: one request to each leader. Any thread may call; a call waits for the one before.

    timeout_s: the time of each call. Partitions without an answer are missing from the result, and named in the log.
    Raises: BrokersUnavailableError if no broker answers; BrokerRefusedError, MissingListenerError, ZooKeeperError.
    """

    def __init__(
        self,
        leaders: LeaderReader,
        open_connection: Callable[[BrokerAddress, float], Connection],
        *,
        read_committed: bool,
        timeout_s: float = 5.0,
    ) -> None:
        self._leaders = leaders
        self._open_connection = open_connection
        self._read_committed = read_committed
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._connections: dict[BrokerAddress, Connection] = {}
        self._closed = False

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first message of each log."""
        return self._known(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each log: after its last message, or with read_committed its last stable offset."""
        return self._known(dict.fromkeys(partitions, LATEST))

    def at_time(self, partition: TopicPartition, time_ms: int) -> int | None:
        """Return the broker's offset for this time (ms since 1970); None if it knows none.

        Brokers from 0.10.1 on: the first message with this timestamp or a later one; None = all are older. Older
        brokers: the newest segment last written to by then; None = all were written to since.
        Raises: FetchError if its messages have no timestamps; BrokersUnavailableError if the leader has no answer.
        """
        answer = self._answer(partition, time_ms, 1)
        return answer.offset if answer.offset >= 0 else None

    def before(self, partition: TopicPartition, time_ms: int, most: int) -> list[int]:
        """Return the first offsets of segments last written to by then, newest first; with LATEST after the log's end.

        most: the limit of offsets; a broker from 4.0 on returns one at most. Raises: as at_time.
        """
        answer = self._answer(partition, time_ms, most)
        return [offset for offset in (answer.offset, *answer.earlier) if offset >= 0]

    def _answer(self, partition: TopicPartition, time_ms: int, most: int) -> ListedOffset:
        answers, reasons = self._ask({partition: time_ms}, most)
        answer = answers.get(partition)
        if answer is None:
            raise BrokersUnavailableError(f"{partition}: {reasons.get(partition, 'its leader does not answer')}")
        if answer.error == error_codes.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            raise FetchError(partition, "its messages have no timestamps (format 0), so none can be found by time")
        if error_codes.remedy(answer.error) is error_codes.Remedy.TELL_USER:
            raise FetchError(partition, error_codes.error_name(answer.error))
        if answer.error != error_codes.NONE:
            raise BrokersUnavailableError(f"{partition}: {error_codes.error_name(answer.error)}")
        return answer

    def close(self) -> None:
        """Close the connections; twice is harmless. A call in another thread ends with an error."""
        self._closed = True
        for connection in list(self._connections.values()):
            connection.close()

    def _known(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        answers, reasons = self._ask(times)
        for tp, answer in answers.items():
            if answer.error != error_codes.NONE:
                reasons[tp] = error_codes.error_name(answer.error)
        for tp, reason in reasons.items():
            logger.info("%s: no log offset: %s", tp, reason)
        return {tp: answer.offset for tp, answer in answers.items() if answer.error == 0 and answer.offset >= 0}

    def _ask(
        self, times: Mapping[TopicPartition, int], most: int = 1
    ) -> tuple[dict[TopicPartition, ListedOffset], dict[TopicPartition, str]]:
        """Return (answers, {partition: why it has no answer})."""
        if not times:
            return {}, {}
        deadline = time.monotonic() + self._timeout_s
        with self._lock:
            if self._closed:
                raise BrokersUnavailableError("the connections to the brokers were closed")
            try:
                leaders = self._leaders.read(times)
            except BrokersUnavailableError as error:
                raise BrokersUnavailableError(f"no answer from the brokers: {error}") from error
            by_broker: dict[BrokerAddress, dict[TopicPartition, int]] = {}
            for tp, address in leaders.addresses.items():
                by_broker.setdefault(address, {})[tp] = times[tp]
            answers: dict[TopicPartition, ListedOffset] = {}
            reasons = dict(leaders.missing)
            unheard: BrokersUnavailableError | None = None
            # each broker gets a part of the time, so a silent one leaves time for the others
            for remaining, (address, own) in zip(range(len(by_broker), 0, -1), by_broker.items(), strict=True):
                left_s = max(_SHORTEST_S, (deadline - time.monotonic()) / remaining)
                try:
                    answers.update(self._ask_broker(address, own, most, left_s))
                except BrokersUnavailableError as error:
                    # a refusal is an error only if no broker answers; it then takes precedence over other errors
                    unheard = error if not isinstance(unheard, BrokerRefusedError) else unheard
                    reasons.update(dict.fromkeys(own, str(error)))
            if isinstance(unheard, BrokerRefusedError) and not answers:
                raise unheard
            if unheard is not None and not answers:
                raise BrokersUnavailableError(f"no answer from the brokers: {unheard}")
            return answers, reasons

    def _ask_broker(
        self, address: BrokerAddress, times: Mapping[TopicPartition, int], most: int, timeout_s: float
    ) -> dict[TopicPartition, ListedOffset]:
        is_fresh = address not in self._connections
        try:
            return self._ask_over(self._connection(address, timeout_s), times, most, timeout_s)
        except BrokersUnavailableError:
            if is_fresh or self._closed:
                raise
            # the broker may have closed the idle connection, which only the next request shows
            return self._ask_over(self._connection(address, timeout_s), times, most, timeout_s)

    def _connection(self, address: BrokerAddress, timeout_s: float) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = self._open_connection(address, timeout_s)
            if self._closed:
                connection.close()
        return connection

    def _ask_over(
        self, connection: Connection, times: Mapping[TopicPartition, int], most: int, timeout_s: float
    ) -> dict[TopicPartition, ListedOffset]:
        try:
            version = connection.versions.of(Api.LIST_OFFSETS)
            if most > 1 and connection.versions.has(Api.LIST_OFFSETS, 0):
                version = 0  # only version 0 returns several offsets
            body = encode_list_offsets(version, times, read_committed=self._read_committed, most=most)
            answer = connection.ask(Api.LIST_OFFSETS, body, timeout_s, version=version)
            answered = decode_list_offsets(version, answer)
        except MalformedResponseError as error:
            self._drop(connection)
            raise BrokersUnavailableError(str(error)) from error
        except BaseException:
            # Ctrl-C may come between a request and its answer: the next request would read that answer
            self._drop(connection)
            raise
        return {tp: answer for tp, answer in answered.items() if tp in times}

    def _drop(self, connection: Connection) -> None:
        self._connections.pop(connection.address, None)
        connection.close()
