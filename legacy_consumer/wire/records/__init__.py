"""Bytes of a partition, as a Fetch response holds them, into columns. Pure: no sockets. Needs the extra `fast`."""

from legacy_consumer.wire.records.columns import Columns
from legacy_consumer.wire.records.compiling import warm_up
from legacy_consumer.wire.records.decoding import decode_records
from legacy_consumer.wire.records.messages import ColumnMessage
from legacy_consumer.wire.records.plain import PlainRecords, lay_out
from legacy_consumer.wire.records.runs import Run
from legacy_consumer.wire.records.transactions import AbortedTransaction

__all__ = [
    "AbortedTransaction",
    "ColumnMessage",
    "Columns",
    "PlainRecords",
    "Run",
    "decode_records",
    "lay_out",
    "warm_up",
]
