"""Turns messages of librdkafka into Arrow columns. No I/O.

An Arrow array consists of two buffers, here the joined values and the sums of their lengths: 76 ns a value. Arrow
itself takes 733 ns a value from a list of bytes objects (measured). Columns that nobody wants are not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from legacy_consumer.fetching.fetcher import Message
from spark_source.arrow import ARROW_TYPES, ColumnType, arrow_schema, message_times
from spark_source.messages.columns import WantedColumn
from zk_layout.model import TopicPartition

MOST_BATCH_BYTES = 32 << 20
"""The most bytes, roughly, of keys, values and headers in a batch; an Arrow array counts its bytes in 32 bits."""

_Bytes: TypeAlias = "list[bytes | None]"
_TO_SPARK = 1
"""confluent_kafka numbers types of timestamps from 0 = none, Spark from -1 = none."""


class MessageArrays:
    """Collects messages of one partition for a batch."""

    def __init__(self, partition: TopicPartition, columns: Sequence[WantedColumn]) -> None:
        self._partition = partition
        self._sources = [column.source for column in columns]
        self._schema = arrow_schema([column.arrow for column in columns])
        self._wanted = frozenset(self._sources)
        self.clear()

    def clear(self) -> None:
        """Begin a batch."""
        self.rows = 0
        self.bytes = 0
        self._values = _BytesBuilder()
        self._keys = _BytesBuilder()
        self._offsets: list[int] = []
        self._times: list[int] = []
        self._time_types: list[int] = []
        self._headers: list[object] = []

    def portions(self, messages: Sequence[Message]) -> Iterable[Sequence[Message]]:
        """Return the messages in parts for add(): all at once, or one by one if they are too large for a batch."""
        size = sum(len(message.value() or b"") + len(message.key() or b"") for message in messages)
        if "headers" in self._wanted:
            size += sum(map(_header_bytes, (message.headers() for message in messages)))
        return [messages] if size <= MOST_BATCH_BYTES else ([message] for message in messages)

    def add(self, messages: Sequence[Message]) -> None:
        """Add messages; none of them may be an error."""
        self.rows += len(messages)
        if "value" in self._wanted:
            self.bytes += self._values.add([message.value() for message in messages])
        if "key" in self._wanted:
            self.bytes += self._keys.add([message.key() for message in messages])
        if "offset" in self._wanted:
            self._offsets += [message.offset() for message in messages]
        if "timestamp" in self._wanted or "timestampType" in self._wanted:
            for message in messages:
                time_type, time_ms = message.timestamp()
                self._time_types.append(time_type - _TO_SPARK)
                self._times.append(time_ms)
        if "headers" in self._wanted:
            headers = [message.headers() for message in messages]
            self._headers += headers
            self.bytes += sum(map(_header_bytes, headers))

    def batch(self) -> pa.RecordBatch:
        """Return the added messages as a batch, and begin the next batch."""
        arrays = [self._array(source) for source in self._sources]
        made = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.clear()
        return made

    def _array(self, source: str) -> pa.Array:
        if source == "value":
            return self._values.array()
        if source == "key":
            return self._keys.array()
        if source == "topic":
            return pa.repeat(pa.scalar(self._partition.topic, ARROW_TYPES[ColumnType.STRING]), self.rows)
        if source == "partition":
            return pa.repeat(pa.scalar(self._partition.partition, ARROW_TYPES[ColumnType.INT]), self.rows)
        if source == "offset":
            return pa.array(np.array(self._offsets, dtype=np.int64))
        if source == "timestamp":
            return self._timestamps()
        if source == "timestampType":
            return pa.array(np.array(self._time_types, dtype=np.int32))
        return _headers(self._headers)

    def _timestamps(self) -> pa.Array:
        return message_times(np.array(self._times, np.int64), np.array(self._time_types, np.int32) < 0)


class _BytesBuilder:
    """Builds a column of bytes from pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._lengths: list[np.ndarray[tuple[int], np.dtype[np.int32]]] = []
        self._valid: list[np.ndarray[tuple[int], np.dtype[np.bool_]]] = []
        self._nulls = 0

    def add(self, values: _Bytes) -> int:
        """Add the values. Returns: their bytes."""
        try:
            piece = b"".join(values)  # type: ignore[arg-type]
            lengths = np.fromiter(map(len, values), np.int32, len(values))  # type: ignore[arg-type]
            valid = np.ones(len(values), np.bool_)
        except TypeError:  # a null among them
            piece = b"".join([value for value in values if value is not None])
            lengths = np.fromiter((0 if value is None else len(value) for value in values), np.int32, len(values))
            valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
            self._nulls += len(values) - int(valid.sum())
        self._pieces.append(piece)
        self._lengths.append(lengths)
        self._valid.append(valid)
        return len(piece)

    def array(self) -> pa.Array:
        """Return the column."""
        rows = sum(map(len, self._lengths))
        offsets = np.zeros(rows + 1, np.int32)
        if self._lengths:
            np.cumsum(np.concatenate(self._lengths), out=offsets[1:])
        bitmap = None
        if self._nulls:
            bitmap = pa.py_buffer(np.packbits(np.concatenate(self._valid), bitorder="little").tobytes())
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(b"".join(self._pieces))]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, self._nulls)


def _header_bytes(headers: Sequence[tuple[str, bytes | None]] | None) -> int:
    return sum(len(key) + len(value or b"") for key, value in headers or ())


def _headers(found: Sequence[object]) -> pa.Array:
    rows = [
        None if headers is None else [{"key": key, "value": value} for key, value in headers]  # type: ignore[attr-defined]
        for headers in found
    ]
    return pa.array(rows, ARROW_TYPES[ColumnType.HEADERS])
