"""Builds Arrow columns in the form that Spark needs. No I/O, no Spark.

Spark accepts a batch only if its schema equals the requested one in types, order and nullability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class ColumnType(Enum):
    """The types in use; the value is Spark's name, as in a DDL string and in DataType.simpleString()."""

    STRING = "string"
    INT = "int"
    LONG = "bigint"
    BINARY = "binary"
    TIMESTAMP = "timestamp"
    """Values are ms since 1970."""
    INTS = "array<int>"
    HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """A column of a batch: its name as the user spells it."""

    name: str
    type: ColumnType
    nullable: bool = True


ARROW_TYPES = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT: pa.int32(),
    ColumnType.LONG: pa.int64(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.INTS: pa.list_(pa.field("element", pa.int32())),
    ColumnType.HEADERS: pa.list_(
        pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    ),
}
_MS = pa.timestamp("ms", tz="UTC")


_MOST_MS = (2**63 - 1) // 1000


def message_times(times_ms: NDArray[np.int64], absent: NDArray[np.bool_]) -> pa.Array:
    """Return times of messages as Spark's timestamps, in us since 1970; null for messages without one.

    Null, too, if Spark's type cannot hold the time: a producer may write any number, for example nanoseconds.
    """
    absent = absent | (times_ms > _MOST_MS) | (times_ms < -_MOST_MS)
    micros = np.where(absent, 0, times_ms) * 1000
    return pa.array(micros, pa.int64(), mask=absent if absent.any() else None).cast(ARROW_TYPES[ColumnType.TIMESTAMP])


def arrow_schema(columns: Sequence[ArrowColumn]) -> pa.Schema:
    """Return the schema that a batch of these columns must have."""
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type], column.nullable) for column in columns])


def record_batch(columns: Sequence[ArrowColumn], values: Sequence[Sequence[object]]) -> pa.RecordBatch:
    """Return one batch. values: for each column a sequence of the same length, None for null.

    Raises: pyarrow.ArrowInvalid for a value that is not of its column's type.
    """
    arrays = [_array(column.type, own) for column, own in zip(columns, values, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _array(column_type: ColumnType, values: Sequence[object]) -> pa.Array:
    if column_type is ColumnType.TIMESTAMP:
        return pa.array(values, _MS).cast(ARROW_TYPES[column_type])
    return pa.array(values, ARROW_TYPES[column_type])
