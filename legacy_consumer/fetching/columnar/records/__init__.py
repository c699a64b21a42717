"""Bytes of a partition, as a Fetch response holds them, into columns and messages: the native decoder's room.

Pure: no sockets. Needs the extra `fast`.
"""

from legacy_consumer.fetching.columnar.records.columns import ARROW_COLUMNS, Columns
from legacy_consumer.fetching.columnar.records.decoding import (
    MAX_BATCH_BYTES,
    Ahead,
    Wishes,
    crc32c,
    decode_ahead,
    decode_records,
    glance,
)

__all__ = [
    "ARROW_COLUMNS",
    "MAX_BATCH_BYTES",
    "Ahead",
    "Columns",
    "Wishes",
    "crc32c",
    "decode_ahead",
    "decode_records",
    "glance",
]
