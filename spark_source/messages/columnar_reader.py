"""Reads a range through the columnar fetcher, which decodes the brokers' data directly into Arrow columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pyarrow as pa

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.columnar import open_fetcher, open_log_offsets
from legacy_consumer.fetching.columnar.records import Columns
from spark_source.arrow import arrow_schema
from spark_source.messages.column_batches import batch_of_columns
from spark_source.messages.columns import WantedColumn
from spark_source.messages.ranges import OffsetRange
from zk_layout.store import ZkStore

_AT_ONCE = 65_536
_FETCH_BYTES = 4 << 20
"""The default fetch size: larger than a consumer's, since a task reads only one partition."""
_SLICE_S = 0.1
_SILENCE_S = 1.0
"""The silence after a message that makes the end of the log likely."""

ReadRest = Callable[[OffsetRange], Iterator[pa.RecordBatch]]


def read_columnar(
    config: ConsumerConfig,
    new_store: Callable[[], ZkStore],
    wanted: OffsetRange,
    columns: Sequence[WantedColumn],
    read_rest: ReadRest,
    timeout_s: float,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of the range, in order.

    new_store: makes a store of the planned znodes for each fetcher, because such a store gives the leaders only once.
    read_rest: reads the rest of the range when no more messages come. If offsets without messages lie before the end
    of the range, only the other fetcher learns that the end of the log is reached.
    Raises: RangeReadError, FetchError, OffsetOutOfRangeError, BrokerRefusedError, MissingListenerError.
    """
    tp = wanted.partition
    schema = arrow_schema([column.arrow for column in columns])
    larger = replace(config, fetch_message_max_bytes=config.fetch_message_max_bytes or _FETCH_BYTES)
    position = wanted.start
    with ExitStack() as until_read:
        log_offsets = open_log_offsets(config, new_store())
        until_read.callback(log_offsets.close)
        fetcher = open_fetcher(larger, new_store(), log_offsets)
        until_read.callback(fetcher.close)
        fetcher.assign({tp: wanted.start})
        deadline = time.monotonic() + timeout_s
        while position < wanted.end:
            batch = fetcher.poll(_AT_ONCE, _SLICE_S)
            if batch is None:
                if position < wanted.end and time.monotonic() >= deadline:
                    break
                continue
            # also over offsets after the last message: ends of transactions, and aborted or compacted messages
            position = max(position, batch.next_offsets.get(tp, 0))
            for run in batch.runs:
                inside = _until(run, wanted.end)
                if len(inside):
                    yield batch_of_columns(inside, columns, schema)
            # starts here: the time that Spark takes for a batch does not count as a broker's silence
            deadline = time.monotonic() + min(_SILENCE_S, timeout_s)
    if position < wanted.end:
        yield from read_rest(OffsetRange(tp, position, wanted.end))


def _until(run: Columns, end: int) -> Columns:
    if not len(run) or run.offsets[-1] < end:
        return run
    return run.slice(0, int(np.searchsorted(run.offsets, end)))
