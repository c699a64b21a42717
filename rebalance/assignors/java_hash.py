"""Two things Java does with text that Python does otherwise: hash it, and order it."""

from __future__ import annotations

import struct
from collections.abc import Collection

_UNSIGNED_32 = 0xFFFFFFFF
_SIGN_BIT = 0x80000000


def java_string_hash(text: str) -> int:
    """String.hashCode: h = 31*h + unit over the UTF-16 units, as a signed 32 bit number."""
    return to_signed(extend_hash(0, text))


def extend_hash(unsigned: int, text: str) -> int:
    """Return the unsigned 32 bit hash of a prefix plus `text`, given the hash of the prefix.

    Names with the same prefix share its work: all partitions of a topic begin with the topic.
    """
    for unit in _utf16_units(text):
        unsigned = (31 * unsigned + unit) & _UNSIGNED_32
    return unsigned


def to_signed(unsigned: int) -> int:
    """The same 32 bits, read as Java reads them."""
    return (unsigned ^ _SIGN_BIT) - _SIGN_BIT


def java_sort_key(text: str) -> str:
    """A key that sorts as String.compareTo does: by UTF-16 unit, so that U+1F600 comes before U+FFFD.

    Below U+10000 units and characters are the same and the text is its own key, which every real id is.
    """
    if text.isascii() or max(text) < "\U00010000":
        return text
    return "".join(map(chr, _utf16_units(text)))


def java_sorted(texts: Collection[str]) -> list[str]:
    """Sorted as Java sorts text."""
    # names are nearly always ASCII, and a check of each name takes longer than to sort all
    return sorted(texts) if "".join(texts).isascii() else sorted(texts, key=java_sort_key)


def _utf16_units(text: str) -> tuple[int, ...] | bytes:
    if text.isascii():
        return text.encode("ascii")
    data = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(data) // 2}H", data)
