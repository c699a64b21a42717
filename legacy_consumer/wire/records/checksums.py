"""Checks CRCs: CRC-32 of the messages of formats 0 and 1, CRC-32C of the batches of format 2.

Compiled loops take eight bytes a step, by eight tables. The crc32c library is faster for long pieces, but a call of it
costs as much as hundreds of bytes here.
"""

from __future__ import annotations

from typing import Any

import crc32c
import numpy as np
from numpy.typing import NDArray

from legacy_consumer.wire.records.compiling import BYTES, helper, loop
from legacy_consumer.wire.records.scanning import BATCH, CRC, END, KIND, LAST_OFFSET, START

LONG_BATCH_BYTES = 512
"""From here on a call of the library takes less time."""


Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

_RANGE = [START, END, CRC]
_CRC_COVERS_FROM = 21


def _tables(polynomial: int) -> NDArray[np.uint32]:
    table = np.empty((8, 256), np.uint32)
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = (crc >> np.uint32(1)) ^ (crc & np.uint32(1)) * np.uint32(polynomial)
    table[0] = crc
    for step in range(1, 8):
        table[step] = table[0][table[step - 1] & np.uint32(0xFF)] ^ table[step - 1] >> np.uint32(8)
    return table


CRC32_TABLES = _tables(0xEDB88320)
CRC32C_TABLES = _tables(0x82F63B78)


@helper
def _crc(data: Any, begin: Any, stop: Any, tables: Any) -> Any:
    # unsigned, so that no index can count from the end, which would be looked after at every byte
    at, end = np.uint64(begin), np.uint64(stop)
    crc = np.uint32(0xFFFFFFFF)
    byte = np.uint32(0xFF)
    whole = at + ((end - at) & ~np.uint64(7))
    while at < whole:
        crc ^= (
            np.uint32(data[at])
            | np.uint32(data[at + np.uint64(1)]) << np.uint32(8)
            | np.uint32(data[at + np.uint64(2)]) << np.uint32(16)
            | np.uint32(data[at + np.uint64(3)]) << np.uint32(24)
        )
        crc = (
            tables[7, crc & byte]
            ^ tables[6, crc >> np.uint32(8) & byte]
            ^ tables[5, crc >> np.uint32(16) & byte]
            ^ tables[4, crc >> np.uint32(24)]
            ^ tables[3, data[at + np.uint64(4)]]
            ^ tables[2, data[at + np.uint64(5)]]
            ^ tables[1, data[at + np.uint64(6)]]
            ^ tables[0, data[at + np.uint64(7)]]
        )
        at += np.uint64(8)
    while at < end:
        crc = tables[0, (crc ^ np.uint32(data[at])) & byte] ^ crc >> np.uint32(8)
        at += np.uint64(1)
    return crc ^ np.uint32(0xFFFFFFFF)


@helper
def _uint32(data: Any, at: Any) -> Any:
    return (
        np.uint32(data[at]) << np.uint32(24)
        | np.uint32(data[at + 1]) << np.uint32(16)
        | np.uint32(data[at + 2]) << np.uint32(8)
        | np.uint32(data[at + 3])
    )


@loop(f"int64({BYTES}, int64, int64, uint32[:, ::1])")
def damaged_message(data: Any, at: Any, end: Any, tables: Any) -> Any:
    """Where the first message of format 0 or 1 begins whose CRC is not that of its bytes; -1 if there is none.

    The messages from `at` to `end` must have been scanned.
    """
    while at < end:
        after = at + 12 + np.int64(_uint32(data, at + 8))
        if after > end:
            return at
        if _crc(data, at + 16, after, tables) != _uint32(data, at + 12):
            return at
        at = after
    return np.int64(-1)


@loop(f"int64({BYTES}, int64[:, ::1], uint32[:, ::1], int64, int64)")
def damaged_batch(data: Any, rows: Any, tables: Any, long_batch: int, position: int) -> Any:
    """The number of the first row that is a batch, reaches the position and has a wrong CRC; -1 if none has.

    Batches of long_batch bytes and more are not looked at.
    """
    for row in range(rows.shape[0]):
        start, end = rows[row, START], rows[row, END]
        if rows[row, KIND] != BATCH or end - start >= long_batch or rows[row, LAST_OFFSET] < position:
            continue
        if np.int64(_crc(data, start + 21, end, tables)) != rows[row, CRC]:
            return np.int64(row)
    return np.int64(-1)


def damaged_long_batch(data: Bytes, rows: Int64s, position: int) -> int:
    """The same for those of LONG_BATCH_BYTES and more."""
    is_long = rows[:, END] - rows[:, START] >= LONG_BATCH_BYTES
    is_long &= (rows[:, KIND] == BATCH) & (rows[:, LAST_OFFSET] >= position)
    view = data.data
    numbers = np.flatnonzero(is_long)
    for number, (start, end, crc) in zip(numbers.tolist(), rows[numbers][:, _RANGE].tolist(), strict=True):
        if crc32c.crc32c(view[start + _CRC_COVERS_FROM : end]) != crc:
            return int(number)
    return -1
