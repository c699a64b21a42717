"""The records of one partition as columns: positions in one buffer, so that nothing is copied before it is asked for.

A field of a record is a start and a length in the buffer, the length -1 if the field is null. Starts ascend with the
records. The buffer is the record set itself where nothing was compressed, so whoever hands it in must leave it alone
as long as columns, their slices or Arrow arrays over them live.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from legacy_consumer.wire.records.cutting import PackedFields, cut
from legacy_consumer.wire.records.messages import ColumnFields, ColumnMessage, messages_of
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Int8s = NDArray[np.int8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

ARROW_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""What to_arrow() makes unless told otherwise; "headers" comes on request. Names and order are those of Spark."""


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """One field of all records: where it stands in the buffer."""

    starts: Int32s
    lengths: Int32s
    """-1 for null."""

    def slice(self, start: int, stop: int) -> Spans:
        """The same of some of the records."""
        return Spans(self.starts[start:stop], self.lengths[start:stop])


@dataclass(frozen=True, slots=True, eq=False)
class JoinedFields:
    """One field of all records once more: standing together already, as Arrow wants it."""

    data: NDArray[np.uint8]
    offsets: Int32s
    """Where each begins, and where the last one ends; a null field has no bytes."""

    def slice(self, start: int, stop: int) -> JoinedFields:
        """The same of some of them."""
        return JoinedFields(self.data, self.offsets[start : stop + 1])


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The decoded records of one partition, in ascending order of their offsets."""

    topic_partition: TopicPartition
    data: memoryview
    """The bytes that keys, values and headers lie in; less than 2 GiB."""
    offsets: Int64s
    timestamps: Int64s
    """Milliseconds since 1970; -1 where there is none."""
    timestamp_types: Int8s
    """0 none, 1 create time, 2 log append time."""
    keys: Spans
    values: Spans
    headers: Spans | None
    """Headers as they were written, from their count on; length 0 for none. None: they were not asked for."""
    next_offset: int
    """The position after all that was looked at: over gaps, control records and aborted transactions, too, so it may
    move without a record. Where it equals the position that was asked for, nothing whole was there."""
    has_more: bool = False
    """The record set holds more from next_offset on: a limit was reached, or what follows is corrupt, which decoding
    from there will say."""
    incomplete_size: int | None = None
    """Set when no whole batch was there but the beginning of one: how many bytes it has. Fetch at least so many. The
    number is the batch's own and not checked, so it may be absurd; 2 GiB - 1 at most."""
    packed_values: PackedFields | None = None
    """The values once more, where they were made ready to become objects: see cutting.py."""
    joined_values: JoinedFields | None = None
    """The values once more, where they were made ready to become an Arrow array."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes that these columns keep in memory: the whole buffer, also for a slice."""
        packed = 0 if self.packed_values is None else self.packed_values.data.nbytes
        joined = 0 if self.joined_values is None else self.joined_values.data.nbytes
        return self.data.nbytes + packed + joined + len(self) * _BYTES_PER_RECORD

    def slice(self, start: int, stop: int) -> Columns:
        """The records from start to before stop, on the same buffer; costs no more for many.

        next_offset is the offset after the last of them, or after all if it holds the end; of none, where they begin.
        """
        count = len(self)
        start = min(max(start, 0), count)
        stop = min(max(stop, start), count)
        if stop == count:
            next_offset = self.next_offset
        elif stop > start:
            next_offset = int(self.offsets[stop - 1]) + 1
        else:
            next_offset = int(self.offsets[start])
        # not dataclasses.replace, which takes as long as all of the slicing
        return Columns(
            self.topic_partition,
            self.data,
            self.offsets[start:stop],
            self.timestamps[start:stop],
            self.timestamp_types[start:stop],
            self.keys.slice(start, stop),
            self.values.slice(start, stop),
            self.headers and self.headers.slice(start, stop),
            next_offset,
            self.has_more or stop < count,
            self.incomplete_size,
            self.packed_values and self.packed_values.slice(start, stop),
            self.joined_values and self.joined_values.slice(start, stop),
        )

    def messages(self) -> list[ColumnMessage]:
        """One light object a record. Keys become bytes when the first of them is asked for; each keeps the buffer."""
        return messages_of(self)

    def without_copied_values(self) -> Columns:
        """The same for who keeps them for something else."""
        if self.packed_values is None and self.joined_values is None:
            return self
        return Columns(
            self.topic_partition,
            self.data,
            self.offsets,
            self.timestamps,
            self.timestamp_types,
            self.keys,
            self.values,
            self.headers,
            self.next_offset,
            self.has_more,
            self.incomplete_size,
        )

    def fields(self, start: int, stop: int) -> ColumnFields:
        """What messages of these records share."""
        return ColumnFields(self.without_copied_values(), start, stop)

    def cut_values(self, start: int, stop: int) -> tuple[bytes | None, ...]:
        """The values of these records as bytes objects, all at once."""
        packed = self.packed_values
        return cut(self.data, self.values.slice(start, stop)) if packed is None else packed.slice(start, stop).cut()

    def to_arrow(self, columns: Collection[str] = ARROW_COLUMNS) -> pa.RecordBatch:
        """The wanted columns, in the order of ARROW_COLUMNS; the others cost nothing. See arrow.py for their types.

        Raises: ValueError for an unknown column, or "headers" where they were not asked for at decoding.
        """
        from legacy_consumer.wire.records.arrow import record_batch

        return record_batch(self, columns)


_BYTES_PER_RECORD = 8 + 8 + 1 + 3 * (4 + 4)
