"""Every benchmark there is. A file holds one comparison, or one for each of several sizes."""

from __future__ import annotations

from typing import Any

from benchmarks import (
    commit_vs_jvm,
    consume_batches_vs_jvm_new,
    consume_batches_vs_raw,
    consume_batches_vs_scala,
    consume_memory_vs_raw,
    iterate_vs_jvm_new,
    iterate_vs_scala,
    join_vs_jvm,
    leave_vs_jvm,
    start_vs_jvm,
    zk_requests_vs_jvm,
)
from benchmarks.comparison import Comparison

_ALL: tuple[Comparison[Any], ...] = (
    consume_batches_vs_raw.COMPARISON,
    consume_batches_vs_scala.COMPARISON,
    consume_batches_vs_jvm_new.COMPARISON,
    iterate_vs_scala.COMPARISON,
    iterate_vs_jvm_new.COMPARISON,
    consume_memory_vs_raw.COMPARISON,
    commit_vs_jvm.COMPARISON,
    *join_vs_jvm.COMPARISONS,
    *leave_vs_jvm.COMPARISONS,
    *start_vs_jvm.COMPARISONS,
    *zk_requests_vs_jvm.COMPARISONS,
)

BENCHMARKS: dict[str, Comparison[Any]] = {comparison.name: comparison for comparison in _ALL}
"""By name, in the order of the table."""
