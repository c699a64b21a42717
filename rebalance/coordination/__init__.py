"""A group coordinator without I/O: groups with states and generations, and the effects that a shell carries out."""

from rebalance.coordination.codes import Code
from rebalance.coordination.coordinator import Coordinator
from rebalance.coordination.states import CoordinatorState, GroupState
from rebalance.coordination.turn import Settings

__all__ = ["Code", "Coordinator", "CoordinatorState", "GroupState", "Settings"]
