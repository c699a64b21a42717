"""xxHash-32 with seed 0, for the short header of an LZ4 frame."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_LONG = 16


def xxh32(data: bytes) -> int:
    """Return the hash of fewer than 16 bytes. Raises: ValueError for more, for which the algorithm differs."""
    if len(data) >= _LONG:
        msg = f"{len(data)} bytes are too many for a header"
        raise ValueError(msg)
    h = _P5 + len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        h = _rotated(h + int.from_bytes(data[at : at + 4], "little") * _P3, 17) * _P4
    for byte in data[whole:]:
        h = _rotated(h + byte * _P5, 11) * _P1
    h &= _MASK
    h = (h ^ h >> 15) * _P2 & _MASK
    h = (h ^ h >> 13) * _P3 & _MASK
    return h ^ h >> 16


def _rotated(number: int, by: int) -> int:
    number &= _MASK
    return (number << by | number >> 32 - by) & _MASK
