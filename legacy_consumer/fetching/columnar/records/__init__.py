"""Decodes the records of a partition in a Fetch response into columns and messages, with the native decoder.

No I/O. Needs the extra `fast`.
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
