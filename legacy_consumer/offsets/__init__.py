"""The stores of a group's committed offsets."""

from __future__ import annotations

from legacy_consumer.offsets.dual import DualOffsetStore
from legacy_consumer.offsets.kafka import GroupOffsets, KafkaOffset, KafkaOffsetStore
from legacy_consumer.offsets.progress import Commit
from legacy_consumer.offsets.retries import RetrySettings
from legacy_consumer.offsets.store import CommitResult, OffsetStore
from legacy_consumer.offsets.zookeeper import ZooKeeperOffsetStore

__all__ = [
    "Commit",
    "CommitResult",
    "DualOffsetStore",
    "GroupOffsets",
    "KafkaOffset",
    "KafkaOffsetStore",
    "OffsetStore",
    "RetrySettings",
    "ZooKeeperOffsetStore",
]
