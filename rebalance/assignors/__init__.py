"""The assignors, by the values of partition.assignment.strategy.

ASSIGNORS: for classic groups, in which every member computes for itself. Groups with a coordinator: `strategies.py`.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from rebalance.assignors.range import range_assign
from rebalance.assignors.roundrobin import roundrobin_assign
from rebalance.dialects import DIALECTS, Dialect
from rebalance.snapshot import Assignment, GroupSnapshot

__all__ = ["ASSIGNORS", "DIALECTS", "ClassicAssignor", "Dialect", "range_assign", "roundrobin_assign"]

ClassicAssignor: TypeAlias = Callable[[GroupSnapshot, Dialect], Assignment]

ASSIGNORS: Mapping[str, ClassicAssignor] = {
    # range is the same in every version
    "range": lambda group, _dialect: range_assign(group),
    "roundrobin": roundrobin_assign,
}
