"""From the bytes of a partition in a Fetch response to columns.

First the runs that lie side by side are told apart, checked and decompressed (frames.py), then compiled loops walk over
all records. Python sees runs, not records.

Whatever is found wrong ends the columns before it; decoding from there, where nothing good comes first, raises. So what
is sound before a damaged batch is delivered, and the error names the position that cannot be passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from legacy_consumer.errors import CorruptRecordsError, FetchError
from legacy_consumer.wire.records import batch_format, message_format
from legacy_consumer.wire.records.arena import MOST_BYTES
from legacy_consumer.wire.records.columns import Columns, Spans
from legacy_consumer.wire.records.compiling import warm_up
from legacy_consumer.wire.records.frames import Bytes, Frame, Wanted, make_frames
from legacy_consumer.wire.records.message_format import AT, ERROR, POSITION, STOPPED, WRITTEN
from legacy_consumer.wire.records.transactions import AbortedProducers, AbortedTransaction
from zk_layout.model import TopicPartition

MAX_BATCH_BYTES = 128 * 1024 * 1024
"""What one batch may decompress to. Producers limit a batch before they compress it, by default to 1 MB."""
MAX_DECOMPRESSED_BYTES = 32 * 1024 * 1024
"""Once so much is decompressed the columns end with that batch."""
MOST_RECORDS = 1 << 20
"""Of one call: a batch of 150 KB may hold millions that are empty, and each takes 41 bytes of columns."""


def decode_records(
    record_set: bytes | bytearray | memoryview,
    partition: TopicPartition,
    position: int,
    *,
    aborted: Sequence[AbortedTransaction] = (),
    read_committed: bool = False,
    max_records: int | None = None,
    with_headers: bool = False,
    check_crcs: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Columns:
    """Decode the records at the position and behind it, as many as are whole.

    record_set: message sets of formats 0 and 1 and batches of format 2, one behind the other, the last one may be cut.
    It must not change while the columns are in use. aborted: as the Fetch response says, for read_committed. The last
    stable offset that stands beside it ends nothing: the broker sends no more than readers of committed messages may
    have, and since 2.3 it reads the log after it has noted that offset, so that what lies behind it is committed too.
    max_records: decode no more, though all may be sliced cheaply. with_headers: check and keep the headers. check_crcs:
    also those of messages inside compressed ones.

    Columns.next_offset says where to go on, Columns.has_more whether in the same record set, and
    Columns.incomplete_size that nothing whole was there. Memory is taken for what the bytes can hold, and what is
    decompressed is bounded by both limits.

    Raises: CorruptRecordsError if what comes first at the position cannot be read; FetchError that names the setting to
    raise if only a limit keeps it from being read.
    """
    warm_up()
    view = memoryview(record_set).cast("B")
    if len(view) > MOST_BYTES:
        msg = f"a record set of {len(view)} bytes: positions in it take 32 bits"
        raise ValueError(msg)
    wanted = Wanted(
        position=position,
        max_records=max_records,
        max_batch_bytes=max_batch_bytes,
        max_decompressed_bytes=max_decompressed_bytes,
        check_crcs=check_crcs,
        aborted=AbortedProducers(aborted) if read_committed else None,
    )
    made = make_frames(_bytes(view), wanted)
    data = made.buffer
    capacity = min(made.count, MOST_RECORDS if max_records is None else max(max_records, 0))
    fields = _Fields(capacity, with_headers=with_headers)
    state = np.zeros(message_format.STATE_COLUMNS, np.int64)
    state[POSITION] = position
    damage = _decode(data, made.frames, fields, state)
    fault = damage or made.fault
    count, next_offset = int(state[WRITTEN]), int(state[POSITION])
    has_moved = next_offset > position
    if fault and not has_moved:
        if made.is_too_large and damage is None:
            raise FetchError(partition, f"offset {position}: {fault}, which are allowed: raise fetch.message.max.bytes")
        raise CorruptRecordsError(partition, position, fault)
    return fields.columns(
        count,
        topic_partition=partition,
        data=data.data,
        next_offset=next_offset,
        has_more=bool(fault or made.has_more or state[STOPPED]),
        incomplete_size=(made.needed or None) if not has_moved else None,
    )


def _bytes(view: memoryview) -> Bytes:
    return np.frombuffer(view, np.uint8) if len(view) else np.empty(0, np.uint8)


class _Fields:
    """The arrays that the loops write into."""

    def __init__(self, capacity: int, *, with_headers: bool) -> None:
        self.offsets = np.empty(capacity, np.int64)
        self.times = np.empty(capacity, np.int64)
        self.time_types = np.empty(capacity, np.int8)
        self.with_headers = with_headers
        self.key_starts, self.key_lengths, self.value_starts, self.value_lengths = np.empty((4, capacity), np.int32)
        self.header_starts, self.header_lengths = np.empty((2, capacity if with_headers else 0), np.int32)

    def columns(
        self,
        count: int,
        *,
        topic_partition: TopicPartition,
        data: memoryview,
        next_offset: int,
        has_more: bool,
        incomplete_size: int | None,
    ) -> Columns:
        return Columns(
            topic_partition=topic_partition,
            data=data,
            offsets=self.offsets[:count],
            timestamps=self.times[:count],
            timestamp_types=self.time_types[:count],
            keys=Spans(self.key_starts[:count], self.key_lengths[:count]),
            values=Spans(self.value_starts[:count], self.value_lengths[:count]),
            headers=Spans(self.header_starts[:count], self.header_lengths[:count]) if self.with_headers else None,
            next_offset=next_offset,
            has_more=has_more,
            incomplete_size=incomplete_size,
        )


def _decode(data: Bytes, frames: list[Frame], fields: _Fields, state: NDArray[np.int64]) -> str | None:
    """Let the loops write all frames; what is wrong with the one that ended it."""
    common = (
        fields.offsets,
        fields.times,
        fields.time_types,
        fields.key_starts,
        fields.key_lengths,
        fields.value_starts,
        fields.value_lengths,
    )
    for is_batch, group in groupby(frames, lambda frame: frame.is_batch):
        rows = np.concatenate([frame.rows for frame in group])
        begun_with = int(state[WRITTEN])
        if is_batch:
            headers = (fields.header_starts, fields.header_lengths)
            batch_format.decode_batches(data, rows, fields.with_headers, *common, *headers, state)
        else:
            message_format.decode_messages(data, rows, *common, state)
            if fields.with_headers:
                new = slice(begun_with, int(state[WRITTEN]))
                fields.header_lengths[new] = 0
                fields.header_starts[new] = fields.value_starts[new] + np.maximum(fields.value_lengths[new], 0)
        if state[ERROR]:
            reasons = batch_format.REASONS if is_batch else message_format.REASONS
            return f"{reasons[int(state[ERROR])]}, {int(state[AT])} bytes into the records"
        if state[STOPPED]:
            break
    return None
