"""Plain record sets (format 2, not compressed), for tests of several decoders."""

from __future__ import annotations

import struct

from tests.support.record_encoder import Written, batch, crc32c, marker, message

HEADERS = (("h", b"1"), ("none", None))
RECORDS = [
    Written(
        number, b"k" * number if number % 3 else None, bytes([number]) * (number * 9) if number % 5 else None, number
    )
    for number in range(40)
]
PLAIN = batch(RECORDS[:7]) + batch(RECORDS[7:8]) + batch(RECORDS[8:30]) + batch(RECORDS[30:])

_MANY = [Written(n, b"k", bytes([n % 251]) * (n % 300), n) for n in range(2000)]
LONG = b"".join(batch(_MANY[at : at + 250]) for at in range(0, 2000, 250))
"""A set whose batches are longer than the three blocks of 256 bytes that one round of the checksum takes."""

NEED_MORE = {
    "nothing": b"",
    "a part of a batch": PLAIN[:30],
    "format 1": message(Written(0, None, b"v"), 1),
    "compressed": batch(RECORDS[:5], codec="gzip"),
    "partly": PLAIN + batch([Written(n, None, b"v") for n in range(40, 50)], codec="snappy"),
    "a control batch": PLAIN + marker(40, 7, is_abort=True),
    "mixed formats": PLAIN + message(Written(40, None, b"v"), 0),
}
"""{name: a set that needs more than the plain decoder, or holds nothing}."""


def signed(data):
    """Return the set with correct CRCs in its batches, as far as they are whole."""
    made, at = bytearray(data), 0
    while at + 61 <= len(made):
        (size,) = struct.unpack_from(">i", made, at + 8)
        if size < 49 or at + 12 + size > len(made):
            break
        struct.pack_into(">I", made, at + 17, crc32c(bytes(made[at + 21 : at + 12 + size])))
        at += 12 + size
    return bytes(made)
