r"""Fields of many records as bytes objects, at once.

Slicing costs a slice object, two numbers and a call for each. But pickle's loader is C that makes bytes objects out of
lengths and bytes that follow each other, so a compiled loop writes such a pickle: both together take half as long. Its
format is documented in pickletools, and will be read for ever:

    \x80 3                           protocol 3
    (                                mark
    C, length uint8, bytes           bytes object below 256
    B, length uint32 little, bytes   longer ones
    N                                None
    t .                              a tuple of all since the mark; end
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from legacy_consumer.wire.records.compiling import BYTES, loop, warm_up

if TYPE_CHECKING:
    from legacy_consumer.wire.records.columns import Spans

_FRAME_BYTES = 5
"""Around the fields: \\x80 3 ( t ."""
_HEAD_BYTES = 5
"""Before each, at most."""


def cut(data: memoryview, spans: Spans) -> tuple[bytes | None, ...]:
    """Each field as an object of its own. Raises: ValueError for one that does not lie inside of the data."""
    warm_up()
    count = len(spans.starts)
    source = np.frombuffer(data, np.uint8) if data.nbytes else np.empty(0, np.uint8)
    # a null field counts -1 here, and takes one byte of its five
    size = int(spans.lengths.sum(dtype=np.int64)) + _HEAD_BYTES * count + _FRAME_BYTES
    packed = np.empty(max(size, _FRAME_BYTES), np.uint8)
    written = int(_pack(source, spans.starts, spans.lengths, packed))
    if written < 0:
        msg = "fields outside of the buffer"
        raise ValueError(msg)
    fields: tuple[bytes | None, ...] = pickle.loads(packed[:written].data)  # noqa: S301 - it was written right here
    return fields


@loop(f"int64({BYTES}, int32[::1], int32[::1], uint8[::1])")
def _pack(data: Any, starts: Any, lengths: Any, out: Any) -> Any:
    """Write the pickle; how many bytes it has, or -1 if a field lies outside of the data or there is no room."""
    room = out.shape[0]
    out[0] = 0x80
    out[1] = 3
    out[2] = 0x28
    at = np.uint64(3)
    for i in range(starts.shape[0]):
        length = np.int64(lengths[i])
        if np.int64(at) + max(length, np.int64(-1)) + 7 > room:
            return np.int64(-1)
        if length < 0:
            out[at] = 0x4E
            at += np.uint64(1)
            continue
        begin = np.int64(starts[i])
        if begin < 0 or begin + length > data.shape[0]:
            return np.int64(-1)
        if length < 256:
            out[at] = 0x43
            out[at + np.uint64(1)] = np.uint8(length)
            at += np.uint64(2)
        else:
            out[at] = 0x42
            for byte in range(4):
                out[at + np.uint64(1 + byte)] = np.uint8((length >> (8 * byte)) & 0xFF)
            at += np.uint64(5)
        # unsigned, so that no index can count from the end: then it compiles to copies of whole blocks
        start = np.uint64(begin)
        for j in range(np.uint64(length)):
            out[at + np.uint64(j)] = data[start + np.uint64(j)]
        at += np.uint64(length)
    out[at] = 0x74
    out[at + np.uint64(1)] = 0x2E
    return np.int64(at) + 2
