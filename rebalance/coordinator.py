"""One thread, one queue: takes an event, asks the machine what it means, and carries the actions out.

Callbacks of ZooKeeper and of streams only enqueue. Everything that is decided about the group is decided here, one
thing after another, so nothing here needs a lock but the queue. Triggers that pile up while something is carried out
are one event by the time it is their turn.

The thread is not part of the thinking: `turn()` handles what is due now and says when to call again, so a simulation
can drive a coordinator without a thread and with a clock of its own.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from rebalance.clock import Clock, SystemClock
from rebalance.delivery import Delivery
from rebalance.errors import (
    ConsumerRebalanceFailedError,
    PartitionOwnedError,
    RebalanceError,
    RegistrationConflictError,
)
from rebalance.machine import (
    Action,
    Announce,
    BackoffExpired,
    Blocked,
    CancelTimer,
    CloseExpired,
    CloseRequested,
    Deregistered,
    DrainExpired,
    Draining,
    DropOwnership,
    Event,
    Expired,
    Failed,
    ForgetGroup,
    Leave,
    MemberState,
    PauseDelivery,
    Phase,
    Policy,
    Rebalance,
    Reconnected,
    Register,
    Registered,
    RegistrationBlocked,
    ResumeDelivery,
    SessionStarted,
    Settled,
    Started,
    StartTimer,
    Suspended,
    SuspicionExpired,
    TimerName,
    Triggered,
    Unblocked,
    step,
)
from rebalance.ownership import Ownership
from rebalance.plan import make_plan, owned_by
from rebalance.reader import GroupReader
from rebalance.registrar import Registrar
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.errors import LegacyConsumerError, ZooKeeperError
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.store import SessionEvent, SessionKind, WatchEvent, ZkStore

if sys.version_info >= (3, 11):
    from typing import assert_never
else:
    from typing_extensions import assert_never

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """What a member says of itself.

    phase: see rebalance.machine. settled_at_ms: when it last became STABLE, 0 = never. error: the last one, while it
    matters. owned: its partitions. rebalances: how many ended in STABLE.
    """

    phase: Phase
    owned: Mapping[TopicPartition, ConsumerThreadId] = field(default_factory=dict)
    settled_at_ms: int = 0
    rebalances: int = 0
    error: LegacyConsumerError | None = None


@dataclass(frozen=True, slots=True)
class Periods:
    """What the coordinator does from time to time, in milliseconds; 0 = never."""

    commit_ms: int
    audit_ms: int


class Period(Enum):
    """What comes round again and again, beside the machine's timers."""

    COMMIT = "commit"
    AUDIT = "audit"


class Coordinator:
    """Keeps one member's share of a group."""

    def __init__(
        self,
        *,
        store: ZkStore,
        registrar: Registrar,
        ownership: Ownership,
        delivery: Delivery,
        assign: Callable[[GroupSnapshot], Assignment],
        exclude_internal_topics: bool,
        policy: Policy,
        periods: Periods,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._registrar = registrar
        self._ownership = ownership
        self._delivery = delivery
        self._assign = assign
        self._policy = policy
        self._periods = periods
        self._clock = clock or SystemClock()
        self._reader = GroupReader(
            store, registrar.group, exclude_internal_topics=exclude_internal_topics, on_change=self.post
        )
        self._name = registrar.consumer_id
        self._state = MemberState()
        self._status = Status(Phase.CREATED)
        self._inbox: deque[Event | WatchEvent | SessionEvent] = deque()
        self._inbox_lock = threading.Lock()
        self._bell = threading.Event()
        self._due: dict[TimerName | Period, float] = {}
        self._began: dict[TopicPartition, ConsumerThreadId] = {}
        self._stopped: set[TopicPartition] = set()
        self._assignment: tuple[GroupSnapshot, Assignment] | None = None
        self._announced: Assignment | None = None
        self._rebalance_began: float | None = None
        self._session_id = 0
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    # What others call, from any thread.

    @property
    def status(self) -> Status:
        """The member's state now."""
        return self._status

    @property
    def is_closed(self) -> bool:
        """Whether the member has left for good."""
        return self._state.phase is Phase.CLOSED

    def start(self) -> None:
        """Join the group; the store is connected already. Twice is harmless."""
        if self._thread is None:
            self.open()
            self._thread = threading.Thread(target=self._run, name=f"{self._name}-coordinator", daemon=True)
            self._thread.start()

    def open(self) -> None:
        """As start, without the thread: the caller takes the turns."""
        self._session_id = self._store.session_id
        self._store.add_session_listener(self.post)
        self._every(Period.COMMIT, self._periods.commit_ms)
        self._every(Period.AUDIT, self._periods.audit_ms)
        self.post(Started())

    def post(self, event: Event | WatchEvent | SessionEvent) -> None:
        """Enqueue and return; callbacks do nothing else. All but session events say "look again", so wait only once."""
        with self._inbox_lock:
            if isinstance(event, SessionEvent) or event not in self._inbox:
                self._inbox.append(event)
        self._bell.set()

    def wait_until(self, reached: Callable[[Status], bool], timeout_s: float) -> bool:
        """Wait until the status is as wanted, at most timeout_s; True if it is."""
        with self._changed:
            return self._changed.wait_for(lambda: reached(self._status), timeout_s)

    def close(self, timeout_s: float) -> None:
        """Leave the group in order within timeout_s, in haste after it. From any thread, twice is harmless."""
        self.post(CloseRequested(round(timeout_s * 1000)))
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            # ZooKeeper's own time limit on one request bounds what may still be under way
            thread.join(timeout_s + 5 + self._store.session_timeout_ms / 1000)
        self._store.remove_session_listener(self.post)

    # The coordinator's own thread from here on.

    def _run(self) -> None:
        logger.info("%s: joins group %s", self._name, self._registrar.group)
        while not self.is_closed:
            wait_s = self.turn()
            if wait_s > 0 and not self.is_closed:
                self._clock.wait(self._bell, wait_s)

    def turn(self) -> float:
        """Handle one event or one timer that is due; the seconds until there is something to do, 0 = at once."""
        self._bell.clear()
        events = self._next_events()
        if events:
            self._take(events)
            return 0.0
        now = self._clock.monotonic()
        due = min(self._due.items(), key=lambda item: item[1], default=None)
        if due is None:
            return 3600.0
        name, at = due
        if at > now:
            return at - now
        del self._due[name]
        match name:
            case TimerName():
                self._handle(_TIMER_EVENTS[name])
            case Period.COMMIT:
                self._commit()
                self._every(name, self._periods.commit_ms)
            case Period.AUDIT:
                self._audit()
                self._every(name, self._periods.audit_ms)
            case _:
                assert_never(name)
        return 0.0

    def _every(self, what: Period, period_ms: int) -> None:
        if period_ms > 0:
            self._due[what] = self._clock.monotonic() + period_ms / 1000

    def _next_events(self) -> list[Event | WatchEvent | SessionEvent]:
        """The first event waiting; if a watch fired, all watch events waiting: together one reason to look again."""
        with self._inbox_lock:
            if not self._inbox:
                return []
            if not isinstance(self._inbox[0], WatchEvent):
                return [self._inbox.popleft()]
            fired = [event for event in self._inbox if isinstance(event, WatchEvent)]
            self._inbox = deque(event for event in self._inbox if not isinstance(event, WatchEvent))
            return list(fired)

    def _take(self, events: list[Event | WatchEvent | SessionEvent]) -> None:
        reasons: list[str] = []
        for event in events:
            match event:
                case WatchEvent():
                    reasons.append(self._reader.notice(event))
                case SessionEvent():
                    self._session(event)
                case _:
                    self._handle(event)
        if reasons:
            self._handle(Triggered(", ".join(sorted(set(reasons)))))

    def _session(self, event: SessionEvent) -> None:
        match event.kind:
            case SessionKind.SUSPENDED:
                logger.warning("%s: connection to ZooKeeper lost", self._name)
                self._handle(Suspended())
            case SessionKind.EXPIRED:
                logger.warning("%s: session 0x%x expired", self._name, self._session_id)
                self._handle(Expired())
            case SessionKind.CONNECTED if event.session_id == self._session_id:
                self._handle(Reconnected())
            case SessionKind.CONNECTED:
                logger.info("%s: session 0x%x", self._name, event.session_id)
                # a session that ended unheard ended all the same
                self._handle(Expired())
                self._session_id = event.session_id
                self._handle(SessionStarted())
            case SessionKind.AUTH_FAILED:
                logger.error("%s: ZooKeeper refuses the credentials", self._name)
                self._handle(Expired())

    def _handle(self, event: Event) -> None:
        """Step, carry out, and step again with what that led to."""
        following: Event | None = event
        while following is not None:
            before = self._state.phase
            self._state, actions = step(self._state, following, self._policy)
            if self._state.phase is not before:
                logger.debug("%s: %s: %s -> %s", self._name, following, before.value, self._state.phase.value)
            if isinstance(following, Settled) and self._state.phase is Phase.STABLE:
                self._note_settled()
            self._publish()
            following = None
            for action in actions:
                following = self._carry_out(action) or following

    def _carry_out(self, action: Action) -> Event | None:
        match action:
            case Register():
                return self._register()
            case Rebalance():
                return self._rebalance(action)
            case StartTimer():
                self._due[action.name] = self._clock.monotonic() + action.delay_ms / 1000
            case CancelTimer():
                self._due.pop(action.name, None)
            case PauseDelivery():
                logger.warning("%s: hands out no messages until ZooKeeper answers again", self._name)
                self._delivery.pause()
            case ResumeDelivery():
                self._delivery.resume()
            case DropOwnership():
                self._delivery.drop(list(self._began))
                self._ownership.forget()
                self._began.clear()
                self._stopped.clear()
            case ForgetGroup():
                self._reader.forget()
            case Announce():
                self._announce(action)
            case Leave():
                self._leave()
            case _:
                assert_never(action)
        return None

    def _register(self) -> Event:
        try:
            self._ownership.begin_session(self._session_id)
            if self._registrar.register(self._session_id, lambda _: self.post(Unblocked())):
                self._reader.forget_members()
                return Registered()
        except LegacyConsumerError as error:
            return Failed(error)
        return RegistrationBlocked()

    def _rebalance(self, action: Rebalance) -> Event:
        if self._rebalance_began is None:
            self._rebalance_began = self._clock.monotonic()
        try:
            return self._reconcile(action)
        except PartitionOwnedError as error:
            logger.debug("%s: %s", self._name, error)
            try:
                if not self._ownership.watch_obstacles(error.owners, lambda _: self.post(Unblocked())):
                    self.post(Unblocked())
            except ZooKeeperError as failure:
                return Failed(failure)
            self._status = _with_error(self._status, error)
            return Blocked()
        except LegacyConsumerError as error:
            logger.warning("%s: rebalance attempt failed: %s", self._name, error)
            return Failed(error)
        except Exception as error:
            # a defect must not leave a member that is registered and thinks no more
            logger.exception("%s: rebalance attempt failed", self._name)
            msg = f"{type(error).__name__}: {error}"
            return Failed(RebalanceError(msg))

    def _reconcile(self, action: Rebalance) -> Event:
        """One look at the group and the next steps towards what should be mine."""
        self._ownership.resolve_doubts()
        if not action.leaving and not self._is_member():
            logger.warning("%s: my id znode is gone, I register again", self._name)
            return Deregistered()
        assignment: Assignment = {} if action.leaving else self._group_assignment()
        share = {} if action.leaving else owned_by(assignment, self._name)
        plan = make_plan(self._ownership.owned, share)

        back = self._stopped & plan.keep.keys()
        if back:
            self._delivery.go_on(back)
            self._stopped -= back
        if plan.release:
            going = plan.release.keys()
            self._delivery.stop(going - self._stopped)
            self._stopped |= going
            in_hand = self._delivery.undrained([tp for tp in going if tp in self._began])
            if in_hand and not action.final:
                return Draining()
            if in_hand:
                logger.warning(
                    "%s: drain.timeout.ms passed with messages of %d partitions in hand; they will be delivered again",
                    self._name,
                    len(in_hand),
                )
            self._delivery.end([tp for tp in going if tp in self._began])
            for tp in going:
                self._began.pop(tp, None)
            self._stopped -= going
            if not action.leaving:
                self._ownership.release(going)
        if action.leaving:
            return Settled()
        if plan.claim:
            self._ownership.claim(plan.claim)
        fresh = {tp: thread for tp, thread in self._ownership.owned.items() if self._began.get(tp) != thread}
        if fresh or assignment != self._announced:
            self._delivery.begin(fresh, assignment)
            self._began.update(fresh)
            self._announced = assignment
        self._log_outcome(len(plan.keep), len(plan.release), len(plan.claim))
        return Settled()

    def _is_member(self) -> bool:
        snapshot = self._reader.read()
        if self._name in snapshot.unreadable:
            raise RebalanceError(f"my own registration is unreadable: {snapshot.unreadable[self._name]}")
        return self._name in snapshot.members

    def _group_assignment(self) -> Assignment:
        snapshot = self._reader.read()
        if self._assignment is None or self._assignment[0] is not snapshot:
            self._assignment = (snapshot, self._assign(snapshot))
        return self._assignment[1]

    def _log_outcome(self, kept: int, released: int, claimed: int) -> None:
        if released or claimed:
            logger.info(
                "%s: rebalanced in %.0f ms: kept %d, released %d, claimed %d of group %s with %d members",
                self._name,
                (self._clock.monotonic() - (self._rebalance_began or self._clock.monotonic())) * 1000,
                kept,
                released,
                claimed,
                self._registrar.group,
                len(self._assignment[0].members) if self._assignment else 0,
            )

    def _note_settled(self) -> None:
        self._rebalance_began = None
        self._status = Status(
            phase=Phase.STABLE,
            settled_at_ms=self._clock.wall_ms(),
            rebalances=self._status.rebalances + 1,
        )

    def _announce(self, action: Announce) -> None:
        match action.phase:
            case Phase.DEGRADED:
                last = action.error or self._status.error
                if last is None:
                    last = RegistrationConflictError(self._registrar.path, self._state.tries * self._policy.backoff_ms)
                failed = ConsumerRebalanceFailedError(self._name, self._state.tries, str(last))
                logger.error("%s: DEGRADED, goes on trying: %s", self._name, failed)
                action = Announce(action.phase, failed)
            case Phase.EXPIRED:
                logger.warning("%s: owns nothing until it has a new session", self._name)
            case Phase.CLOSED:
                logger.info("%s: left group %s", self._name, self._registrar.group)
            case _:
                pass
        if action.error is not None:
            self._status = _with_error(self._status, action.error)
        self._publish()

    def _leave(self) -> None:
        if not self._state.connected:
            logger.warning("%s: leaves without a connection, so without a last commit", self._name)
            self._delivery.drop(list(self._began))
            self._ownership.forget()
            return
        try:
            if self._began:
                # in haste: not waited for, not drained, but what is known to be consumed is committed
                self._delivery.stop(self._began)
                self._delivery.end(list(self._began))
                self._began.clear()
        except LegacyConsumerError as error:
            logger.warning("%s: last commit failed: %s", self._name, error)
        try:
            self._ownership.leave()
        except LegacyConsumerError as error:
            logger.info("%s: the session's end will remove what leaving could not: %s", self._name, error)

    def _commit(self) -> None:
        if self._state.phase in (Phase.EXPIRED, Phase.CLOSED) or not self._state.connected:
            return
        try:
            self._delivery.commit()
        except LegacyConsumerError as error:
            logger.warning(
                "%s: auto commit failed, tried again in %d ms: %s", self._name, self._periods.commit_ms, error
            )

    def _audit(self) -> None:
        """Hold what ZooKeeper shows against what I believe; a JVM member may have deleted an owner znode of mine."""
        if self._state.phase is not Phase.STABLE or not self._state.connected:
            return
        try:
            lost = self._ownership.lost()
        except LegacyConsumerError as error:
            logger.info("%s: audit failed: %s", self._name, error)
            return
        if lost:
            logger.warning("%s: lost the owner znodes of %s", self._name, ", ".join(map(str, sorted(lost)[:5])))
            self._delivery.drop(lost)
            for tp in lost:
                self._began.pop(tp, None)
            self._stopped -= lost
            self._handle(Triggered("owner znodes lost"))

    def _publish(self) -> None:
        with self._changed:
            self._status = Status(
                phase=self._state.phase,
                owned=dict(self._ownership.owned),
                settled_at_ms=self._status.settled_at_ms,
                rebalances=self._status.rebalances,
                error=None if self._state.phase is Phase.STABLE else self._status.error,
            )
            self._changed.notify_all()


_TIMER_EVENTS: Mapping[TimerName, Event] = {
    TimerName.BACKOFF: BackoffExpired(),
    TimerName.DRAIN: DrainExpired(),
    TimerName.SUSPICION: SuspicionExpired(),
    TimerName.CLOSE: CloseExpired(),
}


def _with_error(status: Status, error: LegacyConsumerError) -> Status:
    return Status(status.phase, status.owned, status.settled_at_ms, status.rebalances, error)
