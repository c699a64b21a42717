"""Every benchmark there is. A file holds one comparison, or one for each of several sizes."""

from __future__ import annotations

from typing import Any

from benchmarks import (
    commit_vs_jvm,
    consume_arrow_1kb_vs_jvm_new,
    consume_arrow_format0_vs_scala,
    consume_arrow_format1_vs_scala,
    consume_arrow_snappy_vs_jvm_new,
    consume_arrow_vs_jvm_new,
    consume_arrow_vs_socket,
    consume_batches_vs_jvm_new,
    consume_batches_vs_raw,
    consume_batches_vs_scala,
    consume_memory_vs_raw,
    describe_vs_kafka_tool,
    iterate_vs_jvm_new,
    iterate_vs_scala,
    join_vs_jvm,
    leave_vs_jvm,
    spark_messages_librdkafka_vs_connector,
    spark_messages_pruned_vs_connector,
    spark_messages_vs_connector,
    spark_offsets_vs_kazoo,
    start_vs_jvm,
    zk_requests_vs_jvm,
)
from benchmarks.comparison import Comparison

_ALL: tuple[Comparison[Any], ...] = (
    consume_batches_vs_raw.COMPARISON,
    consume_batches_vs_scala.COMPARISON,
    consume_batches_vs_jvm_new.COMPARISON,
    consume_arrow_vs_jvm_new.COMPARISON,
    consume_arrow_vs_socket.COMPARISON,
    iterate_vs_scala.COMPARISON,
    iterate_vs_jvm_new.COMPARISON,
    consume_memory_vs_raw.COMPARISON,
    consume_arrow_1kb_vs_jvm_new.COMPARISON,
    consume_arrow_snappy_vs_jvm_new.COMPARISON,
    consume_arrow_format0_vs_scala.COMPARISON,
    consume_arrow_format1_vs_scala.COMPARISON,
    commit_vs_jvm.COMPARISON,
    *join_vs_jvm.COMPARISONS,
    *leave_vs_jvm.COMPARISONS,
    *start_vs_jvm.COMPARISONS,
    *zk_requests_vs_jvm.COMPARISONS,
    *describe_vs_kafka_tool.COMPARISONS,
    spark_messages_vs_connector.COMPARISON,
    spark_messages_pruned_vs_connector.COMPARISON,
    spark_messages_librdkafka_vs_connector.COMPARISON,
    *spark_offsets_vs_kazoo.COMPARISONS,
)

BENCHMARKS: dict[str, Comparison[Any]] = {comparison.name: comparison for comparison in _ALL}
"""By name, in the order of the table."""
