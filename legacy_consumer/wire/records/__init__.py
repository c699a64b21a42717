"""Bytes of a partition, as a Fetch response holds them, into columns and messages: the native decoder's room.

Pure: no sockets. Needs the extra `fast`.
"""

from legacy_consumer.wire.records.columns import ARROW_COLUMNS, Columns
from legacy_consumer.wire.records.decoding import (
    MAX_BATCH_BYTES,
    AbortedTransaction,
    crc32c,
    decode_records,
    glance,
)
from legacy_consumer.wire.records.messages import ColumnMessage, HeaderList

__all__ = [
    "ARROW_COLUMNS",
    "MAX_BATCH_BYTES",
    "AbortedTransaction",
    "ColumnMessage",
    "Columns",
    "HeaderList",
    "crc32c",
    "decode_records",
    "glance",
]
