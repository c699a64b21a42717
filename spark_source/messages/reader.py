"""Reads a range of one partition as Arrow batches: what a task does.

A range ends by position, not by a last message: compaction and transactions leave offsets without messages, also right
before its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetchers import LIBRDKAFKA, choose_fetcher
from legacy_consumer.librdkafka import read_brokers
from legacy_consumer.librdkafka.batch import LibrdkafkaBatch
from legacy_consumer.librdkafka.client import RdMessage
from legacy_consumer.librdkafka.client_consumer import ConsumerHandle
from legacy_consumer.librdkafka.client_faults import Fault, FaultKind, has_faults, take_faults
from legacy_consumer.librdkafka.settings import fetcher_settings
from spark_source.errors import RangeReadError
from spark_source.messages.columns import WantedColumn
from spark_source.messages.message_arrays import MOST_BATCH_BYTES, MessageArrays
from spark_source.messages.options import MessageOptions
from spark_source.messages.planned_znodes import PlannedStore, Znodes
from spark_source.messages.ranges import OffsetRange
from zk_layout.model import Broker

_AT_ONCE = 1000
_BATCH_ROWS = 10_000
"""As Spark's own spark.sql.execution.arrow.maxRecordsPerBatch."""
_SLICE_S = 0.5
_END_OF_LOG = "_PARTITION_EOF"


def open_reader(
    options: MessageOptions, znodes: Znodes, wanted: OffsetRange, columns: Sequence[WantedColumn]
) -> Iterator[pa.RecordBatch]:
    """The messages of the range, in order; connections are open from the first batch to the last or to close().

    znodes: of the brokers and of the partition's state.
    Raises: RangeReadError after fetchTimeoutMs without a message; FetchError, BrokersUnavailableError,
    BrokerRefusedError, MissingListenerError, ConfigError.
    """
    store = PlannedStore(znodes).as_store()

    def read_with_librdkafka(part: OffsetRange) -> Iterator[pa.RecordBatch]:
        return _read_with_librdkafka(options, read_brokers(store), part, columns)

    needs_headers = any(column.source == "headers" for column in columns)
    if choose_fetcher(options.config).fetcher == LIBRDKAFKA or needs_headers:
        return read_with_librdkafka(wanted)
    from spark_source.messages.columnar_reader import read_columnar

    timeout_s = options.fetch_timeout_ms / 1000
    return read_columnar(options.config, store, wanted, columns, read_with_librdkafka, timeout_s)


def _read_with_librdkafka(
    options: MessageOptions, brokers: Sequence[Broker], wanted: OffsetRange, columns: Sequence[WantedColumn]
) -> Iterator[pa.RecordBatch]:
    arrays = MessageArrays(wanted.partition, columns)
    with closing(ConsumerHandle(_settings(options.config, brokers))) as handle:
        handle.assign({wanted.partition: wanted.start})
        reading = _Reading(handle, wanted, options.fetch_timeout_ms / 1000)
        while not reading.is_done:
            messages = reading.next_messages()
            if messages:
                arrays.add(LibrdkafkaBatch(messages, {}).messages())
            if arrays.rows >= _BATCH_ROWS or arrays.bytes >= MOST_BATCH_BYTES:
                yield arrays.batch()
        if arrays.rows:
            yield arrays.batch()


def _settings(config: ConsumerConfig, brokers: Sequence[Broker]) -> dict[str, str | int | float | bool]:
    settings = fetcher_settings(config, brokers, 1)
    return {
        **settings,
        # the end of the log is said in the place of a message: a range may end there without one
        "enable.partition.eof": True,
        "queued.min.messages": 100_000,
        **dict(config.rdkafka),
    }


class _Reading:
    """One range being read: its position, and how long nothing has come."""

    def __init__(self, handle: ConsumerHandle, wanted: OffsetRange, timeout_s: float) -> None:
        self._handle = handle
        self._range = wanted
        self._timeout_s = timeout_s
        self._position = wanted.start
        self._deadline = time.monotonic() + timeout_s
        self._complaint = "no message came"

    @property
    def is_done(self) -> bool:
        return self._position >= self._range.end

    def next_messages(self) -> list[RdMessage]:
        """What came of the range, perhaps nothing. Raises: RangeReadError, FetchError."""
        messages = self._handle.consume(_AT_ONCE, _SLICE_S)
        if not messages:
            self._wait_on()
            return []
        self._deadline = time.monotonic() + self._timeout_s
        if has_faults(messages):
            ended = _ends_of_log(messages)
            messages, faults = take_faults(messages)
            self._judge(messages, [fault for fault in faults if fault not in ended], ended)
        return self._take(messages) if messages else []

    def _take(self, messages: list[RdMessage]) -> list[RdMessage]:
        last = messages[-1].offset()
        assert last is not None
        self._position = max(self._position, last + 1)
        if last < self._range.end:
            return messages
        return [message for message in messages if (message.offset() or 0) < self._range.end]

    def _wait_on(self) -> None:
        failure = self._handle.lasting_failure()
        if failure is not None:
            raise failure
        if time.monotonic() >= self._deadline:
            if self._handle.brokers_down:
                self._complaint = "no broker can be reached"
            raise self._stuck(f"{self._complaint} for {self._timeout_s:g} s")

    def _judge(self, messages: Sequence[RdMessage], faults: Sequence[Fault], ended: Sequence[Fault]) -> None:
        for fault in faults:
            if fault.kind in {FaultKind.POSITION, FaultKind.CORRUPT, FaultKind.LASTING}:
                where = f"offset {fault.offset}: " if fault.offset >= 0 else ""
                raise self._stuck(f"{where}{fault.reason}")
            if fault.kind is FaultKind.PASSING:
                self._complaint = f"{fault.reason}, and nothing came"
        # behind all messages that are there
        if ended and not messages:
            self._position = max(self._position, *(fault.offset for fault in ended))

    def _stuck(self, reason: str) -> RangeReadError:
        return RangeReadError(self._range.partition, self._position, self._range.end, reason)


def _ends_of_log(messages: Sequence[RdMessage]) -> list[Fault]:
    ends = [m for m in messages if (error := m.error()) is not None and error.name() == _END_OF_LOG]
    return take_faults(ends)[1]
