"""What a member of a group does next: step(state, event) -> (state, actions). It never sleeps, logs or reads a clock.

A member is in one phase at a time.

    CREATED ──Started──► JOINING ──Registered──► REBALANCING ──Settled──► STABLE
                            ▲                      ▲  │  │ ▲                 │
                            │              Triggered  │  │ └────Triggered────┘
                            │                   │     │  └─Draining─► DRAINING ──Drained, DrainExpired──► REBALANCING
                            │                   │     └────Blocked, Failed──► WAITING ──Unblocked, Triggered──►  "
                            │                   │                                │  BackoffExpired──► "
                            │                   └──── DEGRADED ◄──tries used up──┘
                        SessionStarted
                            │
    any ──Expired──► EXPIRED ┘                 any ──CloseRequested──► LEAVING ──Settled──► CLOSED

A rebalance is a reconciliation: read the group, compare what should be mine with what is, and do the next thing that
brings the two together. It can therefore be started again at any moment by anything that may have changed the
picture, and it is: a trigger, a drained stream, an owner znode that went away and an expired back-off all lead to the
same action, Rebalance. Only the back-off counts as a try. After rebalance.max.retries of them the member is DEGRADED:
it says so, and goes on trying, for ever, not more often than once in LEAST_PAUSE_MS.

Losing the connection does not change the phase, it is noted beside it: nothing is attempted while `connected` is
false. If the connection stays away so long that the session may have expired elsewhere, delivery is paused; when it
comes back with the same session, delivery goes on and the group is read again, because watches may have been missed.
When the session is gone, so is everything owned: what is in buffers is dropped, and nothing more is committed for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from zk_layout.errors import LegacyConsumerError


class Phase(Enum):
    """Where a member stands; see the module."""

    CREATED = "created"
    JOINING = "joining"
    REBALANCING = "rebalancing"
    DRAINING = "draining"
    WAITING = "waiting"
    DEGRADED = "degraded"
    STABLE = "stable"
    EXPIRED = "expired"
    LEAVING = "leaving"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class MemberState:
    """The whole memory of the machine.

    tries: back-offs that ran out since the member was last settled.
    backing_off, draining: that timer is running; it is started once and not prolonged by what happens meanwhile.
    """

    phase: Phase = Phase.CREATED
    connected: bool = True
    paused: bool = False
    tries: int = 0
    backing_off: bool = False
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that decisions depend on; milliseconds.

    suspicion_ms: how long without a connection until delivery is paused.
    """

    max_retries: int
    backoff_ms: int
    suspicion_ms: int
    drain_timeout_ms: int


# Events: what happened.


@dataclass(frozen=True, slots=True)
class Started:
    """The connector wants to join."""


@dataclass(frozen=True, slots=True)
class Registered:
    """My id znode exists under my session."""


@dataclass(frozen=True, slots=True)
class RegistrationBlocked:
    """My id znode exists under another session."""


@dataclass(frozen=True, slots=True)
class Triggered:
    """Something that an assignment depends on may have changed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What should be mine is mine and flows; when leaving: nothing is mine any more."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Partitions to release are stopped, but messages of them are in users' hands."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Owner znodes of others are in the way; they are watched."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt, or the registration, ended in an error."""

    error: LegacyConsumerError


@dataclass(frozen=True, slots=True)
class Drained:
    """A stream gave up what it had in hand."""


@dataclass(frozen=True, slots=True)
class DrainExpired:
    """drain.timeout.ms ran out."""


@dataclass(frozen=True, slots=True)
class Unblocked:
    """A watched znode that was in the way is gone."""


@dataclass(frozen=True, slots=True)
class BackoffExpired:
    """rebalance.backoff.ms ran out."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The connection is lost, the session may live."""


@dataclass(frozen=True, slots=True)
class SuspicionExpired:
    """Without a connection for so long that the session may have expired elsewhere."""


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The connection is back, with the same session."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The session is gone, and with it my id and my owner znodes."""


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """A new session was begun after the old one had expired."""


@dataclass(frozen=True, slots=True)
class Deregistered:
    """Somebody deleted my id znode: the list of members does not show me, or another session has taken the id."""


@dataclass(frozen=True, slots=True)
class Doubted:
    """An owner znode of mine may be gone, though I did not delete it."""


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The connector shuts down, in order if that takes no longer than timeout_ms."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class CloseExpired:
    """The time for leaving in order ran out."""


Event: TypeAlias = (
    Started
    | Registered
    | RegistrationBlocked
    | Triggered
    | Settled
    | Draining
    | Blocked
    | Failed
    | Drained
    | DrainExpired
    | Unblocked
    | BackoffExpired
    | Suspended
    | SuspicionExpired
    | Reconnected
    | Expired
    | SessionStarted
    | Deregistered
    | Doubted
    | CloseRequested
    | CloseExpired
)


# Actions: what to do about it.


@dataclass(frozen=True, slots=True)
class Register:
    """Create the id znode; answer with Registered, RegistrationBlocked or Failed."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Reconcile once; answer with Settled, Draining, Blocked or Failed.

    final: messages still in users' hands are not waited for any longer.
    leaving: nothing is to be mine.
    """

    final: bool = False
    leaving: bool = False


class TimerName(Enum):
    """The timers; each exists at most once, and starting it again begins anew."""

    BACKOFF = "backoff"
    DRAIN = "drain"
    SUSPICION = "suspicion"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Later answer with BackoffExpired, DrainExpired, SuspicionExpired or CloseExpired."""

    name: TimerName
    delay_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget the timer; none running is fine."""

    name: TimerName


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
class DoubtOwnership:
    """Look with the next Rebalance whether ZooKeeper shows all that is owned as mine."""


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """What was read of the group may be out of date, and its watches are gone: read all of it again."""


@dataclass(frozen=True, slots=True)
class Announce:
    """The phase is one that people and waiting callers want to know."""

    phase: Phase


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
    | DoubtOwnership
    | ForgetGroup
    | Announce
    | Leave
)

LEAST_PAUSE_MS = 1000
"""Between two tries, once rebalance.max.retries are used up: rebalance.backoff.ms may be 0."""

_BUSY = frozenset({Phase.REBALANCING, Phase.DRAINING, Phase.WAITING, Phase.DEGRADED, Phase.STABLE})
"""Registered, so that anything that may have changed the picture leads to Rebalance."""


def step(state: MemberState, event: Event, policy: Policy) -> tuple[MemberState, tuple[Action, ...]]:
    """Decide what an event means. Events that have no meaning in a phase change nothing."""
    if state.phase is Phase.CLOSED:
        return state, ()
    match event:
        case Suspended() | SuspicionExpired() | Reconnected() | Expired() | SessionStarted():
            return _session(state, event, policy)
        case CloseRequested() | CloseExpired():
            return _closing(state, event)
        case _:
            pass
    if state.phase is Phase.LEAVING:
        return _leaving(state, event, policy)
    return _membership(state, event, policy)


def _session(state: MemberState, event: Event, policy: Policy) -> tuple[MemberState, tuple[Action, ...]]:
    match event:
        case Suspended() if state.connected:
            return replace(state, connected=False), (StartTimer(TimerName.SUSPICION, policy.suspicion_ms),)
        case SuspicionExpired() if not state.connected and not state.paused and state.phase is not Phase.EXPIRED:
            return replace(state, paused=True), (PauseDelivery(),)
        case Reconnected() if not state.connected:
            resumed = replace(state, connected=True, paused=False)
            actions: list[Action] = [CancelTimer(TimerName.SUSPICION), ForgetGroup(), DoubtOwnership()]
            if state.paused:
                actions.append(ResumeDelivery())
            if state.phase is Phase.JOINING:
                actions.append(Register())
            elif state.phase in _BUSY:
                resumed = replace(resumed, phase=Phase.REBALANCING)
                actions.append(Rebalance())
            elif state.phase is Phase.LEAVING:
                actions.append(Rebalance(leaving=True))
            return resumed, tuple(actions)
        case Expired() | SessionStarted() if state.phase is Phase.LEAVING:
            # nothing is left that could be released, and nothing may be committed for it
            return replace(state, phase=Phase.CLOSED), (
                DropOwnership(),
                *_cancel_all(),
                Leave(),
                Announce(Phase.CLOSED),
            )
        case Expired() if state.phase not in (Phase.CREATED, Phase.EXPIRED):
            expired = MemberState(phase=Phase.EXPIRED, connected=False)
            return expired, (DropOwnership(), ForgetGroup(), *_cancel_all(), Announce(Phase.EXPIRED))
        case SessionStarted() if state.phase is Phase.CREATED:
            return replace(state, connected=True), ()
        case SessionStarted():
            # a session whose predecessor ended unheard has lost everything all the same
            lost: tuple[Action, ...] = () if state.phase is Phase.EXPIRED else (DropOwnership(), ForgetGroup())
            return MemberState(phase=Phase.JOINING), (*lost, *_cancel_all(), ResumeDelivery(), Register())
        case _:
            return state, ()


def _closing(state: MemberState, event: CloseRequested | CloseExpired) -> tuple[MemberState, tuple[Action, ...]]:
    registered = state.phase in _BUSY or state.phase is Phase.LEAVING
    if isinstance(event, CloseExpired) or not registered:
        return replace(state, phase=Phase.CLOSED), (*_cancel_all(), Leave(), Announce(Phase.CLOSED))
    if state.phase is Phase.LEAVING:
        return state, ()
    leaving = replace(state, phase=Phase.LEAVING, backing_off=False, draining=False)
    timer = StartTimer(TimerName.CLOSE, event.timeout_ms)
    if not state.connected:
        # the connection may come back in time for a last commit; the suspicion goes on running meanwhile
        return leaving, (CancelTimer(TimerName.BACKOFF), CancelTimer(TimerName.DRAIN), timer)
    return leaving, (*_cancel_all(), timer, Rebalance(leaving=True))


def _leaving(state: MemberState, event: Event, policy: Policy) -> tuple[MemberState, tuple[Action, ...]]:
    match event:
        case Settled() | Failed() | Blocked():
            return replace(state, phase=Phase.CLOSED), (*_cancel_all(), Leave(), Announce(Phase.CLOSED))
        case Draining():
            return _drain(state, policy)
        case Drained() if state.connected:
            return state, (Rebalance(leaving=True),)
        case DrainExpired():
            late = replace(state, draining=False)
            return late, ((Rebalance(leaving=True, final=True),) if state.connected else ())
        case _:
            return state, ()


def _membership(state: MemberState, event: Event, policy: Policy) -> tuple[MemberState, tuple[Action, ...]]:
    match event:
        case Started() if state.phase is Phase.CREATED:
            return replace(state, phase=Phase.JOINING), (Register(),)
        case Registered() if state.phase is Phase.JOINING:
            ready = MemberState(phase=Phase.REBALANCING, connected=state.connected, paused=state.paused)
            return ready, (CancelTimer(TimerName.BACKOFF), Rebalance())
        case RegistrationBlocked() | Failed() if state.phase is Phase.JOINING:
            error = event.error if isinstance(event, Failed) else None
            return _backoff(state, policy, error)
        case Deregistered() if state.phase is Phase.JOINING:
            # the id is taken, and I still own partitions: a rebalance releases them
            return replace(state, phase=Phase.REBALANCING), (Rebalance(),)
        case Unblocked() if state.phase is Phase.JOINING and state.connected:
            return state, (Register(),)
        case BackoffExpired() if state.phase is Phase.JOINING:
            tried = replace(state, tries=state.tries + 1, backing_off=False)
            return tried, ((Register(),) if state.connected else ())
        case Deregistered() if state.phase is Phase.REBALANCING:
            return replace(state, phase=Phase.JOINING), (Register(),)
        case Settled() if state.phase is Phase.REBALANCING:
            calm = replace(state, phase=Phase.STABLE, tries=0, backing_off=False, draining=False)
            return calm, (
                CancelTimer(TimerName.BACKOFF),
                CancelTimer(TimerName.DRAIN),
                Announce(Phase.STABLE),
            )
        case Draining() if state.phase is Phase.REBALANCING:
            return _drain(replace(state, phase=Phase.DRAINING), policy)
        case Blocked() if state.phase is Phase.REBALANCING:
            return _backoff(replace(state, phase=Phase.WAITING), policy, None)
        case Failed() if state.phase is Phase.REBALANCING:
            return _backoff(replace(state, phase=Phase.WAITING), policy, event.error)
        case DrainExpired() if state.phase in _BUSY:
            late = replace(state, draining=False)
            if not state.connected:
                return late, ()
            return replace(late, phase=Phase.REBALANCING), (Rebalance(final=True),)
        case Doubted() if state.phase in _BUSY and state.connected:
            return replace(state, phase=Phase.REBALANCING), (DoubtOwnership(), Rebalance())
        case Doubted():
            return state, (DoubtOwnership(),)
        case Triggered() | Drained() | Unblocked() if state.phase in _BUSY and state.connected:
            return replace(state, phase=Phase.REBALANCING), (Rebalance(),)
        case BackoffExpired() if state.phase in _BUSY:
            tried = replace(state, tries=state.tries + 1, backing_off=False)
            if not state.connected:
                return tried, ()
            return replace(tried, phase=Phase.REBALANCING), (Rebalance(),)
        case _:
            return state, ()


def _drain(state: MemberState, policy: Policy) -> tuple[MemberState, tuple[Action, ...]]:
    if state.draining:
        return state, ()
    return replace(state, draining=True), (StartTimer(TimerName.DRAIN, policy.drain_timeout_ms),)


def _backoff(
    state: MemberState, policy: Policy, error: LegacyConsumerError | None
) -> tuple[MemberState, tuple[Action, ...]]:
    """Wait for the obstacle to go, or for the back-off; when the tries are used up, say so and go on trying."""
    actions: list[Action] = []
    exhausted = state.tries >= policy.max_retries
    if not state.backing_off:
        least_ms = LEAST_PAUSE_MS if exhausted else 0
        actions.append(StartTimer(TimerName.BACKOFF, max(policy.backoff_ms, least_ms)))
    if exhausted and state.phase is not Phase.JOINING:
        state = replace(state, phase=Phase.DEGRADED)
    if exhausted or (error is not None and not error.retriable):
        actions.append(Announce(Phase.DEGRADED if exhausted else state.phase))
    return replace(state, backing_off=True), tuple(actions)


def _cancel_all() -> tuple[Action, ...]:
    return tuple(CancelTimer(name) for name in TimerName)
