"""Reads record sets slowly, in plain Python, by the description of the formats; tests compare the decoder with it.

It checks no limits and no damage: it is right on valid input only.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cramjam

Row = tuple[int, int, int, "bytes | None", "bytes | None", "list[tuple[str, bytes | None]] | None"]
"""Offset, timestamp type, timestamp, key, value, headers."""


class Source:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) < size:
            raise EOFError
        self.at += size
        return piece

    def unpack(self, form: str) -> tuple[int, ...]:
        return struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))

    def sized(self) -> bytes | None:
        (size,) = self.unpack("i")
        return None if size == -1 else self.take(size)

    def varint(self) -> int:
        number = shift = 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return -(number + 1 >> 1) if number & 1 else number >> 1
            shift += 7

    def varsized(self) -> bytes | None:
        size = self.varint()
        return None if size == -1 else self.take(size)


@dataclass
class Entry:
    offset: int
    magic: int
    body: bytes
    """The bytes after the size."""


def entries(data: bytes) -> Iterator[Entry]:
    source = Source(data)
    while True:
        try:
            offset, size = source.unpack("qi")
            body = source.take(size)
        except EOFError:
            return
        yield Entry(offset, body[4], body)


def read(
    data: bytes, position: int = 0, *, aborted: Sequence[tuple[int, int]] = (), read_committed: bool = False
) -> tuple[list[Row], int]:
    """Return (the records from the position on, the position after all of them)."""
    rows: list[Row] = []
    left_out: set[int] = set()
    waiting = sorted(aborted, key=lambda pair: pair[1])
    next_offset = position
    for entry in entries(data):
        if entry.magic < 2:
            found, last = messages_of(entry), entry.offset
        else:
            attributes, last_delta, first_time, latest, producer, _, _, count = struct.unpack_from(
                ">hiqqqhii", entry.body, 9
            )
            last = entry.offset + last_delta
            while waiting and waiting[0][1] <= last:
                left_out.add(waiting.pop(0)[0])
            found = list(records_of(entry.offset, attributes, first_time, latest, count, entry.body[49:]))
            if attributes & 32:
                if read_committed and found and found[0][3][2:4] == b"\0\0":
                    left_out.discard(producer)
                found = []
            elif attributes & 16 and read_committed and producer in left_out:
                found = []
        for row in found:
            if row[0] >= next_offset:
                rows.append(row)
                next_offset = row[0] + 1
        next_offset = max(next_offset, last + 1)
    return rows, next_offset


def messages_of(entry: Entry) -> list[Row]:
    source = Source(entry.body)
    _, magic, attributes = source.unpack("Ibb")
    timestamp = source.unpack("q")[0] if magic == 1 else -1
    kind = 0 if magic == 0 else 2 if attributes & 8 else 1
    key, value = source.sized(), source.sized()
    if not attributes & 7:
        return [(entry.offset, kind, timestamp, key, value, None)]
    inner = [row for each in entries(decompress(attributes & 7, value)) for row in messages_of(each)]
    first = entry.offset - inner[-1][0] if magic == 1 else 0
    return [
        (
            first + row[0],
            kind if magic == 1 and row[1] else row[1],
            timestamp if kind == 2 and row[1] else row[2],
            row[3],
            row[4],
            None,
        )
        for row in inner
    ]


def records_of(base: int, attributes: int, first_time: int, latest: int, count: int, data: bytes) -> Iterator[Row]:
    source = Source(decompress(attributes & 7, data) if data else data)
    for _ in range(count):
        source.varint()
        source.take(1)
        time, offset = first_time + source.varint(), base + source.varint()
        key, value = source.varsized(), source.varsized()
        headers = [(source.varsized().decode(), source.varsized()) for _ in range(source.varint())]
        yield (
            (offset, 2, latest, key, value, headers or None)
            if attributes & 8
            else (
                offset,
                1,
                time,
                key,
                value,
                headers or None,
            )
        )


def decompress(codec: int, data: bytes) -> bytes:
    match codec:
        case 0:
            return data
        case 1:
            return gzip.decompress(data)
        case 2 if data.startswith(b"\x82SNAPPY"):
            source, pieces = Source(data[16:]), []
            while source.at < len(source.data):
                pieces.append(bytes(cramjam.snappy.decompress_raw(source.sized())))
            return b"".join(pieces)
        case 2:
            return bytes(cramjam.snappy.decompress_raw(data))
        case 3:
            return lz4_blocks(data)
        case _:
            return bytes(cramjam.zstd.decompress(data))


def lz4_blocks(frame: bytes) -> bytes:
    """Decode the blocks of a frame without checking its checksums."""
    flags, out = frame[4], bytearray()
    at = 7 + (8 if flags & 8 else 0)
    while size := int.from_bytes(frame[at : at + 4], "little"):
        at += 4
        block = frame[at : at + (size & 0x7FFFFFFF)]
        if size >> 31:
            out += block
        else:
            lz4_block(block, out)
        at += len(block) + (4 if flags & 16 else 0)
    return bytes(out)


def lz4_block(block: bytes, out: bytearray) -> None:
    at = 0

    def length(nibble: int) -> int:
        nonlocal at
        total, more = nibble, 255 if nibble == 15 else 0
        while more == 255:
            more = block[at]
            at += 1
            total += more
        return total

    while at < len(block):
        token = block[at]
        at += 1
        literals = length(token >> 4)
        out += block[at : at + literals]
        at += literals
        if at < len(block):
            back = int.from_bytes(block[at : at + 2], "little")
            at += 2
            for _ in range(length(token & 15) + 4):
                out.append(out[-back])
