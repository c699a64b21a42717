"""ZooKeeper consumer groups for Spark: register(spark) adds the formats to a session."""

from __future__ import annotations

from spark_source.messages.batch_offsets import BatchOffsets, batch_offsets
from spark_source.messages.source_progress import source_progress
from spark_source.offset_backups import old_offsets
from spark_source.reasons import reason_of
from spark_source.source import KafkaSegments, ZkMessages, ZkOffsets, register

__all__ = [
    "BatchOffsets",
    "KafkaSegments",
    "ZkMessages",
    "ZkOffsets",
    "batch_offsets",
    "old_offsets",
    "reason_of",
    "register",
    "source_progress",
]
