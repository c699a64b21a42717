"""Reads a range of one partition as Arrow batches: the work of a task.

A range ends by position, not by a last message: compaction and transactions leave offsets without messages, also
right before its end. Messages that were deleted since the plan are a loss, reported as the plan reports losses.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError, OffsetOutOfRangeError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.fetchers import LIBRDKAFKA, choose_fetcher
from legacy_consumer.fetching.librdkafka import open_log_offsets
from legacy_consumer.fetching.librdkafka.batch import LibrdkafkaBatch
from legacy_consumer.fetching.librdkafka.client import RdMessage
from legacy_consumer.fetching.librdkafka.client_consumer import ConsumerHandle
from legacy_consumer.fetching.librdkafka.client_faults import Fault, FaultKind, has_faults, take_faults
from legacy_consumer.fetching.librdkafka.settings import fetcher_settings
from rebalance.clock import Clock, SystemClock
from spark_source.errors import DataLossError, Lost, RangeReadError
from spark_source.messages.columns import WantedColumn
from spark_source.messages.message_arrays import MOST_BATCH_BYTES, MessageArrays
from spark_source.messages.options import MessageOptions
from spark_source.messages.planned_znodes import PlannedStore, Znodes
from spark_source.messages.ranges import OffsetRange
from zk_layout.loggers import safe_logger
from zk_layout.model import Broker, TopicPartition
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_AT_ONCE = 1000
_BATCH_ROWS = 10_000
"""The default of Spark's spark.sql.execution.arrow.maxRecordsPerBatch."""
_SLICE_S = 0.5
_AGAIN_S = 0.5
_END_OF_LOG = "_PARTITION_EOF"


def open_reader(
    options: MessageOptions,
    znodes: Znodes,
    wanted: OffsetRange,
    columns: Sequence[WantedColumn],
    *,
    must_reach_end: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of the range, in order; connections are open from the first batch to the last or to close().

    znodes: of the brokers and of the partition's state. must_reach_end: as in read_what_is_left.
    Raises: RangeReadError after fetchTimeoutMs without a message; DataLossError, by option; FetchError,
    BrokersUnavailableError, BrokerRefusedError, MissingListenerError, ConfigError.
    """

    def new_store() -> ZkStore:
        return PlannedStore(znodes, [wanted.partition]).as_store()

    def read_with_librdkafka(part: OffsetRange) -> Iterator[pa.RecordBatch]:
        return _read_with_librdkafka(options, new_store(), part, columns)

    def read_columnar(part: OffsetRange) -> Iterator[pa.RecordBatch]:
        from spark_source.messages import columnar_reader

        timeout_s = options.fetch_timeout_ms / 1000
        return columnar_reader.read_columnar(options.config, new_store, part, columns, read_with_librdkafka, timeout_s)

    uses_librdkafka = choose_fetcher(options.config).fetcher == LIBRDKAFKA
    return read_what_is_left(
        read_with_librdkafka if uses_librdkafka else read_columnar,
        wanted,
        lambda: _ask_log(options.config, new_store(), wanted.partition),
        fail_on_data_loss=options.fail_on_data_loss,
        patience_s=options.fetch_timeout_ms / 1000,
        must_reach_end=must_reach_end,
    )


def read_what_is_left(
    read: Callable[[OffsetRange], Iterator[pa.RecordBatch]],
    wanted: OffsetRange,
    ask_log: Callable[[], tuple[int, int] | None],
    *,
    fail_on_data_loss: bool,
    patience_s: float,
    must_reach_end: bool = False,
    clock: Clock | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the whole range, or as much as there is if loss is allowed; continue after messages deleted since the plan.

    A broker that has just started may report a lower end than the plan saw: messages beyond the end count as lost only
    after patience_s. must_reach_end: they do not count as lost even then. Such a reader continues after the range in
    any case, and nobody would read the messages if they came back. ask_log: returns the log's first offset and end,
    None if no broker answers.
    Raises: DataLossError unless failOnDataLoss=false; RangeReadError for messages that exist, or may come;
    OffsetOutOfRangeError for an offset that the log does hold.
    """
    clock = clock or SystemClock()
    deadline = math.inf
    left: OffsetRange | None = wanted
    while left is not None:
        try:
            yield from read(left)
        except OffsetOutOfRangeError as error:
            if error.earliest <= error.offset <= error.latest:
                raise
            left = replace(left, start=error.offset)
            is_short = error.offset > error.latest
            if is_short:
                deadline = min(deadline, clock.monotonic() + patience_s)
                if clock.monotonic() < deadline:
                    clock.wait(threading.Event(), _AGAIN_S)
                    continue
            lost = Lost(left.partition, error.offset, left.end, error.earliest, error.latest)
            if is_short and must_reach_end:
                raise _too_short(lost) from error
            if fail_on_data_loss:
                raise DataLossError((lost,)) from error
            logger.warning("lost: %s", lost)
            left = None if is_short or error.earliest >= left.end else replace(left, start=error.earliest)
        except RangeReadError as error:
            log = ask_log()
            if log is None or log[1] > error.position:
                raise
            lost = Lost(left.partition, error.position, left.end, *log)
            if must_reach_end:
                raise _too_short(lost) from error
            if fail_on_data_loss:
                raise DataLossError((lost,)) from error
            logger.warning("lost: %s", lost)
            return
        else:
            return


def _too_short(lost: Lost) -> RangeReadError:
    return RangeReadError(
        lost.partition,
        lost.start,
        lost.end,
        f"the log holds {lost.earliest} to {lost.latest}; a planned batch is read whole or not at all, so start the "
        f"query again when the log has reached {lost.end}, or with another checkpoint",
    )


def _read_with_librdkafka(
    options: MessageOptions, store: ZkStore, wanted: OffsetRange, columns: Sequence[WantedColumn]
) -> Iterator[pa.RecordBatch]:
    arrays = MessageArrays(wanted.partition, columns)
    with closing(ConsumerHandle(_settings(options.config, read_brokers(store)))) as handle:
        handle.assign({wanted.partition: wanted.start})
        reading = _Reading(handle, wanted, options.fetch_timeout_ms / 1000)
        while not reading.is_done and not reading.is_outside and reading.failure is None:
            messages = reading.next_messages()
            for portion in arrays.portions(LibrdkafkaBatch(messages, {}).messages()) if messages else ():
                arrays.add(portion)
                if arrays.rows >= _BATCH_ROWS or arrays.bytes >= MOST_BATCH_BYTES:
                    yield arrays.batch()
        # also before a failure: the caller may give up the rest of the range, but these messages were read
        if arrays.rows:
            yield arrays.batch()
    if reading.failure is not None:
        raise reading.failure
    if reading.is_outside:
        raise _out_of_range(options.config, store, replace(wanted, start=reading.position))


def _out_of_range(config: ConsumerConfig, store: ZkStore, left: OffsetRange) -> OffsetOutOfRangeError | RangeReadError:
    """Return the error for a position that its log does not hold, with the bounds of the log."""
    log = _ask_log(config, store, left.partition)
    if log is None:
        return RangeReadError(
            left.partition, left.start, left.end, "the offset lies outside the log, and nobody says what is there"
        )
    return OffsetOutOfRangeError(left.partition, left.start, *log)


def _ask_log(config: ConsumerConfig, store: ZkStore, tp: TopicPartition) -> tuple[int, int] | None:
    """Return the log's first offset and end; None if no broker answers."""
    with closing(open_log_offsets(config, store)) as logs:
        try:
            earliest, latest = logs.earliest([tp]).get(tp), logs.latest([tp]).get(tp)
        except BrokersUnavailableError:
            return None
    return None if earliest is None or latest is None else (earliest, latest)


def _settings(config: ConsumerConfig, brokers: Sequence[Broker]) -> dict[str, str | int | float | bool]:
    settings = fetcher_settings(config, brokers, 1)
    return {
        **settings,
        # librdkafka reports the end of the log like a message: a range may end there without a message
        "enable.partition.eof": True,
        "queued.min.messages": 100_000,
        **dict(config.rdkafka),
    }


class _Reading:
    """The state of reading one range: its position, and the time since the last message."""

    def __init__(self, handle: ConsumerHandle, wanted: OffsetRange, timeout_s: float) -> None:
        self._handle = handle
        self._range = wanted
        self._timeout_s = timeout_s
        self.position = wanted.start
        self.is_outside = False
        """Whether the log does not hold the position; then the reading stops."""
        self.failure: RangeReadError | None = None
        """Why the reading stops; the messages returned before it are valid."""
        self._waited_s = 0.0
        """Seconds without a message, not counting the time that Spark takes for a batch."""
        self._complaint = "no message came"

    @property
    def is_done(self) -> bool:
        return self.position >= self._range.end

    def next_messages(self) -> list[RdMessage]:
        """Return the next messages of the range, perhaps none. Raises: FetchError, BrokersUnavailableError."""
        asked_at = time.monotonic()
        messages = self._handle.consume(_AT_ONCE, _SLICE_S)
        if not messages:
            self._waited_s += time.monotonic() - asked_at
            self._wait_on()
            return []
        self._waited_s = 0.0
        if not has_faults(messages):
            return self._take(messages)
        ends = [message for message in messages if _is_end_of_log(message)]
        messages, faults = take_faults([message for message in messages if not _is_end_of_log(message)])
        inside = self._take(messages) if messages else []
        # librdkafka fetches ahead: a fault after the range does not concern this task
        for fault in () if self.is_done else faults:
            self._judge(fault)
        if self.failure is None and not self.is_outside:
            # after all messages of the log; librdkafka reports its end once, perhaps together with the last messages
            self.position = max([self.position, *(message.offset() or 0 for message in ends)])
        return inside

    def _take(self, messages: list[RdMessage]) -> list[RdMessage]:
        last = messages[-1].offset()
        assert last is not None
        self.position = max(self.position, last + 1)
        if last < self._range.end:
            return messages
        return [message for message in messages if (message.offset() or 0) < self._range.end]

    def _wait_on(self) -> None:
        failure = self._handle.lasting_failure()
        if failure is not None:
            raise failure
        if self._waited_s >= self._timeout_s:
            if self._handle.brokers_down:
                self._complaint = "no broker can be reached"
            self._fail(f"{self._complaint} for {self._timeout_s:g} s")

    def _judge(self, fault: Fault) -> None:
        if fault.kind is FaultKind.POSITION:
            self.is_outside = True
        if fault.kind in {FaultKind.CORRUPT, FaultKind.LASTING}:
            self._fail(fault.reason)
        if fault.kind is FaultKind.PASSING:
            self._complaint = f"{fault.reason}, and nothing came"

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or RangeReadError(self._range.partition, self.position, self._range.end, reason)


def _is_end_of_log(message: RdMessage) -> bool:
    error = message.error()
    return error is not None and error.name() == _END_OF_LOG
