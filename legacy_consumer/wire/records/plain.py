"""Record sets that need no more than to be decoded, so that compiled loops can do all of it, on whatever thread.

That is what brokers from 0.11 on hold of producers that neither compress nor use transactions. Memory is laid out
beforehand, for the columns and for the values as they become objects (cutting.py). What is wrong with such a set shows
when it is decoded, and decode_records() has the words for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legacy_consumer.wire.records import scanning
from legacy_consumer.wire.records.batch_format import FRAME_COLUMNS
from legacy_consumer.wire.records.columns import Columns, Spans
from legacy_consumer.wire.records.compiling import loop, warm_up
from legacy_consumer.wire.records.cutting import PackedFields
from legacy_consumer.wire.records.scanning import (
    ATTRIBUTES,
    BATCH,
    CODEC_MASK,
    CONTROL_FLAG,
    COUNT,
    KIND,
    LAST_OFFSET,
    PRODUCER_ID,
)
from zk_layout.model import TopicPartition

LONG_ROWS = 2
"""Offsets, timestamps."""
INT_ROWS = 7
"""Key, value and headers, start and length of each, and where the packed values are."""
_MOST_BATCHES = 4096
"""Of one set: a batch of one record each, as producers send that do not wait for a second one, 256 KB of them."""
_SLACK_BYTES = 8
"""A value takes five bytes more when it is packed, and seven at least where it comes from, but for the last one."""


@dataclass(frozen=True, slots=True, eq=False)
class PlainRecords:
    """A record set that is laid out, and memory for what is in it."""

    topic_partition: TopicPartition
    position: int
    data: NDArray[np.uint8]
    rows: NDArray[np.int64]
    """Of its scan: batches only."""
    capacity: int
    """How many records there are, at most."""
    memory: NDArray[np.int64]
    """For the frames of the batches and the columns: see divide()."""
    packed: NDArray[np.uint8]

    def columns(self, count: int, next_offset: int) -> Columns:
        """What was decoded: so many records, and the position behind them."""
        _, longs, ints, types = divide(self.memory, len(self.rows), self.capacity)
        fields = ints[:, :count]
        return Columns(
            self.topic_partition,
            self.data.data,
            longs[0, :count],
            longs[1, :count],
            types[:count],
            Spans(fields[0], fields[1]),
            Spans(fields[2], fields[3]),
            Spans(fields[4], fields[5]),
            next_offset,
            packed_values=PackedFields(self.packed.data, ints[6, : count + 1]),
        )


Parts = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]


def divide(memory: NDArray[np.int64], batches: int, capacity: int) -> Parts:
    """Frames, LONG_ROWS of int64, INT_ROWS of int32, one more than there can be records, and the types of timestamps.

    They follow each other, each from a whole int64 on.
    """
    longs_at = batches * FRAME_COLUMNS
    ints_at = longs_at + LONG_ROWS * capacity
    ints = INT_ROWS * (capacity + 1)
    types_at = ints_at + (ints + 1) // 2
    return (
        memory[:longs_at].reshape(batches, FRAME_COLUMNS),
        memory[longs_at:ints_at].reshape(LONG_ROWS, capacity),
        memory[ints_at:types_at].view(np.int32)[:ints].reshape(INT_ROWS, capacity + 1),
        memory[types_at:].view(np.int8)[:capacity],
    )


def lay_out(
    record_set: memoryview,
    partition: TopicPartition,
    position: int,
    *,
    read_committed: bool,
) -> PlainRecords | None:
    """See PlainRecords; None if the set needs more, or holds nothing."""
    data = np.frombuffer(record_set, np.uint8)
    found = plain_batches(data, position, read_committed=read_committed)
    if found is None:
        return None
    rows, capacity = found
    ints = INT_ROWS * (capacity + 1)
    size = len(rows) * FRAME_COLUMNS + LONG_ROWS * capacity + (ints + 1) // 2 + (capacity + 7) // 8
    packed = np.empty(len(data) + _SLACK_BYTES, np.uint8)
    return PlainRecords(partition, position, data, rows, capacity, np.empty(size, np.int64), packed)


def plain_batches(
    data: NDArray[np.uint8], position: int, *, read_committed: bool
) -> tuple[NDArray[np.int64], int] | None:
    """The rows of a scan of the set, and how many records it has at most; None if it needs more, or holds nothing."""
    warm_up()
    rows = np.empty((min(len(data) // scanning.BATCH_HEAD, _MOST_BATCHES), scanning.ROW_COLUMNS), np.int64)
    state = np.zeros(scanning.STATE_COLUMNS, np.int64)
    scanning.scan(data, 0, rows, state)
    found, at, error, needed = state.tolist()
    if error or not found or (at < len(data) and not needed):
        return None
    rows = rows[:found].copy()
    capacity = int(_count_plain(rows, position, read_committed))
    return None if capacity < 0 else (rows, capacity)


@loop("int64(int64[:, ::1], int64, boolean)")
def _count_plain(rows: Any, position: Any, read_committed: Any) -> Any:
    """How many records these have at most; -1 if one of them is not as the others here, or is not wanted."""
    count = np.int64(0)
    for row in range(rows.shape[0]):
        if (
            rows[row, KIND] != BATCH
            or rows[row, ATTRIBUTES] & (CODEC_MASK | CONTROL_FLAG)
            or rows[row, LAST_OFFSET] < position
            or rows[row, COUNT] <= 0
            or (read_committed and rows[row, PRODUCER_ID] >= 0)
        ):
            return np.int64(-1)
        count += rows[row, COUNT]
    return count
