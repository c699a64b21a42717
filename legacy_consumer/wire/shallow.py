"""Where a partition goes on after a record set, by the heads of its batches alone.

So the next request can be sent before anything is decoded. The heads are not checked against their checksums: if they
lie, decoding finds out, and the fetcher goes back to where it did.

    formats 0, 1   offset int64 | size int32 | crc int32 | magic int8 | ...
                   a compressed message has the offset of the last one inside
    format 2       offset int64 | size int32 | leader epoch int32 | magic int8 | crc int32 | attributes int16
                   | last offset delta int32 | ...
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legacy_consumer.wire.records.compiling import loop, warm_up

_OVERHEAD_BYTES = 12
"""Offset and size, which the size does not count."""
LARGEST_BATCH_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Glance:
    """next_offset: the position after the last whole batch, the position itself if there is none.

    incomplete_bytes: of the batch that the record set begins with, if not even that is whole; else 0. It is what the
    batch says of itself, at most LARGEST_BATCH_BYTES.
    """

    next_offset: int
    incomplete_bytes: int


def glance(records: memoryview, position: int) -> Glance:
    """Look at the heads of a record set that was fetched from position on."""
    warm_up()
    next_offset, incomplete = _walk(np.frombuffer(records, np.uint8), position)
    return Glance(int(next_offset), min(int(incomplete), LARGEST_BATCH_BYTES))


@loop("UniTuple(int64, 2)(uint8[::1], int64)")
def _walk(data: NDArray[np.uint8], position: int) -> tuple[int, int]:
    end = data.size
    at = 0
    next_offset = position
    while at + 17 <= end:
        offset = 0
        for i in range(8):
            offset = (offset << 8) | data[at + i]
        size = 0
        for i in range(8, 12):
            size = (size << 8) | data[at + i]
        if size < 14 or size > 2147483647:
            break  # no batch is so small, and sizes are not negative: decoding will say it
        if at + 12 + size > end:
            if at == 0:
                return next_offset, 12 + size
            break
        last = offset
        if data[at + 16] >= 2:
            if size < 49:
                break
            delta = 0
            for i in range(23, 27):
                delta = (delta << 8) | data[at + i]
            last += delta
        if last >= next_offset:
            next_offset = last + 1
        at += 12 + size
    if at == 0 and end > 0 and end < 17:
        return next_offset, 17
    return next_offset, 0
