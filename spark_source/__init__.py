"""ZooKeeper consumer groups for Spark: register(spark) makes the format zk_offsets known to a session."""

from __future__ import annotations

from spark_source.source import ZkOffsets, register

__all__ = ["ZkOffsets", "register"]
