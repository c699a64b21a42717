"""The states of a group and of the coordinator itself, with tables of their transitions.

docs/coordination.md shows both tables as diagrams, which draw() makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar


class GroupState(Enum):
    """The state of a group."""

    EMPTY = "Empty"
    """It has no member. It may have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The coordinator waits until every known member has joined, or the rebalance timeout is over."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation has begun. The coordinator waits for the leader's assignment."""
    STABLE = "Stable"
    """Every member can get its assignment."""
    DEAD = "Dead"
    """The coordinator has dropped the group."""


class GroupEvent(Enum):
    """An event of a group."""

    MEMBERS_CHANGED = "a member joins, leaves, changes or is lost"
    ALL_JOINED = "every member has joined, or the rebalance timeout is over"
    NOBODY_JOINED = "the last member is gone"
    LEADER_SYNCED = "the leader's assignment is written"
    LOADED = "a successor reads the group's stored generation"
    DROPPED = "the coordinator drops the group"


class CoordinatorState(Enum):
    """The state of the coordinator itself."""

    DOWN = "Down"
    """It is not elected: clients have to find another coordinator."""
    CATCHING_UP = "CatchingUp"
    """It is elected and reads its groups: clients have to try again."""
    READY = "Ready"
    """It serves requests."""


class CoordinatorEvent(Enum):
    """An event of the coordinator itself."""

    ELECTED = "it is elected"
    CAUGHT_UP = "it has read its groups"
    DEPOSED = "another one is elected, or a write was refused"


GROUP_TRANSITIONS: Mapping[tuple[GroupState, GroupEvent], GroupState] = {
    (GroupState.EMPTY, GroupEvent.MEMBERS_CHANGED): GroupState.PREPARING_REBALANCE,
    (GroupState.EMPTY, GroupEvent.LOADED): GroupState.STABLE,
    (GroupState.EMPTY, GroupEvent.DROPPED): GroupState.DEAD,
    (GroupState.PREPARING_REBALANCE, GroupEvent.ALL_JOINED): GroupState.COMPLETING_REBALANCE,
    (GroupState.PREPARING_REBALANCE, GroupEvent.NOBODY_JOINED): GroupState.EMPTY,
    (GroupState.PREPARING_REBALANCE, GroupEvent.DROPPED): GroupState.DEAD,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.LEADER_SYNCED): GroupState.STABLE,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.MEMBERS_CHANGED): GroupState.PREPARING_REBALANCE,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.DROPPED): GroupState.DEAD,
    (GroupState.STABLE, GroupEvent.MEMBERS_CHANGED): GroupState.PREPARING_REBALANCE,
    (GroupState.STABLE, GroupEvent.DROPPED): GroupState.DEAD,
}
"""An event that the table lacks for a state cannot happen in that state; it would be a defect, and raises KeyError."""

COORDINATOR_TRANSITIONS: Mapping[tuple[CoordinatorState, CoordinatorEvent], CoordinatorState] = {
    (CoordinatorState.DOWN, CoordinatorEvent.ELECTED): CoordinatorState.CATCHING_UP,
    (CoordinatorState.CATCHING_UP, CoordinatorEvent.CAUGHT_UP): CoordinatorState.READY,
    (CoordinatorState.CATCHING_UP, CoordinatorEvent.DEPOSED): CoordinatorState.DOWN,
    (CoordinatorState.READY, CoordinatorEvent.DEPOSED): CoordinatorState.DOWN,
}

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)


def draw(transitions: Mapping[tuple[_State, _Event], _State], first: _State) -> str:
    """Return a table as a mermaid state diagram, for docs/coordination.md."""
    lines = ["stateDiagram-v2", f"    [*] --> {first.value}"]
    lines += [f"    {state.value} --> {then.value}: {event.value}" for (state, event), then in transitions.items()]
    return "\n".join(lines)
