"""The user data of Java's sticky assignors, as bytes; all numbers big endian.

| assignor | version | layout |
|---|---|---|
| sticky | 0 (before Kafka 2.3) | int32 number of topics; each: int16 length, UTF-8 name, int32 count, int32 numbers |
| sticky | 1 | version 0, then int32 generation |
| cooperative-sticky | 0 | int32 generation; the owned partitions are in the subscription |

The data contain no version number: their length distinguishes the versions. Generation -1 means that none is known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import groupby

from rebalance.assignors.members import NO_GENERATION
from rebalance.errors import UnreadableUserDataError
from zk_layout.model import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def encode_sticky(owned: Iterable[TopicPartition], generation: int) -> bytes:
    """Return user data of sticky, version 1."""
    topics = [(topic, [tp.partition for tp in some]) for topic, some in groupby(sorted(owned), lambda tp: tp.topic)]
    pieces = [_INT32.pack(len(topics))]
    for topic, numbers in topics:
        name = topic.encode()
        pieces += (_INT16.pack(len(name)), name, _INT32.pack(len(numbers)), *map(_INT32.pack, numbers))
    return b"".join((*pieces, _INT32.pack(generation)))


def decode_sticky(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """Return (owned partitions sorted, generation) of version 0 or 1; bytes of a later version after them are skipped.

    Raises: UnreadableUserDataError. A count that is too large for the data is refused before any memory is used for it.
    """
    reader = _Reader(data)
    owned: list[TopicPartition] = []
    for _ in range(reader.count(least_each=6)):
        topic = reader.text()
        owned += (TopicPartition(topic, reader.int32()) for _ in range(reader.count(least_each=4)))
    generation = reader.int32() if reader.left else NO_GENERATION
    return tuple(sorted(set(owned))), generation


def encode_generation(generation: int) -> bytes:
    """Return user data of cooperative-sticky, version 0."""
    return _INT32.pack(generation)


def decode_generation(data: bytes) -> int:
    """Return the generation. Raises: UnreadableUserDataError."""
    return _Reader(data).int32()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise UnreadableUserDataError(f"byte {self._at}: {size} bytes wanted, {self.left} left")
        self._at += size
        return self._data[self._at - size : self._at]

    def int32(self) -> int:
        number: int = _INT32.unpack(self._take(4))[0]
        return number

    def count(self, least_each: int) -> int:
        number = self.int32()
        if not 0 <= number * least_each <= self.left:
            raise UnreadableUserDataError(f"byte {self._at - 4}: {number} entries cannot be in {self.left} bytes")
        return number

    def text(self) -> str:
        size: int = _INT16.unpack(self._take(2))[0]
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise UnreadableUserDataError(f"byte {self._at - size}: a topic that is not UTF-8") from error
