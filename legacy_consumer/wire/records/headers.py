"""Record headers, parsed when somebody asks: varint count, then each one's key length, key, value length, value."""

from __future__ import annotations

HeaderList = list[tuple[str, "bytes | None"]]


def parse_headers(data: bytes) -> HeaderList:
    """The headers of one record, in order, a key perhaps more than once; no bytes are no headers.

    Keys are UTF-8; what is not becomes U+FFFD, as in Java.
    Raises: ValueError if the bytes are not headers from the first to the last.
    """
    if not data:
        return []
    count, at = read_varint(data, 0)
    # a header has two bytes at least
    if not 0 <= count <= len(data) // 2:
        msg = f"{count} headers in {len(data)} bytes"
        raise ValueError(msg)
    headers: HeaderList = []
    for _ in range(count):
        key, at = _bytes(data, at)
        if key is None:
            msg = "a header without a key"
            raise ValueError(msg)
        value, at = _bytes(data, at)
        headers.append((key.decode("utf-8", "replace"), value))
    if at != len(data):
        msg = f"{len(data) - at} bytes behind the headers"
        raise ValueError(msg)
    return headers


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        msg = f"a header field of {length} bytes where {len(data) - at} are left"
        raise ValueError(msg)
    return data[at : at + length], at + length


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, where it ends): 7 bits a byte, lowest first, zigzag, at most 32 bits in 5 bytes."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            msg = "the headers end inside a number"
            raise ValueError(msg)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                break
            return (value >> 1) ^ -(value & 1), at
    msg = "a number of more than 32 bits in the headers"
    raise ValueError(msg)
