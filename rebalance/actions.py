"""The actions that rebalance.machine orders from the coordinator; some result in an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rebalance.events import Timer


@dataclass(frozen=True, slots=True)
class Register:
    """Create the id znode; answer with Registered, RegistrationBlocked, IdTaken or Failed."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Reconcile once; answer with Settled, Draining, Blocked, Overtaken, Deregistered or Failed.

    final: do not wait any longer for messages in hand. leaving: release everything. doubtful: first check in ZooKeeper
    that all owned partitions are still mine. last_look: act on the group as read now, even if it changes meanwhile.
    """

    final: bool = False
    leaving: bool = False
    doubtful: bool = False
    last_look: bool = False


@dataclass(frozen=True, slots=True)
class StartTimer:
    """It rings later, which is an event. since_s: from when on the delay counts, None = now.

    no_later: if it runs already, it rings at the earlier one of both times.
    """

    name: Timer
    delay_ms: int
    since_s: float | None = None
    no_later: bool = False


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget the timer; none running is fine."""

    name: Timer


@dataclass(frozen=True, slots=True)
class PauseDelivery:
    """Hand out no message of any partition until ResumeDelivery."""


@dataclass(frozen=True, slots=True)
class ResumeDelivery:
    """Undo PauseDelivery."""


@dataclass(frozen=True, slots=True)
class DropOwnership:
    """Everything owned is gone: stop delivery, drop buffers and positions, commit nothing."""


@dataclass(frozen=True, slots=True)
class GuardOwnership:
    """Watch the owner znodes that are mine, and look at them; answer with Triggered if some are gone."""


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """Read the whole group again: the data may be out of date, and the watches are gone."""


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
