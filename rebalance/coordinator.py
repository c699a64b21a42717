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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from rebalance.clock import Clock, SystemClock
from rebalance.counters import MemberCounters, Vitals
from rebalance.delivery import Delivery
from rebalance.errors import (
    ConsumerRebalanceFailedError,
    PartitionOwnedError,
    RebalanceError,
    RegistrationConflictError,
    UnexpectedError,
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
    Doubted,
    DoubtOwnership,
    DrainExpired,
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
from rebalance.mailbox import Errand, Mail, Mailbox, Period
from rebalance.ownership import Ownership
from rebalance.patience import Patience
from rebalance.reader import GroupReader
from rebalance.reconciler import Reconciler
from rebalance.registrar import Registrar
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.errors import AuthenticationError, LegacyConsumerError, SessionExpiredError
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.store import SessionEvent, SessionKind, WatchEvent, WatchKind, ZkStore

if sys.version_info >= (3, 11):
    from typing import assert_never
else:
    from typing_extensions import assert_never

logger = logging.getLogger(__name__)

_HASTE_S = 2.0
"""For leaving in haste, when the time for leaving in order is over."""
_QUIET_MS = 1000
"""How long a member has been settled before it watches its owner znodes: not while a group comes together."""


@dataclass(frozen=True, slots=True)
class Status:
    """What a member says of itself.

    phase: see rebalance.machine. settled_at_ms: when it last became STABLE, 0 = never. error: the last one, while it
    matters. owned: its partitions. rebalances: how many ended in STABLE. held: of what is owned, what hands out nothing
    while an operator resets its offsets. brokers: the ids of those that are registered, as last seen.
    """

    phase: Phase
    owned: Mapping[TopicPartition, ConsumerThreadId] = field(default_factory=dict)
    settled_at_ms: int = 0
    rebalances: int = 0
    error: LegacyConsumerError | None = None
    held: frozenset[TopicPartition] = frozenset()
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Periods:
    """What the coordinator does from time to time, in milliseconds; 0 = never."""

    commit_ms: int
    audit_ms: int
    gather_ms: int = 0
    """Not from time to time but once: how long the first claim waits for others to join."""
    absence_ms: int = 0
    """Not from time to time either: how long what members had that left waits for them, or others in their place."""


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
        self._policy = policy
        self._periods = periods
        self._gathers = periods.gather_ms > 0
        self._gathering_in: int | None = None
        self._clock = clock or SystemClock()
        self._mailbox = Mailbox(self._clock)
        self._reader = GroupReader(
            store, registrar.group, exclude_internal_topics=exclude_internal_topics, on_change=self.post
        )
        self._name = registrar.consumer_id
        self._patience = Patience(self._name, store, assign, self._clock, periods.absence_ms, self._hear_impatience)
        self._reconciler = Reconciler(
            registrar,
            self._reader,
            assign,
            ownership,
            delivery,
            self._patience,
            self._hear_news,
        )
        self._state = MemberState()
        self._status = self._published = Status(Phase.CREATED)
        self.counters = MemberCounters()
        self.has_left_nothing = False
        """Whether the member has left, and nothing of it waits in ZooKeeper for the end of its session."""
        self._busy_since: float | None = None
        self._rebalance_began: float | None = None
        self._obstacle: LegacyConsumerError | None = None
        self._degraded: LegacyConsumerError | None = None
        self._refusal: AuthenticationError | None = None
        self._session_id = 0
        self._unexpected: dict[Period, UnexpectedError] = {}
        self._missed_in = 0
        """The session in which the list of members did not show me."""
        self._suspended_at: float | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    # What others call, from any thread.

    @property
    def status(self) -> Status:
        """The member's state now."""
        return self._status

    @property
    def vitals(self) -> Vitals:
        """Whether the thread that decides lives and gets on; from any thread."""
        since, thread = self._busy_since, self._thread
        busy_s = 0.0 if since is None else self._clock.monotonic() - since
        return Vitals(thread is not None and thread.is_alive(), busy_s, self._state.connected)

    @property
    def session_id(self) -> int:
        """The session in which everything that is owned was claimed; commits are bound to it."""
        return self._session_id

    @property
    def refusal(self) -> AuthenticationError | None:
        """Why there will be no session any more, if ZooKeeper has refused the credentials."""
        return self._refusal

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
        self._store.add_session_listener(self._note_session)
        self._set_period(Period.COMMIT)
        self._set_period(Period.AUDIT)
        self.post(Started())

    def post(self, mail: Mail) -> None:
        """Enqueue and return."""
        self._mailbox.post(mail)

    def post_later(self, errand: Errand, delay_ms: int) -> None:
        """Run an errand in so many milliseconds; the same one asked for again begins anew. From an errand only."""
        self._mailbox.set_alarm(errand, delay_ms)

    def _note_session(self, event: SessionEvent) -> None:
        """The time until delivery is paused runs from the loss, not from when I come to hear of it."""
        if event.kind is not SessionKind.SUSPENDED:
            self._suspended_at = None
        elif self._suspended_at is None:
            self._suspended_at = self._clock.monotonic()
        self.post(event)

    def wait_until(self, reached: Callable[[Status], bool], timeout_s: float) -> bool:
        """Wait until the status is as wanted, at most timeout_s; True if it is."""
        with self._changed:
            return self._changed.wait_for(lambda: reached(self._status), timeout_s)

    def close(self, timeout_s: float) -> None:
        """Leave the group in order within timeout_s, in haste after it. From any thread, twice is harmless."""
        self.post(CloseRequested(round(timeout_s * 1000)))
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s + _HASTE_S)
            if thread.is_alive():
                # the end of the store ends its requests, the end of the session the rest
                logger.warning("%s: did not leave within %.1f s", self._name, timeout_s)
        self._store.remove_session_listener(self._note_session)

    # The coordinator's own thread from here on.

    def _run(self) -> None:
        logger.info("%s: joins group %s", self._name, self._registrar.group)
        while not self.is_closed:
            self._busy_since = self._clock.monotonic()
            try:
                wait_s = self.turn()
            except Exception:
                # a defect must not leave a member that is registered and thinks no more
                logger.exception("%s: goes on after a defect", self._name)
                wait_s = 1.0
            self._busy_since = None
            if wait_s > 0 and not self.is_closed:
                self._mailbox.wait(wait_s)

    def turn(self) -> float:
        """Handle what waits first, or the alarm that is due; the seconds until there is more to do, 0 = at once."""
        if mail := self._mailbox.take():
            self._take(mail)
            return 0.0
        alarm = self._mailbox.take_alarm()
        match alarm:
            case None:
                return self._mailbox.idle_s()
            case TimerName():
                self._handle(_TIMER_EVENTS[alarm])
            case Errand():
                alarm.run()
            # set before it is used: an error that nobody foresaw must not be the end of all commits
            case Period.COMMIT:
                self._set_period(alarm)
                self._do_from_time_to_time(alarm, self._commit)
            case Period.AUDIT:
                self._set_period(alarm)
                self._do_from_time_to_time(alarm, self._audit)
            case Period.WATCH:
                self._watch()
            case Period.GATHER:
                self._stop_gathering()
            case Period.ABSENCE:
                self._handle(Triggered("waited for members that left"))
            case _:
                assert_never(alarm)
        return 0.0

    def _set_period(self, period: Period) -> None:
        period_ms = self._periods.commit_ms if period is Period.COMMIT else self._periods.audit_ms
        if period_ms > 0:
            self._mailbox.set_alarm(period, period_ms)

    def _take(self, mail: list[Mail]) -> None:
        reasons: list[str] = []
        for one in mail:
            match one:
                case WatchEvent():
                    reasons.append(self._reader.notice(one))
                case SessionEvent():
                    self._session(one)
                case Errand():
                    one.run()
                case _:
                    self._handle(one)
        if reasons:
            self._handle(Triggered(", ".join(sorted(set(reasons)))))

    def _session(self, event: SessionEvent) -> None:
        self.counters.session_events[event.kind.name.lower()] += 1
        match event.kind:
            case SessionKind.SUSPENDED:
                logger.warning("%s: connection to ZooKeeper lost", self._name)
                self._handle(Suspended())
            case SessionKind.EXPIRED:
                logger.warning("%s: session 0x%x expired", self._name, self._session_id)
                self._handle(Expired())
            case SessionKind.CONNECTED if event.session_id == self._session_id:
                if not self._state.connected:
                    logger.warning("%s: the connection to ZooKeeper is back", self._name)
                self._handle(Reconnected())
            case SessionKind.CONNECTED:
                self._refusal = None
                logger.warning("%s: ZooKeeper is back, in a new session 0x%x", self._name, event.session_id)
                # a session that ended unheard ended all the same
                self._handle(Expired())
                self._session_id = event.session_id
                self._handle(SessionStarted())
            case SessionKind.AUTH_FAILED:
                self._refusal = AuthenticationError(
                    f"{self._name}: ZooKeeper refuses the credentials: restart with others"
                )
                logger.error("%s", self._refusal)
                self._handle(Expired())
                self._publish()

    def _handle(self, event: Event) -> None:
        """Step, carry out, and step again with what that led to."""
        following: Event | None = event
        while following is not None:
            before = self._state.phase
            self._state, actions = step(self._state, following, self._policy)
            if self._state.phase is not before:
                logger.debug("%s: %s: %s -> %s", self._name, following, before.value, self._state.phase.value)
            if isinstance(following, Failed):
                self.counters.failures += 1
                self._obstacle = following.error
            if isinstance(following, Settled) and self._state.phase is Phase.STABLE:
                self._note_settled()
            self._publish()
            following = None
            for action in actions:
                following = self._carry_out(action) or following

    def _carry_out(self, action: Action) -> Event | None:
        match action:
            case Register():
                return self._attempt(self._register)
            case Rebalance():
                return self._attempt(partial(self._rebalance, action))
            case StartTimer():
                delay_ms = action.delay_ms
                since = self._suspended_at
                if action.name is TimerName.SUSPICION and since is not None:
                    delay_ms -= round((self._clock.monotonic() - since) * 1000)
                self._mailbox.set_alarm(action.name, max(0, delay_ms))
            case CancelTimer():
                self._mailbox.cancel_alarm(action.name)
            case PauseDelivery():
                logger.warning("%s: hands out no messages until ZooKeeper answers again", self._name)
                self._delivery.pause()
            case ResumeDelivery():
                self._delivery.resume()
            case DropOwnership():
                self._reconciler.drop()
            case DoubtOwnership():
                self._reconciler.doubt()
            case ForgetGroup():
                self._reader.forget()
            case Announce():
                self._announce(action.phase)
            case Leave():
                self._leave()
            case _:
                assert_never(action)
        return None

    def _attempt(self, what: Callable[[], Event | None]) -> Event | None:
        """Errors become events: they are the machine's to judge."""
        try:
            if self._store.session_id != self._session_id:
                # Its beginning is still in the mailbox, and what I believe to own is of the session before it.
                raise SessionExpiredError(f"session 0x{self._session_id:x} is over")
            return what()
        except LegacyConsumerError as error:
            logger.warning("%s: %s failed: %s", self._name, self._state.phase.value, error)
            return Failed(error)
        except Exception as error:
            # a defect must not leave a member that is registered and thinks no more
            logger.exception("%s: %s failed", self._name, self._state.phase.value)
            return Failed(RebalanceError(f"{type(error).__name__}: {error}"))

    def _register(self) -> Event | None:
        self._ownership.begin_session(self._session_id)
        if not self._registrar.register(self._session_id, self._unblock):
            self._obstacle = None
            if self._ownership.owned:
                self._reader.forget_members(self._registrar.consumer_id)
                return Deregistered()
            return RegistrationBlocked()
        if self._missed_in == self._session_id:
            # had its session ended, this one would be another
            logger.warning("%s: somebody deleted my id znode, I have registered again", self._name)
        self._missed_in = 0
        self._reader.forget_members(self._registrar.consumer_id)
        if self._gathers:
            self._gathers = False
            self._gathering_in = self._session_id
            self._mailbox.set_alarm(Period.GATHER, self._periods.gather_ms)
            return None
        return Registered()

    def _stop_gathering(self) -> None:
        # if its session went meanwhile it registers again, and waits no more
        gathering_in, self._gathering_in = self._gathering_in, None
        if gathering_in == self._session_id:
            self._handle(Registered())

    def _rebalance(self, action: Rebalance) -> Event:
        if action.leaving:
            return self._reconciler.give_up(final=action.final)
        if self._rebalance_began is None:
            self._rebalance_began = self._clock.monotonic()
        # what fails is tried again after its back-off, however long others have been waited for
        self._mailbox.cancel_alarm(Period.ABSENCE)
        try:
            outcome = self._reconciler.reconcile(final=action.final)
        except PartitionOwnedError as error:
            logger.debug("%s: %s", self._name, error)
            self.counters.conflicts += 1
            self._obstacle = error
            if not self._ownership.watch_obstacles(error.owners, self._unblock):
                self.post(Unblocked())
            self._set_absence()
            return Blocked()
        self._set_absence()
        if isinstance(outcome, Deregistered):
            # most likely my session has ended, of which I shall hear next
            logger.info("%s: the list of members does not show me", self._name)
            self._missed_in = self._session_id
        return outcome

    def _set_absence(self) -> None:
        """Look again when the wait for members that left is over, if there is one."""
        remaining_ms = self._patience.remaining_ms
        if remaining_ms is not None:
            self._mailbox.set_alarm(Period.ABSENCE, remaining_ms)

    def _hear_impatience(self, event: WatchEvent) -> None:
        if event.kind is not WatchKind.LOST:
            self.post(Triggered("a member does not wait for those that left"))

    def _hear_news(self) -> bool:
        """Watches may have fired while something was carried out."""
        fired = self._mailbox.take_watches()
        for event in fired:
            self._reader.notice(event)
        return bool(fired)

    def _unblock(self, _: WatchEvent) -> None:
        self.post(Unblocked())

    def _leave(self) -> None:
        if not self._state.connected:
            logger.warning("%s: leaves without a connection, so without a last commit", self._name)
            self._reconciler.drop()
            return
        try:
            self.has_left_nothing = self._reconciler.leave()
        except LegacyConsumerError as error:
            logger.warning("%s: did not leave in order, the session's end will do the rest: %s", self._name, error)

    def _do_from_time_to_time(self, period: Period, what: Callable[[], None]) -> None:
        """What nobody foresaw is said once, and shown until the same goes through again."""
        try:
            what()
        except Exception as error:
            self.counters.unexpected_errors += 1
            text = f"{period.value}: {type(error).__name__}: {error}"
            known = self._unexpected.get(period)
            if known is None or str(known) != text:
                logger.exception("%s: %s failed, goes on with the next one", self._name, period.value)
            self._unexpected[period] = UnexpectedError(text)
        else:
            self._unexpected.pop(period, None)
        self._publish()

    def _commit(self) -> None:
        if not self._state.connected:
            return
        try:
            self._delivery.commit()
        except LegacyConsumerError as error:
            logger.warning(
                "%s: auto commit failed, tried again in %d ms: %s", self._name, self._periods.commit_ms, error
            )

    def _audit(self) -> None:
        if not self._state.connected:
            return
        try:
            self._registrar.mend(self._session_id)
            self._audit_owners()
        except LegacyConsumerError as error:
            logger.info("%s: audit failed: %s", self._name, error)

    def _audit_owners(self) -> None:
        if self._state.phase is Phase.STABLE and not self._reconciler.audit():
            self._handle(Triggered("owner znodes lost"))

    def _watch(self) -> None:
        """Once all is quiet: nobody but a member of the JVM or an operator deletes an owner znode of mine."""
        if self._state.phase is not Phase.STABLE or not self._state.connected:
            return
        try:
            if self._ownership.watch_owned(self._doubt):
                self._audit_owners()
        except LegacyConsumerError as error:
            logger.info("%s: could not watch its owner znodes: %s", self._name, error)

    def _doubt(self) -> None:
        self.post(Doubted())

    def _note_settled(self) -> None:
        self._mailbox.set_alarm(Period.WATCH, _QUIET_MS)
        kept, released, claimed = self._reconciler.moved
        if (released or claimed) and self._rebalance_began is not None:
            logger.info(
                "%s: rebalanced group %s in %.0f ms: kept %d, released %d, claimed %d partitions",
                self._name,
                self._registrar.group,
                (self._clock.monotonic() - self._rebalance_began) * 1000,
                kept,
                released,
                claimed,
            )
        began = self._rebalance_began
        self.counters.note_settled(self._reconciler.moved, None if began is None else self._clock.monotonic() - began)
        self._rebalance_began = None
        self._obstacle = self._degraded = None
        self._status = replace(
            self._status, settled_at_ms=self._clock.wall_ms(), rebalances=self._status.rebalances + 1
        )

    def _announce(self, phase: Phase) -> None:
        match phase:
            case Phase.DEGRADED:
                waited_ms = self._state.tries * self._policy.backoff_ms
                last = self._obstacle or RegistrationConflictError(self._registrar.path, waited_ms)
                # loud once, not with every try
                level = logging.DEBUG if self._degraded else logging.ERROR
                if self._degraded is None:
                    self.counters.rebalances["degraded"] += 1
                self._degraded = ConsumerRebalanceFailedError(self._name, self._state.tries, str(last))
                logger.log(level, "%s: DEGRADED, goes on trying: %s", self._name, self._degraded)
            case Phase.EXPIRED:
                logger.warning("%s: owns nothing until it has a new session", self._name)
            case Phase.CLOSED:
                logger.info("%s: left group %s", self._name, self._registrar.group)
            case _:
                pass
        self._publish()

    def _publish(self) -> None:
        phase = self._state.phase
        if phase in _TRYING and self._degraded is not None:
            # it is trying again, and DEGRADED all the same
            phase = Phase.DEGRADED
        unexpected = next(iter(self._unexpected.values()), None)
        error = self._refusal or self._degraded or self._obstacle or unexpected
        owned, status = self._ownership.owned, self._status
        if status is self._published and status.phase is phase and status.error is error and status.owned == owned:
            return
        with self._changed:
            self._status = self._published = replace(status, phase=phase, owned=dict(owned), error=error)
            self._changed.notify_all()


_TRYING = frozenset({Phase.JOINING, Phase.REBALANCING, Phase.DRAINING, Phase.WAITING})
_TIMER_EVENTS: Mapping[TimerName, Event] = {
    TimerName.BACKOFF: BackoffExpired(),
    TimerName.DRAIN: DrainExpired(),
    TimerName.SUSPICION: SuspicionExpired(),
    TimerName.CLOSE: CloseExpired(),
}
