"""Copies scattered fields together, as Arrow wants them: one buffer, the offsets of the values in it, a null bitmap."""

from __future__ import annotations

from typing import Any

import numpy as np

from legacy_consumer.wire.records.compiling import BYTES, loop


@loop(f"int64({BYTES}, int32[::1], int32[::1], int32[::1], uint8[::1])")
def measure(data: Any, starts: Any, lengths: Any, offsets: Any, valid: Any) -> Any:
    """Fill in the offsets (one more than values) and the bitmap (zeros before); the number of nulls.

    -1 if a field lies outside of the data, -2 if all together are too long for offsets of 32 bits.
    """
    nulls = 0
    total = np.int64(0)
    offsets[0] = 0
    for i in range(starts.shape[0]):
        length = np.int64(lengths[i])
        if length < 0:
            nulls += 1
        else:
            start = np.int64(starts[i])
            if start < 0 or start + length > data.shape[0]:
                return np.int64(-1)
            total += length
            if total > 2**31 - 1:
                return np.int64(-2)
            valid[i >> 3] |= np.uint8(1 << (i & 7))
        offsets[i + 1] = total
    return np.int64(nulls)


@loop(f"void({BYTES}, int32[::1], int32[::1], uint8[::1])")
def gather(data: Any, starts: Any, offsets: Any, out: Any) -> None:
    """Copy each field that was measured to its place."""
    # unsigned, so that no index can count from the end: then it compiles to copies of whole blocks
    for i in range(starts.shape[0]):
        begin, end = np.uint64(offsets[i]), np.uint64(offsets[i + 1])
        start = np.uint64(starts[i])
        for j in range(end - begin):
            out[begin + np.uint64(j)] = data[start + np.uint64(j)]
