"""ZooKeeper consumer groups for Spark: register(spark) makes zk_offsets and zk_messages known to a session."""

from __future__ import annotations

from spark_source.messages.source_progress import source_progress
from spark_source.offset_write import old_offsets
from spark_source.source import ZkMessages, ZkOffsets, register

__all__ = ["ZkMessages", "ZkOffsets", "old_offsets", "register", "source_progress"]
