"""Java's hash and order of text, which differ from Python's."""

from __future__ import annotations

import struct
from collections.abc import Collection

_UNSIGNED_32 = 0xFFFFFFFF
_SIGN_BIT = 0x80000000


def java_string_hash(text: str) -> int:
    """Return String.hashCode: h = 31*h + unit over the UTF-16 units, as a signed 32 bit number."""
    return to_signed(extend_hash(0, text))


def extend_hash(unsigned: int, text: str) -> int:
    """Return the unsigned 32 bit hash of a prefix plus `text`, given the hash of the prefix.

    All partitions of a topic begin with the topic, so the hash of that prefix is computed once.
    """
    for unit in _utf16_units(text):
        unsigned = (31 * unsigned + unit) & _UNSIGNED_32
    return unsigned


def to_signed(unsigned: int) -> int:
    """Return the same 32 bits as a signed number."""
    return (unsigned ^ _SIGN_BIT) - _SIGN_BIT


def java_sort_key(text: str) -> str:
    """Return a key that sorts as String.compareTo does: by UTF-16 unit, so that U+1F600 comes before U+FFFD.

    A text of characters below U+10000, as every real id is, is its own key: its units are its characters.
    """
    if text.isascii() or max(text) < "\U00010000":
        return text
    return "".join(map(chr, _utf16_units(text)))


def java_sorted(texts: Collection[str]) -> list[str]:
    """Return the texts as Java sorts them."""
    # names are nearly always ASCII, and a check of each name takes longer than to sort all
    return sorted(texts) if "".join(texts).isascii() else sorted(texts, key=java_sort_key)


def _utf16_units(text: str) -> tuple[int, ...] | bytes:
    if text.isascii():
        return text.encode("ascii")
    data = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(data) // 2}H", data)
