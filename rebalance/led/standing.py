"""The state of a member of a led group, for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from zk_layout.errors import LegacyConsumerError


class LedState(Enum):
    """The own state of a member of a led group."""

    DOWN = "down"
    """It has not joined, has no session, or has left."""
    DISCOVERING = "discovering"
    """It waits for a leader, or for the first generation that gives it a share."""
    MEMBER = "member"
    """It has the share that the last generation gives it."""
    REDISCOVERING = "rediscovering"
    """It waits for ZooKeeper, a leader or the next generation, and goes on fetching what it owns meanwhile."""
    STOPPED = "stopped"
    """It has given up all that it owned, and committed it, and waits for the next generation or leaves."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A member's state and what it knows of its group.

    coordination: leader, or classic while a member of the group follows no leader. generation: the last one that it
    knows; 0 if there is none. strategy: the one that made it. leader: the consumer id of the member that leads, if one
    does. group: the group's state as its coordinator sees it, if this member leads. error: why this member takes no
    part or does not get on, or what its own assignor did wrong last.
    """

    state: LedState = LedState.DOWN
    coordination: str = "leader"
    generation: int = 0
    strategy: str = ""
    leader: str | None = None
    group: str | None = None
    error: LegacyConsumerError | None = None
