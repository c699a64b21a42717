"""How a read is divided into tasks. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

GROUPS_PER_TASK = 64
"""A task costs a Python worker and a ZooKeeper session, some 50 ms; 64 groups with offsets are read in less."""
MOST_TASKS = 8
"""Without numPartitions: more sessions at once would only queue in the one ZooKeeper."""


def split_groups(groups: Sequence[str], num_partitions: int | None = None) -> list[tuple[str, ...]]:
    """Cut the groups into runs whose lengths differ by one at most, each group in one of them.

    Five groups in two: a b c, d e. No more runs than groups, and no run is empty; no groups give no run.
    """
    tasks = num_partitions or min(MOST_TASKS, -(-len(groups) // GROUPS_PER_TASK))
    tasks = min(tasks, len(groups))
    if not tasks:
        return []
    size, larger = divmod(len(groups), tasks)
    starts = [task * size + min(task, larger) for task in range(tasks + 1)]
    return [tuple(groups[start:end]) for start, end in pairwise(starts)]
