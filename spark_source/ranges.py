"""Divides a read of groups into tasks. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

GROUPS_PER_TASK = 64
"""A task costs a Python worker and a ZooKeeper session, about 50 ms; it reads 64 groups with offsets in less."""
MOST_TASKS = 8
"""The most tasks without numPartitions: ZooKeeper would only queue the requests of more sessions."""


@dataclass(frozen=True, slots=True)
class GroupRange:
    """The groups from the name `first` on and before the name `end`, if there is one. Pickled to the executors.

    A task has names between which it reads, not a list of groups: Spark keeps a plan for as long as the DataFrame
    lives, and a group that is created later must belong to one of its tasks as well.
    """

    first: str = ""
    end: str | None = None

    def holds(self, group: str) -> bool:
        """Return whether the group belongs to this range."""
        return self.first <= group and (self.end is None or group < self.end)


ALL_GROUPS = GroupRange()


def split_groups(groups: Sequence[str], num_partitions: int | None = None) -> list[GroupRange]:
    """Divide all names into ranges, so that each of the sorted groups, and each later one, lies in one of them.

    Five groups in two: a b c, d e; the ranges are "" to d, and from d on. No more ranges than groups, but at least one.
    """
    tasks = num_partitions or min(MOST_TASKS, -(-len(groups) // GROUPS_PER_TASK))
    tasks = max(1, min(tasks, len(groups)))
    size, larger = divmod(len(groups), tasks)
    firsts = [groups[task * size + min(task, larger)] for task in range(1, tasks)]
    return [GroupRange(first, end) for first, end in pairwise(["", *firsts, None]) if first is not None]
