"""The assignors, by the words of partition.assignment.strategy."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from rebalance.assignors.range import range_assign
from rebalance.assignors.roundrobin import DIALECTS, Dialect, roundrobin_assign
from rebalance.snapshot import Assignment, GroupSnapshot

__all__ = ["ASSIGNORS", "DIALECTS", "Assignor", "Dialect", "range_assign", "roundrobin_assign"]

Assignor: TypeAlias = Callable[[GroupSnapshot, Dialect], Assignment]

ASSIGNORS: Mapping[str, Assignor] = {
    # range is the same in every version
    "range": lambda group, _dialect: range_assign(group),
    "roundrobin": roundrobin_assign,
}
