"""A record set that needs no more than to be decoded, for those who decode such in their own way."""

from __future__ import annotations

import struct

from tests.support.record_encoder import Written, batch, crc32c

HEADERS = (("h", b"1"), ("none", None))
RECORDS = [
    Written(
        number, b"k" * number if number % 3 else None, bytes([number]) * (number * 9) if number % 5 else None, number
    )
    for number in range(40)
]
PLAIN = batch(RECORDS[:7]) + batch(RECORDS[7:8]) + batch(RECORDS[8:30]) + batch(RECORDS[30:])


def signed(data):
    """With the CRCs that its batches would have, as far as it has any."""
    made, at = bytearray(data), 0
    while at + 61 <= len(made):
        (size,) = struct.unpack_from(">i", made, at + 8)
        if size < 49 or at + 12 + size > len(made):
            break
        struct.pack_into(">I", made, at + 17, crc32c(bytes(made[at + 21 : at + 12 + size])))
        at += 12 + size
    return bytes(made)
