"""Decides a member's next actions: step(state, event) -> (state, actions). It never sleeps, logs or reads a clock.

MemberState is the whole memory. TABLE maps each phase and event to the next phase and the actions; draw() makes the
diagram in docs/architecture.md from it. An event without a row for a phase does not change the phase; its data is still
stored in the state.

A rebalance is a reconciliation: read the group, compare the member's share with the owned partitions, and take the next
step that brings the two together. Any event that may have changed the group can therefore start it again: a trigger, a
drained stream, a listener's answer, a deleted owner znode and an expired back-off all lead to the same action,
Rebalance. Only the back-off counts as a try. After rebalance.max.retries tries the member is DEGRADED: it reports that
and keeps trying, at most once in LEAST_PAUSE_MS.

A lost connection does not change the phase: the machine attempts nothing while `connected` is false. If the connection
is away long enough for ZooKeeper to have expired the session, delivery is paused. When the connection is back with
the same session, delivery continues and the group is read again, because watches may have been missed. When the session
has expired, all owned partitions are lost: their buffers are dropped, and nothing more is committed for them.

A member that leaves waits for ZooKeeper in the same way and tries again, until the time for leaving in order is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product
from typing import TypeAlias

from rebalance.absence import GroupMemory
from rebalance.actions import (
    Action,
    CancelTimer,
    DropOwnership,
    ForgetGroup,
    GuardOwnership,
    Leave,
    PauseDelivery,
    Rebalance,
    Register,
    ResumeDelivery,
    StartTimer,
)
from rebalance.events import (
    Answered,
    Blocked,
    CloseRequested,
    Connected,
    Deregistered,
    Doubted,
    Drained,
    Draining,
    Event,
    Expired,
    Failed,
    GroupNoted,
    IdTaken,
    Left,
    Overtaken,
    Reconnected,
    Refused,
    Registered,
    RegistrationBlocked,
    SessionStarted,
    Settled,
    Started,
    Suspended,
    Timer,
    Triggered,
    Unanswered,
    Unblocked,
)
from zk_layout.errors import LegacyConsumerError


class Phase(Enum):
    """The phases of a member."""

    CREATED = "created"
    JOINING = "joining"
    """It registers, or waits for the session that holds its id."""
    GATHERING = "gathering"
    """It is registered for the first time, and others that start at the same time may join before it claims."""
    REBALANCING = "rebalancing"
    DRAINING = "draining"
    """The user's code has messages in hand of partitions that the member must release."""
    WAITING = "waiting"
    """Another client's owner znode is in the way, or the last attempt failed."""
    DEGRADED = "degraded"
    """Shown of a member whose tries are used up, until it is STABLE; MemberState.phase keeps its phase meanwhile."""
    STABLE = "stable"
    EXPIRED = "expired"
    LEAVING = "leaving"
    CLOSED = "closed"


_TRYING = frozenset({Phase.JOINING, Phase.GATHERING, Phase.REBALANCING, Phase.DRAINING, Phase.WAITING})


@dataclass(frozen=True, slots=True)
class MemberState:
    """The whole memory of the machine.

    session_id: the last session that the machine knows, in which the member claimed all that it owns.
    paused: delivery is paused, because the connection has been lost for long. refusal: ZooKeeper's refusal of the
    credentials, after which there is no session any more.
    gathered: the first claim has waited for others. missed: the list of members did not show me, in this session.
    tries: back-offs that ran out since the member was last settled. degraded: the tries were used up since then.
    obstacle: the error that kept the last attempt from success.
    backing_off, draining: the timer BACKOFF, or DRAIN, runs; later events do not prolong it.
    awaits: the last rebalance ended in Unanswered.
    overdue: drain.timeout.ms ran out for the partitions to release. doubted: owner znodes of mine may be gone.
    looks: how many readings in a row the group changed while the member read it.
    memory: the members at earlier readings, for the wait for absent ones. The timer ABSENCE runs during that wait.
    """

    phase: Phase = Phase.CREATED
    session_id: int = 0
    connected: bool = True
    paused: bool = False
    refusal: LegacyConsumerError | None = None
    gathered: bool = False
    missed: bool = False
    tries: int = 0
    degraded: bool = False
    obstacle: LegacyConsumerError | None = None
    backing_off: bool = False
    draining: bool = False
    awaits: bool = False
    overdue: bool = False
    doubted: bool = False
    looks: int = 0
    memory: GroupMemory = field(default_factory=GroupMemory)

    @property
    def shown(self) -> Phase:
        """The phase to report: a degraded member stays DEGRADED while it tries again."""
        return Phase.DEGRADED if self.degraded and self.phase in _TRYING else self.phase


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that decisions depend on; milliseconds.

    suspicion_ms: how long without a connection until delivery is paused.
    gather_ms: how long the first claim waits for others to join; 0 = not.
    absence_ms: how long the partitions of members that left wait for them, or for others in their place; 0 = not.
    """

    max_retries: int
    backoff_ms: int
    suspicion_ms: int
    drain_timeout_ms: int
    gather_ms: int = 0
    absence_ms: int = 0


Step: TypeAlias = tuple[MemberState, tuple[Action, ...]]
Kind: TypeAlias = type[Event] | Timer

LEAST_PAUSE_MS = 1000
"""The least pause between two tries, once rebalance.max.retries are used up or while the member leaves.

rebalance.backoff.ms may be 0.
"""
QUIET_MS = 1000
"""How long a member stays settled before it watches its owner znodes: it saves requests while others still join."""
MOST_LOOKS = 10
"""The most readings in a row during which the group changes; the member acts on the last of them all the same."""


def step(state: MemberState, event: Event, policy: Policy) -> Step:
    """Return the next state, and the actions for an event."""
    if state.phase is Phase.CLOSED:
        return state, ()
    if isinstance(event, Connected):
        if event.session_id != state.session_id:
            event = SessionStarted(event.session_id)
        elif not state.connected:
            event = Reconnected()
    noted, actions = _note(state, event, policy)
    rows = _ROWS.get((state.phase, _kind(event)), [])
    row = next((row for row in rows if row.only_if is None or row.only_if.holds(noted, policy)), None)
    if row is None or (row.do is _reconcile and not noted.connected):
        return noted, actions
    after, more = row.do(replace(noted, phase=row.to), event, policy)
    return after, (*actions, *more)


def _kind(event: Event) -> Kind:
    return event if isinstance(event, Timer) else type(event)


def _note(state: MemberState, event: Event, policy: Policy) -> Step:
    """Return what an event changes in every phase, and the actions that follow from it in every phase."""
    match event:
        case Suspended() if state.connected:
            suspicion = StartTimer(Timer.SUSPICION, policy.suspicion_ms, event.since_s)
            return replace(state, connected=False), (suspicion,)
        case Timer.SUSPICION if not state.connected and not state.paused:
            return replace(state, paused=True), (PauseDelivery(),)
        case Reconnected():
            resume = (ResumeDelivery(),) if state.paused else ()
            back = replace(state, connected=True, paused=False, doubted=True)
            return back, (CancelTimer(Timer.SUSPICION), ForgetGroup(), *resume)
        case SessionStarted():
            return replace(state, session_id=event.session_id, connected=True, refusal=None), ()
        case Refused():
            return replace(state, refusal=event.error), ()
        case Doubted():
            return replace(state, doubted=True), ()
        case Timer.BACKOFF:
            return replace(state, tries=state.tries + 1, backing_off=False), ()
        case Timer.DRAIN:
            return replace(state, draining=False, overdue=True), ()
        case Registered():
            return replace(state, missed=False), ()
        case RegistrationBlocked() | IdTaken():
            return replace(state, obstacle=None), ()
        case Unanswered():
            return replace(state, awaits=True, looks=0), ()
        case Overtaken():
            return replace(state, awaits=False, doubted=False, looks=state.looks + 1), ()
        case Failed():
            # a leaving member waits for messages in hand once; a failed request does not begin that wait again
            overdue = state.overdue and state.phase is Phase.LEAVING
            return replace(state, obstacle=event.error, awaits=False, overdue=overdue, looks=0), ()
        case Blocked():
            return replace(state, obstacle=event.error, awaits=False, overdue=False, doubted=False, looks=0), ()
        case Deregistered():
            return replace(state, missed=True, awaits=False, overdue=False, doubted=False, looks=0), ()
        case GroupNoted():
            noted = replace(state, memory=event.memory)
            if state.memory.is_waiting == event.memory.is_waiting:
                return noted, ()
            # a later departure does not prolong the wait
            begins = StartTimer(Timer.ABSENCE, policy.absence_ms)
            return noted, (begins if event.memory.is_waiting else CancelTimer(Timer.ABSENCE),)
        case Timer.ABSENCE:
            return replace(state, memory=state.memory.after_the_wait()), ()
        case Settled() | Draining():
            return replace(state, awaits=False, overdue=False, doubted=False, looks=0), ()
        case _:
            return state, ()


# Each of these functions returns the state and the actions on the way into a phase.


def _register(state: MemberState, _event: Event, _policy: Policy) -> Step:
    return state, ((Register(),) if state.connected else ())


def _gather(state: MemberState, _event: Event, policy: Policy) -> Step:
    ready = replace(state, gathered=True, tries=0, backing_off=False)
    return ready, (CancelTimer(Timer.BACKOFF), StartTimer(Timer.GATHER, policy.gather_ms))


def _begin(state: MemberState, event: Event, policy: Policy) -> Step:
    after, actions = _reconcile(replace(state, gathered=True, tries=0, backing_off=False), event, policy)
    return after, (CancelTimer(Timer.BACKOFF), *actions)


def _reconcile(state: MemberState, _event: Event, _policy: Policy) -> Step:
    return state, (
        Rebalance(
            final=state.overdue,
            leaving=state.phase is Phase.LEAVING,
            doubtful=state.doubted,
            last_look=state.looks >= MOST_LOOKS - 1,
            memory=state.memory,
        ),
    )


def _wait_for_news(state: MemberState, _event: Event, _policy: Policy) -> Step:
    return state, ()


def _back_off(state: MemberState, _event: Event, policy: Policy) -> Step:
    """Wait for the obstacle to go, or for the back-off; when the tries are used up, say so and go on trying."""
    exhausted = state.tries >= policy.max_retries
    least_ms = LEAST_PAUSE_MS if exhausted else 0
    timer = StartTimer(Timer.BACKOFF, max(policy.backoff_ms, least_ms))
    waiting = replace(state, backing_off=True, degraded=state.degraded or exhausted)
    return waiting, (() if state.backing_off else (timer,))


def _drain(state: MemberState, _event: Event, policy: Policy) -> Step:
    timer = StartTimer(Timer.DRAIN, policy.drain_timeout_ms)
    return replace(state, draining=True), (() if state.draining else (timer,))


def _await_answer(state: MemberState, event: Event, _policy: Policy) -> Step:
    wait_ms = event.wait_ms if isinstance(event, Unanswered) else 0
    # the wait for messages in hand is over, and the next release has one of its own; a member that leaves has only one
    overdue = state.overdue and state.phase is Phase.LEAVING
    calm = replace(state, overdue=overdue, backing_off=False, draining=False)
    return calm, (CancelTimer(Timer.BACKOFF), CancelTimer(Timer.DRAIN), StartTimer(Timer.ANSWER, wait_ms))


def _rest(state: MemberState, _event: Event, _policy: Policy) -> Step:
    calm = replace(state, tries=0, degraded=False, obstacle=None, backing_off=False, draining=False)
    return calm, (
        CancelTimer(Timer.BACKOFF),
        CancelTimer(Timer.DRAIN),
        StartTimer(Timer.QUIET, QUIET_MS),
    )


def _guard(state: MemberState, _event: Event, _policy: Policy) -> Step:
    return state, ((GuardOwnership(),) if state.connected else ())


def _begin_leaving(state: MemberState, event: Event, policy: Policy) -> Step:
    timeout_ms = event.timeout_ms if isinstance(event, CloseRequested) else 0
    leaving = replace(state, backing_off=False, draining=False, overdue=False)
    # without a connection SUSPICION runs on, because the connection may come back in time for a last commit
    cancel = tuple(CancelTimer(name) for name in Timer if name is not Timer.SUSPICION)
    begun: tuple[Action, ...] = (*cancel, StartTimer(Timer.CLOSE, timeout_ms))
    if state.connected:
        return leaving, (*begun, *_reconcile(leaving, event, policy)[1])
    # messages handed out now could not be committed if ZooKeeper stays away, and would come again
    return replace(leaving, paused=True), (*begun, PauseDelivery())


def _hurry(state: MemberState, event: Event, _policy: Policy) -> Step:
    timeout_ms = event.timeout_ms if isinstance(event, CloseRequested) else 0
    return state, (StartTimer(Timer.CLOSE, timeout_ms, no_later=True),)


def _try_again_to_leave(state: MemberState, _event: Event, _policy: Policy) -> Step:
    timer = StartTimer(Timer.BACKOFF, LEAST_PAUSE_MS)
    return replace(state, backing_off=True), (() if state.backing_off else (timer,))


def _give_back(state: MemberState, _event: Event, _policy: Policy) -> Step:
    return state, (Leave(),)


def _be_gone(state: MemberState, _event: Event, _policy: Policy) -> Step:
    return state, _CANCEL_ALL


def _leave(state: MemberState, _event: Event, _policy: Policy) -> Step:
    return state, (*_CANCEL_ALL, Leave())


def _lose_and_leave(state: MemberState, _event: Event, _policy: Policy) -> Step:
    """Leave after the session has ended: all partitions are lost, so release and commit nothing."""
    return state, (DropOwnership(), *_CANCEL_ALL, Leave())


def _lose(state: MemberState, _event: Event, _policy: Policy) -> Step:
    actions: tuple[Action, ...] = (DropOwnership(), ForgetGroup(), *_CANCEL_ALL_OF_SESSION)
    return replace(_in_another_session(state), connected=False), actions


def _begin_anew(state: MemberState, _event: Event, _policy: Policy) -> Step:
    return _in_another_session(state), (ResumeDelivery(), Register())


def _lose_and_begin_anew(state: MemberState, event: Event, policy: Policy) -> Step:
    """Lose everything and register: the last session has ended without an Expired event."""
    _, lost = _lose(state, event, policy)
    after, begun = _begin_anew(state, event, policy)
    return after, (*lost, *begun)


def _in_another_session(state: MemberState) -> MemberState:
    """Return the part of the state that outlives a session."""
    return MemberState(
        phase=state.phase,
        session_id=state.session_id,
        connected=state.connected,
        refusal=state.refusal,
        gathered=state.gathered,
        degraded=state.degraded,
        obstacle=state.obstacle,
        memory=state.memory,
    )


_CANCEL_ALL = tuple(CancelTimer(name) for name in Timer)
_CANCEL_ALL_OF_SESSION = tuple(CancelTimer(name) for name in Timer if name is not Timer.ABSENCE)


@dataclass(frozen=True, slots=True)
class Condition:
    """Decides whether a row counts. words: for the diagram."""

    words: str
    holds: Callable[[MemberState, Policy], bool]


@dataclass(frozen=True, slots=True)
class Row:
    """Each of these events, in each of these phases, leads to the phase `to`; `do` returns the actions."""

    phases: tuple[Phase, ...]
    events: tuple[Kind, ...]
    to: Phase
    do: Callable[[MemberState, Event, Policy], Step]
    only_if: Condition | None = None
    """Of two rows for one phase and event, the first whose condition holds counts. If none holds, the phase stays."""


REGISTERED = (Phase.REBALANCING, Phase.DRAINING, Phase.WAITING, Phase.STABLE)
"""The phases in which any change of the group leads to Rebalance."""
_JOINED = (Phase.JOINING, Phase.GATHERING, *REGISTERED)
_OPEN = (Phase.CREATED, *_JOINED, Phase.EXPIRED, Phase.LEAVING)

_OTHERS_MAY_JOIN = Condition(
    "others may join before it claims", lambda state, policy: policy.gather_ms > 0 and not state.gathered
)
_MISSED = Condition("its id znode was deleted", lambda state, _policy: state.missed)
"""Another client deleted it; the member may still own partitions."""
_AWAITED = Condition("the rebalance awaits it", lambda state, _policy: state.awaits)
"""Answered also comes for a hook that returns before the rebalance asks, or later than the rebalance waits."""

# fmt: off
TABLE = (
    Row((Phase.CREATED,), (Started,), Phase.JOINING, _register),

    Row((Phase.JOINING,), (Reconnected, Unblocked, Timer.BACKOFF), Phase.JOINING, _register),
    Row((Phase.JOINING,), (RegistrationBlocked, Failed), Phase.JOINING, _back_off),
    Row((Phase.JOINING,), (IdTaken,), Phase.REBALANCING, _reconcile),
    Row((Phase.JOINING,), (Registered,), Phase.GATHERING, _gather, _OTHERS_MAY_JOIN),
    Row((Phase.JOINING,), (Registered,), Phase.REBALANCING, _begin),

    Row((Phase.GATHERING,), (Timer.GATHER, Reconnected), Phase.REBALANCING, _reconcile),

    Row((Phase.REBALANCING,), (Settled,), Phase.STABLE, _rest),
    Row((Phase.REBALANCING,), (Draining,), Phase.DRAINING, _drain),
    Row((Phase.REBALANCING,), (Unanswered,), Phase.REBALANCING, _await_answer),
    Row((Phase.REBALANCING,), (Blocked, Failed), Phase.WAITING, _back_off),
    Row((Phase.REBALANCING,), (Overtaken,), Phase.REBALANCING, _wait_for_news),
    Row((Phase.REBALANCING,), (Deregistered,), Phase.JOINING, _register),

    Row(REGISTERED, (Triggered, Drained, Timer.DRAIN, Unblocked, Timer.BACKOFF, Timer.ABSENCE, Doubted, Reconnected),
        Phase.REBALANCING, _reconcile),
    Row((Phase.REBALANCING,), (Answered, Timer.ANSWER), Phase.REBALANCING, _reconcile, _AWAITED),
    Row((Phase.STABLE,), (Timer.QUIET,), Phase.STABLE, _guard),

    Row(_JOINED, (Expired, Refused), Phase.EXPIRED, _lose),
    Row(_JOINED, (SessionStarted,), Phase.JOINING, _lose_and_begin_anew),
    Row((Phase.EXPIRED,), (SessionStarted,), Phase.JOINING, _begin_anew),

    Row(REGISTERED, (CloseRequested,), Phase.LEAVING, _begin_leaving),
    Row((Phase.LEAVING,), (CloseRequested,), Phase.LEAVING, _hurry),
    Row((Phase.LEAVING,), (Overtaken,), Phase.LEAVING, _wait_for_news),
    Row((Phase.LEAVING,), (Draining,), Phase.LEAVING, _drain),
    Row((Phase.LEAVING,), (Unanswered,), Phase.LEAVING, _await_answer),
    Row((Phase.LEAVING,), (Failed,), Phase.LEAVING, _try_again_to_leave),
    Row((Phase.LEAVING,), (Triggered, Drained, Timer.DRAIN, Timer.BACKOFF, Doubted, Reconnected, Registered),
        Phase.LEAVING, _reconcile),
    Row((Phase.LEAVING,), (Answered, Timer.ANSWER), Phase.LEAVING, _reconcile, _AWAITED),
    Row((Phase.LEAVING,), (Deregistered,), Phase.LEAVING, _register),
    Row((Phase.LEAVING,), (RegistrationBlocked,), Phase.CLOSED, _leave),
    Row((Phase.LEAVING,), (Settled, IdTaken), Phase.LEAVING, _give_back),
    Row((Phase.LEAVING,), (Left,), Phase.CLOSED, _be_gone),
    Row((Phase.LEAVING,), (Expired, Refused, SessionStarted), Phase.CLOSED, _lose_and_leave),

    Row((Phase.JOINING,), (CloseRequested,), Phase.LEAVING, _begin_leaving, _MISSED),
    Row((Phase.CREATED, Phase.JOINING, Phase.GATHERING, Phase.EXPIRED), (CloseRequested,), Phase.CLOSED, _leave),
    Row(_OPEN, (Timer.CLOSE,), Phase.CLOSED, _leave),
)
# fmt: on

_ROWS: dict[tuple[Phase, Kind], list[Row]] = {}
for _row in TABLE:
    for _key in product(_row.phases, _row.events):
        _ROWS.setdefault(_key, []).append(_row)


def draw() -> str:
    """The table as a mermaid state diagram, for docs/architecture.md."""
    labels: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, kind), rows in _ROWS.items():
        for row in rows:
            name = f"{kind.value} over" if isinstance(kind, Timer) else kind.__name__
            condition = f" ({row.only_if.words})" if row.only_if is not None else ""
            labels.setdefault((phase, row.to), []).append(name + condition)
    arrows = (f"    {phase.value} --> {to.value}: {', '.join(names)}" for (phase, to), names in labels.items())
    return "\n".join(["stateDiagram-v2", "    [*] --> created", *arrows])
