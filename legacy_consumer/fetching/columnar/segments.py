"""Reads log segments as brokers store them: checks each entry, and stops at the first damaged one.

An entry is a message of format 0 or 1 (a compressed one holds others), or a batch of format 2. Each begins with an
offset of 8 bytes and the size of the rest in 4 bytes, and has its format in byte 16. An entry with a wrong CRC is
damaged. No CRC covers the offsets, so they are checked to rise.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from struct import Struct
from typing import TypeAlias

from legacy_consumer.errors import CorruptSegmentError, FetchError
from legacy_consumer.fetching.columnar.records import Columns, crc32c, decode_records
from legacy_consumer.fetching.fetcher import Message
from zk_layout.model import TopicPartition

Bytes: TypeAlias = bytes | mmap

_HEAD = Struct(">qi4xb")
_MESSAGE = Struct(">qiIbb")
_MESSAGE_TIME = Struct(">q")
_BATCH = Struct(">qiibIhiqqqhii")
_SIZE_AT = 12
_SMALLEST = {0: 26, 1: 34, 2: _BATCH.size}
_CODECS = ("NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD")
_CODEC_MASK, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 7, 8, 16, 32
_MOST_BYTES = 2**31 - 1
_MARKERS = {0: "ABORT", 1: "COMMIT"}
_PIECE_BYTES = 4 << 20
"""The bytes of entries to decode together: an entry may hold only one record, and decoding it alone is slow."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A message or batch of a segment, without its records. position: its first byte in the segment.

    base_offset: for a compressed message the same as last_offset, since only decompressing shows the first offset.
    count: None in formats 0 and 1. timestamp: the newest in a batch; -1 in format 0, which has none.
    """

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    count: int | None
    attributes: int
    timestamp: int
    crc: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    leader_epoch: int = -1

    @property
    def codec(self) -> str:
        """The compression, by the name that Kafka's tools use."""
        number = self.attributes & _CODEC_MASK
        return _CODECS[number] if number < len(_CODECS) else f"UNKNOWN {number}"

    @property
    def time_type(self) -> str:
        """The type of the timestamp, by the name that Kafka's tools use."""
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & _APPEND_TIME else "CreateTime"

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return self.magic == 2 and bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it only marks the end of a transaction; consumers do not get it."""
        return self.magic == 2 and bool(self.attributes & _CONTROL)

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record."""
        return self.sequence_of(self.last_offset)

    def sequence_of(self, offset: int) -> int:
        """Return the sequence number of the record at this offset; after 2^31 - 1 comes 0. -1 if the batch has none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + offset - self.base_offset) & 0x7FFFFFFF


def read_entries(data: Bytes, name: str) -> Iterator[Entry]:
    """Yield the entries, in order.

    Raises: CorruptSegmentError at the first incomplete or damaged entry, with its position and the reason.
    """
    at, last_offset = 0, -1
    while at < len(data):
        try:
            entry = _read_entry(data, at)
            if entry.base_offset <= last_offset:
                msg = f"offset {entry.base_offset} behind offset {last_offset}, and offsets must rise"
                raise ValueError(msg)
        except ValueError as error:
            raise CorruptSegmentError(name, at, str(error), last_offset) from error
        yield entry
        at, last_offset = at + entry.size, entry.last_offset


def read_columns(data: Bytes, partition: TopicPartition, name: str) -> Iterator[Columns]:
    """Yield the records in order. Records of aborted transactions are included.

    Raises: CorruptSegmentError at the first damaged entry, after the records of all entries before it.
    """
    position = 0
    for entries in _pieces(data, name):
        yield from _decode_entries(data, entries, position, partition, name)
        position = entries[-1].last_offset + 1


def _pieces(data: Bytes, name: str) -> Iterator[list[Entry]]:
    """Yield the entries in lists of about _PIECE_BYTES. Raises: CorruptSegmentError after the last sound entry."""
    piece: list[Entry] = []
    size = 0
    try:
        for entry in read_entries(data, name):
            if piece and size + entry.size > _PIECE_BYTES:
                yield piece
                piece, size = [], 0
            piece.append(entry)
            size += entry.size
    except CorruptSegmentError:
        if piece:
            yield piece
        raise
    if piece:
        yield piece


def _decode_entries(
    data: Bytes, entries: list[Entry], position: int, partition: TopicPartition, name: str
) -> Iterator[Columns]:
    """Yield the records of these entries. position: after the entry before; the first offset may be unknown."""
    piece = data[entries[0].position : entries[-1].position + entries[-1].size]
    while position <= entries[-1].last_offset:
        try:
            columns = decode_records(piece, partition, position, max_batch_bytes=_MOST_BYTES)
        except FetchError as error:
            wrong = next(number for number, entry in enumerate(entries) if position <= entry.last_offset)
            last_offset = entries[wrong - 1].last_offset if wrong else position - 1
            raise CorruptSegmentError(name, entries[wrong].position, error.reason, last_offset) from error
        if len(columns):
            yield columns
        if not columns.has_more:
            break
        position = columns.next_offset


def read_records(data: Bytes, entry: Entry, partition: TopicPartition, name: str) -> list[Message]:
    """Return the records of an entry; none for a control batch. Raises: CorruptSegmentError."""
    piece = data[entry.position : entry.position + entry.size]
    try:
        return decode_records(
            piece, partition, 0, max_batch_bytes=_MOST_BYTES, max_decompressed_bytes=_MOST_BYTES
        ).messages()
    except FetchError as error:
        raise CorruptSegmentError(name, entry.position, error.reason) from error


def read_marker(data: Bytes, entry: Entry) -> str:
    """Return the type of a control batch: ABORT or COMMIT, or UNKNOWN for any other."""
    record = data[entry.position + _BATCH.size : entry.position + entry.size]
    try:
        at = _after_varint(record, 0)
        at += 1  # the record's attributes
        for _ in range(3):  # time, offset, size of the key
            at = _after_varint(record, at)
    except IndexError:
        return "UNKNOWN"
    return _MARKERS.get(int.from_bytes(record[at + 2 : at + 4], "big"), "UNKNOWN")


def _after_varint(data: bytes, at: int) -> int:
    """Return the index after a varint: only its last byte has a highest bit of 0. Raises: IndexError."""
    while data[at] >= 0x80:
        at += 1
    return at + 1


def _read_entry(data: Bytes, at: int) -> Entry:
    """Return the entry at this place of the segment. Raises: ValueError with the reason if it is damaged."""
    left = len(data) - at
    if left < _HEAD.size:
        raise ValueError(f"{left} bytes are left, and no entry is so small")
    offset, size, magic = _HEAD.unpack_from(data, at)
    size += _SIZE_AT
    if magic not in _SMALLEST or size < _SMALLEST[magic]:
        zeros = " (the rest is zeros, as in a file that was laid out beforehand)" if not any(data[at:]) else ""
        raise ValueError(f"size {size} and message format {magic} do not go together{zeros}")
    if size > left:
        raise ValueError(f"an entry of {size} bytes, of which {left} are there")
    if offset < 0:
        raise ValueError(f"an offset that cannot be: {offset}")
    entry = _batch(data, at, size) if magic == 2 else _message(data, at, size)
    # a CRC covers all bytes after it; format 2 has it in another place
    found = crc32c(data[at + 21 : at + size]) if magic == 2 else zlib.crc32(data[at + 16 : at + size])
    if found != entry.crc:
        raise ValueError(f"its CRC is {entry.crc}, and that of its bytes {found}")
    if entry.last_offset < entry.base_offset:
        raise ValueError("a batch whose last offset lies before its first")
    return entry


def _message(data: Bytes, at: int, size: int) -> Entry:
    offset, _, crc, magic, attributes = _MESSAGE.unpack_from(data, at)
    timestamp = _MESSAGE_TIME.unpack_from(data, at + _MESSAGE.size)[0] if magic == 1 else -1
    return Entry(at, size, magic, offset, offset, None, attributes, timestamp, crc)


def _batch(data: Bytes, at: int, size: int) -> Entry:
    (
        offset, _, leader_epoch, magic, crc, attributes, last_delta, _, newest, producer_id, producer_epoch,
        base_sequence, count,
    ) = _BATCH.unpack_from(data, at)  # fmt: skip
    return Entry(
        at, size, magic, offset, offset + last_delta, count, attributes, newest, crc,
        producer_id, producer_epoch, base_sequence, leader_epoch,
    )  # fmt: skip
