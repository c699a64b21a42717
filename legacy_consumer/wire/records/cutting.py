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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from legacy_consumer.wire.records.compiling import BYTES, loop, warm_up

if TYPE_CHECKING:
    from legacy_consumer.wire.records.columns import Spans

_BEGIN = b"\x80\x03("
_END = b"t."
MOST_BYTES_AROUND = 5
"""Before a field, at most."""
_NO_PLACES = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class PackedFields:
    """Fields that stand in a pickle already, all but what it begins and ends with."""

    data: memoryview
    places: NDArray[np.int32]
    """Where each begins, and where the last one ends."""

    def slice(self, start: int, stop: int) -> PackedFields:
        """The same of some of them."""
        return PackedFields(self.data, self.places[start : stop + 1])

    def cut(self) -> tuple[bytes | None, ...]:
        """Each field as an object of its own."""
        begin, end = int(self.places[0]), int(self.places[-1])
        return _load(b"".join((_BEGIN, self.data[begin:end], _END)))


def cut(data: memoryview, spans: Spans) -> tuple[bytes | None, ...]:
    """Each field as an object of its own. Raises: ValueError for one that does not lie inside of the data."""
    warm_up()
    count = len(spans.starts)
    source = np.frombuffer(data, np.uint8) if data.nbytes else np.empty(0, np.uint8)
    # a null field counts -1 here, and takes one byte of its five
    size = int(spans.lengths.sum(dtype=np.int64)) + MOST_BYTES_AROUND * count
    around = len(_BEGIN) + len(_END)
    packed = np.empty(max(size, 0) + around, np.uint8)
    written = int(pack(source, spans.starts, spans.lengths, packed[len(_BEGIN) :], _NO_PLACES))
    if written < 0:
        msg = "fields outside of the buffer"
        raise ValueError(msg)
    whole = packed[: written + around].data
    whole[: len(_BEGIN)], whole[-len(_END) :] = _BEGIN, _END
    return _load(whole)


def _load(packed: memoryview | bytes) -> tuple[bytes | None, ...]:
    fields: tuple[bytes | None, ...] = pickle.loads(packed)  # noqa: S301 - it was written right here
    return fields


@loop(f"int64({BYTES}, int32[::1], int32[::1], uint8[::1], int32[::1])")
def pack(data: Any, starts: Any, lengths: Any, out: Any, places: Any) -> Any:
    """Write the fields as they stand in a pickle; how many bytes, or -1 if one lies outside of the data.

    -1 also if there is no room for them. places, unless it is empty, is told where each begins and the last one ends.
    """
    room = out.shape[0]
    at = np.uint64(0)
    for i in range(starts.shape[0]):
        length = np.int64(lengths[i])
        if i < places.shape[0]:
            places[i] = at
        if np.int64(at) + max(length, np.int64(-1)) + MOST_BYTES_AROUND > room:
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
    if starts.shape[0] < places.shape[0]:
        places[starts.shape[0]] = at
    return np.int64(at)
