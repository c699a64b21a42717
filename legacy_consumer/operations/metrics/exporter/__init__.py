"""`legacy-consumer exporter`: metrics of all groups of a cluster, also of JVM members, for Prometheus."""

from __future__ import annotations

from legacy_consumer.operations.metrics.exporter.cluster_reader import ClusterReader, Selection
from legacy_consumer.operations.metrics.exporter.counted_reads import CountedReads, CountingKazooStore
from legacy_consumer.operations.metrics.exporter.exporter import Exporter, ExporterSettings
from legacy_consumer.operations.metrics.exporter.judging import ClusterJudge

__all__ = [
    "ClusterJudge",
    "ClusterReader",
    "CountedReads",
    "CountingKazooStore",
    "Exporter",
    "ExporterSettings",
    "Selection",
]
