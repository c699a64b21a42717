"""The actions that rebalance.machine orders from the coordinator; some result in an event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from rebalance.absence import GroupMemory
from rebalance.events import Timer


@dataclass(frozen=True, slots=True)
class Register:
    """Create the id znode; answer with Registered, RegistrationBlocked, IdTaken or Failed."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Reconcile once; answer with Settled, Draining, Blocked, Overtaken, Deregistered or Failed.

    final: do not wait any longer for messages in hand. leaving: release everything. doubtful: first check in ZooKeeper
    that all owned partitions are still mine. last_look: act on the group as read now, even if it changes meanwhile.
    memory: the member's memory of its group.
    """

    final: bool = False
    leaving: bool = False
    doubtful: bool = False
    last_look: bool = False
    memory: GroupMemory = field(default_factory=GroupMemory)


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Start a timer; its end is an event. since_s: the start of the delay, on the coordinator's clock; None = now.

    no_later: if the timer runs already, it ends at the earlier of the two times.
    """

    name: Timer
    delay_ms: int
    since_s: float | None = None
    no_later: bool = False


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Cancel the timer; harmless if it does not run."""

    name: Timer


@dataclass(frozen=True, slots=True)
class PauseDelivery:
    """Hand out no message of any partition until ResumeDelivery."""


@dataclass(frozen=True, slots=True)
class ResumeDelivery:
    """Undo PauseDelivery."""


@dataclass(frozen=True, slots=True)
class DropOwnership:
    """All owned partitions are lost: stop delivery, drop buffers and positions, commit nothing."""


@dataclass(frozen=True, slots=True)
class GuardOwnership:
    """Watch my owner znodes; Doubted follows once another client changes or deletes one."""


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """Forget all that was read of the group: the data may be out of date, and the watches are gone."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Release what is left without waiting, and delete the id znode; answer with Left or Failed."""


Action: TypeAlias = (
    Register
    | Rebalance
    | StartTimer
    | CancelTimer
    | PauseDelivery
    | ResumeDelivery
    | DropOwnership
    | GuardOwnership
    | ForgetGroup
    | Leave
)
