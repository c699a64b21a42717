"""Columns as an Arrow record batch.

| column        | type                               | made how                                              |
|---------------|------------------------------------|-------------------------------------------------------|
| key, value    | binary                             | copied together, one copy of each byte                |
| topic         | dictionary<int8, string>           | zeros, and the one name                               |
| partition     | int32                              | filled                                                |
| offset        | int64                              | the array itself                                      |
| timestamp     | timestamp[ms, UTC], null for none  | the array itself                                      |
| timestampType | int32: 0 none, 1 create, 2 append  | widened                                               |
| headers       | list<struct<key string, value binary>>, null for none | parsed record by record            |

Names and meanings are those of Spark's Kafka source. Values lie scattered between the other fields of their records,
and only Arrow's view types can point at them where they are. Those types are read by few (not by Spark, nor by most
of Arrow's own functions), and a batch of views holds the whole response in memory for the sake of one pruned column. So
values are copied together, which takes far less time than the decoding before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from legacy_consumer.errors import CorruptRecordsError
from legacy_consumer.wire.records import gathering
from legacy_consumer.wire.records.columns import Columns, Spans
from legacy_consumer.wire.records.compiling import warm_up
from legacy_consumer.wire.records.headers import parse_headers

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.dictionary(pa.int8(), pa.string()),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}


def record_batch(columns: Columns, wanted: Collection[str]) -> pa.RecordBatch:
    """The wanted columns, in the order of TYPES. Raises: ValueError for one that is not there."""
    names = wanted_names(wanted)
    return pa.RecordBatch.from_arrays([_MAKERS[name](columns) for name in names], schema=_schema(names))


def wanted_names(wanted: Collection[str]) -> tuple[str, ...]:
    """In the order of TYPES. Raises: ValueError for a column that is not there."""
    unknown = [name for name in wanted if name not in TYPES]
    if unknown:
        msg = f"no column {', '.join(map(repr, unknown))}: there are {', '.join(TYPES)}"
        raise ValueError(msg)
    return tuple(name for name in TYPES if name in wanted)


@cache
def _schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, TYPES[name]) for name in names])


def _values(columns: Columns) -> pa.Array:
    joined, spans, count = columns.joined_values, columns.values, len(columns)
    if joined is None:
        return _binary(columns, spans)
    is_valid = spans.lengths >= 0
    nulls = count - int(np.count_nonzero(is_valid))
    bitmap = pa.py_buffer(np.packbits(is_valid, bitorder="little")) if nulls else None
    buffers = [bitmap, pa.py_buffer(joined.offsets), pa.py_buffer(joined.data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, nulls)


def _keys(columns: Columns) -> pa.Array:
    lengths = columns.keys.lengths
    if len(lengths) and lengths.max() < 0:  # as is usual
        return pa.nulls(len(lengths), pa.binary())
    return _binary(columns, columns.keys)


def _binary(columns: Columns, spans: Spans) -> pa.Array:
    warm_up()
    count = len(columns)
    data = np.frombuffer(columns.data, np.uint8) if columns.data.nbytes else np.empty(0, np.uint8)
    offsets = np.empty(count + 1, np.int32)
    valid = np.zeros((count + 7) // 8, np.uint8)
    nulls = int(gathering.measure(data, spans.starts, spans.lengths, offsets, valid))
    if nulls < 0:
        msg = "fields outside of the buffer" if nulls == -1 else "more than 2 GiB in one column: slice the columns"
        raise ValueError(msg)
    gathered = np.empty(int(offsets[-1]), np.uint8)
    gathering.gather(data, spans.starts, offsets, gathered)
    bitmap = pa.py_buffer(valid) if nulls else None
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(gathered)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, nulls)


def _topic(columns: Columns) -> pa.Array:
    numbers = _flat(pa.int8(), np.zeros(len(columns), np.int8))
    # zeros need no look at them
    return pa.DictionaryArray.from_arrays(numbers, _name(columns.topic_partition.topic), safe=False)


@lru_cache(maxsize=100)
def _name(topic: str) -> pa.Array:
    # not pa.array(), which imports pandas where it is installed, to see whether its argument is of there: 40 MB
    name = topic.encode()
    return pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, len(name)], np.int32)), pa.py_buffer(name)]
    )


def _flat(kind: pa.DataType, numbers: NDArray[Any]) -> pa.Array:
    """Numbers as they are, none of them null; as pa.array(), in half of the time."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)], 0)


def _partition(columns: Columns) -> pa.Array:
    return _flat(pa.int32(), np.full(len(columns), columns.topic_partition.partition, np.int32))


def _timestamp(columns: Columns) -> pa.Array:
    has_none = columns.timestamp_types == 0
    bitmap = pa.py_buffer(np.packbits(~has_none, bitorder="little")) if has_none.any() else None
    return pa.Array.from_buffers(TYPES["timestamp"], len(columns), [bitmap, pa.py_buffer(columns.timestamps)])


def _headers(columns: Columns) -> pa.Array:
    spans = columns.headers
    if spans is None:
        msg = "no column 'headers': these records were decoded without them, decode them with with_headers=True"
        raise ValueError(msg)
    rows: list[list[dict[str, str | bytes | None]] | None] = []
    for row, (start, length) in enumerate(zip(spans.starts.tolist(), spans.lengths.tolist(), strict=True)):
        try:
            headers = parse_headers(columns.data[start : start + length].tobytes())
        except ValueError as error:
            raise CorruptRecordsError(columns.topic_partition, int(columns.offsets[row]), str(error)) from error
        rows.append([{"key": key, "value": value} for key, value in headers] or None)
    return pa.array(rows, HEADERS_TYPE)


_MAKERS: dict[str, Callable[[Columns], pa.Array]] = {
    "key": _keys,
    "value": _values,
    "topic": _topic,
    "partition": _partition,
    "offset": lambda columns: _flat(pa.int64(), columns.offsets),
    "timestamp": _timestamp,
    "timestampType": lambda columns: _flat(pa.int32(), columns.timestamp_types.astype(np.int32)),
    "headers": _headers,
}
