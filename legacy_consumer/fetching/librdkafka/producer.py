"""Produces many records, each acknowledged: for trying, testing and measuring, not for services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from legacy_consumer.errors import ProduceError
from legacy_consumer.fetching.librdkafka.client_producer import ProducerHandle

ANY_PARTITION = -1


class Record(NamedTuple):
    """A record to produce. Without a partition the key or, without a key, chance selects one. timestamp_ms: 0 = now."""

    key: bytes | None
    value: bytes | None
    partition: int = ANY_PARTITION
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


def produce_all(
    topic: str,
    records: Iterable[Record | tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, int]],
    settings: Mapping[str, str | int | float | bool],
    *,
    timeout_s: float = 60.0,
) -> int:
    """Produce every record, and wait until all in-sync replicas have them. Returns: the number of records.

    records: Record, or (key, value) or (key, value, partition).
    settings: librdkafka's, {"bootstrap.servers": ...} at least; settings.client_settings makes them for old brokers.
    timeout_s: a record without an acknowledgement for this time counts as failed.
    Raises: ProduceError with the number of failed records and the first reason; FetchError for a record that can never
    be sent; ConfigError.
    """
    timeout_ms = int(timeout_s * 1000)
    producer = ProducerHandle(
        {
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 1000000,
            "queue.buffering.max.messages": 500000,
            "message.timeout.ms": timeout_ms,
            **settings,
        }
    )
    count = 0
    try:
        for count, record in enumerate(records, 1):  # noqa: B007  (the number of the last one is the result)
            key, value, partition, timestamp_ms, headers = Record(*record)
            producer.produce(topic, key, value, partition, timestamp_ms, list(headers))
        left = producer.flush(timeout_s + 1.0)
    except BaseException:
        producer.drop()
        raise
    if left or producer.failed:
        producer.drop()
        raise ProduceError(topic, left + producer.failed, count, producer.first_failure or "no answer in time")
    return count
