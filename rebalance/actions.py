"""What rebalance.machine has the coordinator do; some are answered with an event."""

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

    final: messages still in users' hands are not waited for any longer.
    leaving: nothing is to be mine.
    doubtful: look first whether ZooKeeper shows all that is owned as mine.
    last_look: go by what is seen now, whatever changes meanwhile.
    """

    final: bool = False
    leaving: bool = False
    doubtful: bool = False
    last_look: bool = False


@dataclass(frozen=True, slots=True)
class StartTimer:
    """It rings later, which is an event. since_s: from when on the delay counts, None = now."""

    name: Timer
    delay_ms: int
    since_s: float | None = None


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
    """What was read of the group may be out of date, and its watches are gone: read all of it again."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Give up what is left without waiting for anybody, remove the id znode, and end."""


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
