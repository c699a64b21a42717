"""Writes record sets of formats 0, 1 and 2 in plain Python, as Kafka does, for the decoders under test.

A test may also give any number in a head a value that Kafka would not write.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

import cramjam

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True)
class Written:
    """One record. attributes are the message's own, in formats 0 and 1."""

    offset: int
    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()
    attributes: int = 0


def compressed(codec: str, data: bytes, *, framing: str = "raw") -> bytes:
    match codec:
        case "gzip":
            return bytes(cramjam.gzip.compress(data))
        case "snappy" if framing == "xerial":
            return xerial(data)
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(data))
        case "lz4" if framing == "broken":
            return with_broken_checksum(bytes(cramjam.lz4.compress(data)))
        case "lz4":
            return bytes(cramjam.lz4.compress(data))
        case "zstd":
            return bytes(cramjam.zstd.compress(data))
        case _:
            return data


def xerial(data: bytes, block_bytes: int = 32) -> bytes:
    blocks = [bytes(cramjam.snappy.compress_raw(data[i : i + block_bytes])) for i in range(0, len(data), block_bytes)]
    return struct.pack(">8sii", b"\x82SNAPPY\x00", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


def with_broken_checksum(frame: bytes) -> bytes:
    """Break the header's checksum as clients before 0.10 did: they included the magic number, so others refuse it."""
    head_end = 6 + (8 if frame[4] & 8 else 0)
    return frame[:head_end] + bytes([frame[head_end] ^ 0x5A]) + frame[head_end + 1 :]


def message(record: Written, magic: int, *, crc: int | None = None) -> bytes:
    """Return a message of format 0 or 1."""
    body = struct.pack(">bb", magic, record.attributes)
    if magic == 1:
        body += struct.pack(">q", record.timestamp)
    body += sized(record.key) + sized(record.value)
    body = struct.pack(">I", zlib.crc32(body) if crc is None else crc) + body
    return struct.pack(">qi", record.offset, len(body)) + body


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def messages(records: list[Written], magic: int) -> bytes:
    return b"".join(message(record, magic) for record in records)


def wrapper(
    records: list[Written],
    magic: int,
    codec: str,
    *,
    framing: str = "raw",
    append_time: int | None = None,
    offset: int | None = None,
    inside: bytes | None = None,
) -> bytes:
    """Return a message that holds these messages compressed, with relative offsets in format 1.

    inside: bytes to compress instead of theirs.
    """
    first = records[0].offset if records else 0
    relative = [replace(record, offset=record.offset - first) for record in records] if magic else records
    data = messages(relative, magic) if inside is None else inside
    attributes = CODECS[codec] | (8 if append_time is not None else 0)
    timestamp = append_time if append_time is not None else max((r.timestamp for r in records), default=-1)
    outer = Written(
        records[-1].offset if offset is None else offset,
        None,
        compressed(codec, data, framing=framing),
        timestamp,
        (),
        attributes,
    )
    return message(outer, magic)


def varint(number: int) -> bytes:
    """Encode a number of 64 bits as a zigzag varint."""
    rest = (number << 1 ^ number >> 63) & (2**64 - 1)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def varsized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record_v2(record: Written, base_offset: int, base_timestamp: int) -> bytes:
    body = b"\0" + varint(record.timestamp - base_timestamp) + varint(record.offset - base_offset)
    body += varsized(record.key) + varsized(record.value) + varint(len(record.headers))
    body += b"".join(varsized(key.encode()) + varsized(value) for key, value in record.headers)
    return varint(len(body)) + body


def batch(
    records: list[Written],
    codec: str = "none",
    *,
    framing: str = "raw",
    append_time: int | None = None,
    base_offset: int | None = None,
    last_offset: int | None = None,
    producer_id: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    count: int | None = None,
    inside: bytes | None = None,
    magic: int = 2,
    crc: int | None = None,
) -> bytes:
    """Return a batch of format 2. inside: bytes to compress instead of the records'."""
    base = base_offset if base_offset is not None else records[0].offset
    last = last_offset if last_offset is not None else records[-1].offset if records else base
    first_time = records[0].timestamp if records else -1
    data = b"".join(record_v2(record, base, first_time) for record in records) if inside is None else inside
    attributes = CODECS[codec] | (8 if append_time is not None else 0)
    attributes |= (16 if is_transactional else 0) | (32 if is_control else 0)
    latest = append_time if append_time is not None else max((r.timestamp for r in records), default=-1)
    body = struct.pack(
        ">hiqqqhii",
        attributes,
        last - base,
        first_time,
        latest,
        producer_id,
        0 if producer_id >= 0 else -1,
        0 if producer_id >= 0 else -1,
        len(records) if count is None else count,
    ) + (compressed(codec, data, framing=framing) if records or inside else b"")
    body = struct.pack(">ibI", 0, magic, crc32c(body) if crc is None else crc) + body
    return struct.pack(">qi", base, len(body)) + body


def marker(offset: int, producer_id: int, *, is_abort: bool) -> bytes:
    """Return the control batch that ends a transaction."""
    key, value = struct.pack(">hh", 0, 0 if is_abort else 1), struct.pack(">hi", 0, 0)
    return batch([Written(offset, key, value, 1)], producer_id=producer_id, is_transactional=True, is_control=True)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC32C = _table()
