"""The message path without librdkafka: Kafka's protocol, and record batches decoded into columns."""

from __future__ import annotations

from legacy_consumer.wire.batch import ColumnarBatch
from legacy_consumer.wire.factory import ColumnarFetchers, open_fetcher, open_log_offsets
from legacy_consumer.wire.fetcher import ColumnarFetcher
from legacy_consumer.wire.log_offsets import ColumnarLogOffsets

__all__ = [
    "ColumnarBatch",
    "ColumnarFetcher",
    "ColumnarFetchers",
    "ColumnarLogOffsets",
    "open_fetcher",
    "open_log_offsets",
]
