"""The message path through librdkafka."""

from __future__ import annotations

from legacy_consumer.errors import ProduceError
from legacy_consumer.librdkafka.brokers import read_brokers
from legacy_consumer.librdkafka.factory import LibrdkafkaFetchers, open_fetcher, open_log_offsets
from legacy_consumer.librdkafka.fetcher import LibrdkafkaFetcher
from legacy_consumer.librdkafka.log_offsets import LibrdkafkaLogOffsets
from legacy_consumer.librdkafka.metadata import LibrdkafkaMetadataAsker
from legacy_consumer.librdkafka.offsets import LibrdkafkaGroupOffsets, open_group_offsets
from legacy_consumer.librdkafka.producer import Record, produce_all

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
    "read_brokers",
]
