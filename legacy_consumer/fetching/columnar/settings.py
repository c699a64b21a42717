"""The settings of a fetcher: the part of the configuration that it uses, and the sizes derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.config.properties import KAFKA_FETCH_BYTES

_RESPONSE_BYTES = 8 * 1024 * 1024
_FEW_PARTITIONS_BYTES = 2 * 1024 * 1024
"""More than Kafka's default of 1 MB, at which the fixed cost of each request and record set is noticeable."""
_LARGEST_BYTES = 100_000_000
"""librdkafka's receive.message.max.bytes: the largest response, and the largest batch of messages."""
_OVERHEAD_BYTES = 64 * 1024
_MOST_BYTES = 2**31 - 1
"""The largest size that a request can hold: a signed number of 32 bits."""
_LEAST_PARTITION_BYTES = 64 * 1024
_SUSPICION_S = 2.0
"""Seconds of silence, beyond max_wait_ms, after which the fetcher looks up leaders again, also in the middle of a
response. That costs only one batched read, so the time is short."""


@dataclass(frozen=True)
class FetchSettings:
    """Sizes in bytes.

    partition_bytes: for each partition in a response; few_partitions_bytes: the same, while the partitions are so few
    that a response has room for it; response_bytes: for a response. Requests ask for these sizes; a broker from 0.10.1
    on sends the first batch of messages whole, even if it is larger. largest_bytes: of one batch, or one response; a
    larger one is an error.
    backlog_bytes: with this much received and not decoded, the fetcher receives no more. With less it receives the next
    response while earlier ones are decoded, and asks for the one after it.
    """

    client_id: str
    partition_bytes: int
    few_partitions_bytes: int
    min_bytes: int
    max_wait_ms: int
    socket_timeout_s: float
    receive_buffer_bytes: int
    backoff_s: float
    read_committed: bool
    response_bytes: int = _RESPONSE_BYTES
    least_partition_bytes: int = _LEAST_PARTITION_BYTES
    largest_bytes: int = _LARGEST_BYTES
    backlog_bytes: int = _RESPONSE_BYTES

    @classmethod
    def of(cls, config: ConsumerConfig) -> FetchSettings:
        """Return the settings of a configuration."""
        size = config.fetch_message_max_bytes or KAFKA_FETCH_BYTES
        return cls(
            client_id=config.client_id,
            partition_bytes=size,
            few_partitions_bytes=config.fetch_message_max_bytes or _FEW_PARTITIONS_BYTES,
            min_bytes=config.fetch_min_bytes,
            max_wait_ms=config.fetch_wait_max_ms,
            socket_timeout_s=config.socket_timeout_ms / 1000,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            backoff_s=config.refresh_leader_backoff_ms / 1000,
            read_committed=config.isolation_level == "read_committed",
            response_bytes=max(_RESPONSE_BYTES, size),
            least_partition_bytes=min(_LEAST_PARTITION_BYTES, size),
            largest_bytes=max(_LARGEST_BYTES, min(size + _OVERHEAD_BYTES, _MOST_BYTES)),
        )

    def bytes_of_each(self, count: int) -> int:
        """Return the bytes to ask for in each of this many partitions."""
        return max(self.partition_bytes, min(self.few_partitions_bytes, self.response_bytes // max(count, 1)))

    @cached_property
    def suspicion_s(self) -> float:
        """A broker that is silent for this time may no longer lead; the fetcher checks that, at this interval."""
        return min(_SUSPICION_S + self.max_wait_ms / 1000, self.socket_timeout_s / 2)

    def largest_response_bytes(self, asked: int) -> int:
        """Return the largest valid response to a request for this many bytes of all partitions together."""
        return max(self.largest_bytes, asked) + _OVERHEAD_BYTES
