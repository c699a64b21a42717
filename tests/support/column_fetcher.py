"""The in-memory fetcher with columns instead of message objects, like the columnar fetcher's batches."""

from __future__ import annotations

from itertools import groupby

from legacy_consumer.fetching.columnar.batch import ColumnarBatch
from legacy_consumer.fetching.columnar.records import decode_records
from tests.support.fake_kafka import FakeFetcher
from tests.support.scripted_broker import message


class ColumnFetcher(FakeFetcher):
    """A FakeFetcher whose batches are columns."""

    def poll(self, max_messages, timeout_s):
        batch = super().poll(max_messages, timeout_s)
        if batch is None:
            return None
        runs = []
        for tp, group in groupby(batch.messages(), key=lambda one: one.tp):
            records = b"".join(message(one.offset(), one.value()) for one in group)
            runs.append(decode_records(bytearray(records), tp, 0))
        return ColumnarBatch(runs, batch.next_offsets)
