"""The assignors. ASSIGNORS: the rules of classic groups by the values of partition.assignment.strategy."""

from rebalance.assignors.strategies import STRATEGIES, ClassicAssignor
from rebalance.dialects import DIALECTS, Dialect

__all__ = ["ASSIGNORS", "DIALECTS", "ClassicAssignor", "Dialect"]

ASSIGNORS = {name: strategy.classic for name, strategy in STRATEGIES.items() if strategy.classic is not None}
