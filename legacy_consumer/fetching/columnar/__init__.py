"""The message path without librdkafka: speaks Kafka's protocol, and decodes record batches into columns."""

from __future__ import annotations

from legacy_consumer.fetching.columnar.batch import ColumnarBatch
from legacy_consumer.fetching.columnar.factory import ColumnarFetchers, open_fetcher, open_log_offsets
from legacy_consumer.fetching.columnar.fetcher import ColumnarFetcher
from legacy_consumer.fetching.columnar.log_offsets import ColumnarLogOffsets

__all__ = [
    "ColumnarBatch",
    "ColumnarFetcher",
    "ColumnarFetchers",
    "ColumnarLogOffsets",
    "open_fetcher",
    "open_log_offsets",
]
