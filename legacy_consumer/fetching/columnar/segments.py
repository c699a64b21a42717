"""A log segment as it lies on a broker's disk: its entries, each checked, up to the first that is wrong.

An entry is a message of format 0 or 1 (a compressed one holds others), or a batch of format 2. All begin with an
offset of 8 bytes, the size of the rest in 4, and have their format in byte 16. Nothing is believed before its CRC is
right, but the offset, which no CRC covers: offsets must rise.
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
"""Entries are decoded together up to so many bytes: an entry alone may hold one record."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies at a position of a segment, without the records in it.

    base_offset: of a compressed message it is not known without reading it, and the same as last_offset. count: None in
    formats 0 and 1. timestamp: the newest in a batch; -1 in format 0, which has none.
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
        """As Kafka's tools name it."""
        number = self.attributes & _CODEC_MASK
        return _CODECS[number] if number < len(_CODECS) else f"UNKNOWN {number}"

    @property
    def time_type(self) -> str:
        """As Kafka's tools name it."""
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & _APPEND_TIME else "CreateTime"

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return self.magic == 2 and bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it ends a transaction; consumers are not given it."""
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
    """The entries, in order.

    Raises: CorruptSegmentError at the first that is not whole or not sound, with its position and the reason.
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
    """The records, in order, those of aborted transactions too.

    Raises: CorruptSegmentError where an entry or its records are not sound, after all entries before it.
    """
    position = 0
    for entries in _pieces(data, name):
        yield from _decode_entries(data, entries, position, partition, name)
        position = entries[-1].last_offset + 1


def _pieces(data: Bytes, name: str) -> Iterator[list[Entry]]:
    """The entries, in lists of about _PIECE_BYTES. Raises: CorruptSegmentError, behind the last sound entry."""
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
    """position: the offset behind the entry before these. Of a compressed message the first offset is not known."""
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
    """The records of an entry, none of a control batch. Raises: CorruptSegmentError."""
    piece = data[entry.position : entry.position + entry.size]
    try:
        return decode_records(
            piece, partition, 0, max_batch_bytes=_MOST_BYTES, max_decompressed_bytes=_MOST_BYTES
        ).messages()
    except FetchError as error:
        raise CorruptSegmentError(name, entry.position, error.reason) from error


def read_marker(data: Bytes, entry: Entry) -> str:
    """What a control batch says: ABORT or COMMIT."""
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
    """Return where a number ends, whose bytes but the last have their highest bit set. Raises: IndexError."""
    while data[at] >= 0x80:
        at += 1
    return at + 1


def _read_entry(data: Bytes, at: int) -> Entry:
    """Raises: ValueError with the reason."""
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
    # everything behind the CRC, which is in another place in format 2
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
