"""What only producing needs; the consumer's errors are in legacy_consumer.errors.

LegacyConsumerError (zk_layout.errors)
  ProduceError                      some records were not acknowledged
"""

from __future__ import annotations

from zk_layout.errors import LegacyConsumerError


class ProduceError(LegacyConsumerError):
    """Some records were not acknowledged."""

    def __init__(self, topic: str, failed: int, produced: int, reason: str) -> None:
        super().__init__(topic, failed, produced, reason)
        self.topic = topic
        self.failed = failed
        self.produced = produced
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.failed} of {self.produced} records were not acknowledged by {self.topic}: {self.reason}"
