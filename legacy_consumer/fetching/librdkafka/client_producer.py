"""A producer of librdkafka that counts failed messages."""

from __future__ import annotations

import confluent_kafka
from confluent_kafka import KafkaException

from legacy_consumer.errors import FetchError
from legacy_consumer.fetching.librdkafka.client import Callbacks, Client, Settings, open_handle


class ProducerHandle(Client):
    """One librdkafka producer that reports only failures; after flush all other messages are acknowledged.

    Raises: ConfigError for a setting that librdkafka does not accept.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.failed = 0
        self.first_failure: str | None = None
        callbacks: Callbacks = {"error_cb": self.on_error, "on_delivery": self._on_failure}
        self._producer = open_handle(
            confluent_kafka.Producer, {**settings, "delivery.report.only.error": True}, callbacks
        )

    def _on_failure(self, error: confluent_kafka.KafkaError | None, _message: object) -> None:
        self.failed += 1
        if self.first_failure is None and error is not None:
            self.first_failure = error.str()

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: list[tuple[str, bytes | None]] | None,
    ) -> None:
        """Queue one record; wait while the queue is full. Raises: FetchError if it can never be sent."""
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    timestamp=timestamp_ms,
                    headers=headers or None,  # type: ignore[arg-type]
                )
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                raise FetchError(None, f"{topic}: {error.args[0].str()}") from error
            else:
                return

    def flush(self, timeout_s: float) -> int:
        """Wait until each record is acknowledged or has failed. Returns: the number that are still in flight."""
        return self._producer.flush(timeout_s)

    def drop(self) -> None:
        """Drop messages that were not sent."""
        self._producer.purge()
        self._producer.flush(1.0)
