"""Decompresses what a batch or a wrapper message holds, with a bound known before any memory is taken.

gzip is read piece by piece up to the limit. The other formats tell how much comes out at most: snappy by its preamble,
which cannot promise more than 64 bytes for 3; lz4 and zstd by the sizes of their blocks. What they promise is
compared with the limit, and then the library may write no further. Headers inside are not trusted: a size that lies
ends as an error, here or in the library; and the library gets no zstd frame that asks for a window, which it keeps
beside what it writes, larger than what can come out of the frame.

Source: KafkaLZ4BlockInputStream and SnappyInputStream (xerial framing) as Kafka uses them, RFC 8878 for zstd, the LZ4
frame format 1.6.
"""

from __future__ import annotations

import zlib

import cramjam

from legacy_consumer.wire.records.arena import Arena
from legacy_consumer.wire.records.xxh32 import xxh32

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = 16
_SNAPPY_MOST = 64 / 3
_GZIP_PIECE = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_BYTES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_LZ4_MOST = 255
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK_BYTES = 1 << 17
_ZSTD_WINDOW_BITS = 10
"""Of the smallest window."""


def decompress(codec: int, magic: int, source: bytes, limit: int, arena: Arena) -> tuple[int, int]:
    """Decompress into the arena: (begin, end) of the piece there.

    codec: the number in the attributes. magic: the format of messages around it; before 2, lz4 frames of old clients
    carry a wrong checksum in their header, and zstd does not exist.
    Raises: ValueError with the reason if it is damaged or unknown; OverflowError if it yields more than limit bytes.
    """
    name = _NAMES.get(codec)
    if name is None or (codec == ZSTD and magic < 2):
        msg = f"compression {name or codec}, which message format {magic} does not have"
        raise ValueError(msg)
    try:
        match codec:
            case 1:
                return _gunzip(source, limit, arena)
            case 2:
                return _unsnap(source, limit, arena)
            case 3:
                return _unlz4(source, limit, arena, mend_head=magic < 2)
            case _:
                frames, bound = _zstd_bounded(source)
                begin = arena.keep(cramjam.zstd.decompress_into(frames, arena.room(_at_most(bound, limit)).data))
                return begin, arena.size
    except IndexError as error:
        msg = f"{name}: cut"
        raise ValueError(msg) from error
    except (cramjam.DecompressionError, zlib.error) as error:
        msg = f"{name}: {error}"
        raise ValueError(msg) from error
    except ValueError as error:
        msg = f"{name}: {error}"
        raise ValueError(msg) from error


def _at_most(size: int, limit: int) -> int:
    if size > limit:
        msg = f"a compressed batch that holds more than {limit} bytes"
        raise OverflowError(msg)
    return size


def _gunzip(source: bytes, limit: int, arena: Arena) -> tuple[int, int]:
    begin = arena.size
    while source:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            size = arena.size - begin
            piece = member.decompress(source, min(max(_GZIP_PIECE, size), limit - size + 1))
            _at_most(size + len(piece), limit)
            arena.add(piece)
            source = member.unconsumed_tail
            if not piece and not source and not member.eof:
                msg = "cut"
                raise ValueError(msg)
        # what else may stand there is not for us, as in Java
        source = member.unused_data if member.unused_data.startswith(_GZIP_MAGIC) else b""
    return begin, arena.size


def _unsnap(source: bytes, limit: int, arena: Arena) -> tuple[int, int]:
    begin = arena.size
    if not source.startswith(_XERIAL_MAGIC):
        _unsnap_block(source, begin, limit, arena)
        return begin, arena.size
    at = _XERIAL_HEAD
    while at < len(source):
        size = int.from_bytes(source[at : at + 4], "big")
        at += 4
        if len(source) - at < size:
            msg = "cut"
            raise ValueError(msg)
        _unsnap_block(source[at : at + size], begin, limit, arena)
        at += size
    return begin, arena.size


def _unsnap_block(block: bytes, begin: int, limit: int, arena: Arena) -> None:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > _SNAPPY_MOST * len(block):
        msg = f"{size} bytes cannot come out of {len(block)}"
        raise ValueError(msg)
    _at_most(arena.size - begin + size, limit)
    arena.keep(cramjam.snappy.decompress_raw_into(block, arena.room(size).data))


def _unlz4(source: bytes, limit: int, arena: Arena, *, mend_head: bool) -> tuple[int, int]:
    # flags at 4, then the largest size of a block, content size 8 and dictionary 4 if flagged, checksum 1
    if not source.startswith(_LZ4_MAGIC):
        msg = "not a frame"
        raise ValueError(msg)
    flags = source[4]
    head_end = 6 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    block_bytes = _LZ4_BLOCK_BYTES.get(source[5] >> 4 & 7)
    if block_bytes is None:
        msg = "blocks of an unknown size"
        raise ValueError(msg)
    bound = 0
    at = head_end + 1
    while size := int.from_bytes(_four(source, at), "little"):
        stored = size & 0x7FFFFFFF
        bound += min(block_bytes, stored if size >> 31 else stored * _LZ4_MOST)
        at += 4 + stored + (4 if flags & 16 else 0)
    at += 4 + (4 if flags & 4 else 0)
    if at > len(source):
        msg = "cut"
        raise ValueError(msg)
    frame = source[:at]
    if mend_head:
        checksum = xxh32(source[4:head_end]) >> 8 & 0xFF
        frame = source[:head_end] + bytes([checksum]) + source[head_end + 1 : at]
    begin = arena.keep(cramjam.lz4.decompress_into(frame, arena.room(_at_most(bound, limit)).data))
    return begin, arena.size


def _four(source: bytes, at: int) -> bytes:
    if len(source) - at < 4:
        msg = "cut"
        raise ValueError(msg)
    return source[at : at + 4]


def _zstd_bounded(source: bytes) -> tuple[bytes, int]:
    """The frames, none of which has a window larger than it has use for, and the most bytes that can come out of all.

    A frame of a hundred bytes may say that it refers 128 MB back, and the library would take so much; but nothing can
    refer to more than came out before, so that a smaller window says the same.
    """
    frames: bytes | bytearray = source
    bound = at = 0
    while at < len(source):
        if source[at : at + 4] != _ZSTD_MAGIC:
            msg = "not a frame"
            raise ValueError(msg)
        head = source[at + 4]
        is_single = head >> 5 & 1
        size_bytes = (is_single, 2, 4, 8)[head >> 6]
        dictionary_bytes = (0, 1, 2, 4)[head & 3]
        window_at = at + 5
        at += 5 + (1 - is_single) + dictionary_bytes
        content = int.from_bytes(source[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
        at += size_bytes
        frame_bound = 0
        is_last = 0
        while not is_last:
            block = int.from_bytes(_four(source + b"\0", at)[:3], "little")
            is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
            if kind == 3 or size > _ZSTD_BLOCK_BYTES:
                msg = "a block of an unknown kind or too large"
                raise ValueError(msg)
            frame_bound += size if kind < 2 else _ZSTD_BLOCK_BYTES
            at += 3 + (1 if kind == 1 else size)
        at += 4 if head & 4 else 0
        if not is_single and window_at < len(source) and _window_bytes(source[window_at]) > frame_bound:
            frames = bytearray(frames) if isinstance(frames, bytes) else frames
            frames[window_at] = max(0, (frame_bound - 1).bit_length() - _ZSTD_WINDOW_BITS) << 3
        if size_bytes:
            if content > frame_bound:
                msg = f"{content} bytes cannot come out of blocks that hold {frame_bound}"
                raise ValueError(msg)
            frame_bound = content
        bound += frame_bound
    if at > len(source):
        msg = "cut"
        raise ValueError(msg)
    return bytes(frames), bound


def _window_bytes(descriptor: int) -> int:
    base = 1 << (descriptor >> 3) + _ZSTD_WINDOW_BITS
    return base + base // 8 * (descriptor & 7)
