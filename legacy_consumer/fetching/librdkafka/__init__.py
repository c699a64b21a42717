"""The message path through librdkafka."""

from __future__ import annotations

from legacy_consumer.errors import ProduceError
from legacy_consumer.fetching.librdkafka.factory import LibrdkafkaFetchers, open_fetcher, open_log_offsets
from legacy_consumer.fetching.librdkafka.fetcher import LibrdkafkaFetcher
from legacy_consumer.fetching.librdkafka.log_offsets import LibrdkafkaLogOffsets
from legacy_consumer.fetching.librdkafka.metadata import LibrdkafkaMetadataAsker
from legacy_consumer.fetching.librdkafka.offsets import LibrdkafkaGroupOffsets, open_group_offsets
from legacy_consumer.fetching.librdkafka.producer import Record, produce_all

__all__ = [
    "LibrdkafkaFetcher",
    "LibrdkafkaFetchers",
    "LibrdkafkaGroupOffsets",
    "LibrdkafkaLogOffsets",
    "LibrdkafkaMetadataAsker",
    "ProduceError",
    "Record",
    "open_fetcher",
    "open_group_offsets",
    "open_log_offsets",
    "produce_all",
]
