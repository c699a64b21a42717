"""One thread, one queue: takes an event, asks the machine for the actions, and has them carried out.

Callbacks of ZooKeeper and of streams only enqueue. The coordinator's thread makes all decisions about the group, one
after another, so only the queue needs a lock. Triggers that arrive during an action become one event.

The decisions do not need the thread: `turn()` handles what is due now and returns when to call it again, so a
simulation can drive a coordinator without a thread and with a clock of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from rebalance.action_runner import ActionRunner
from rebalance.clock import Clock, SystemClock
from rebalance.counters import MemberCounters, Vitals
from rebalance.delivery import Delivery
from rebalance.events import (
    CloseRequested,
    Connected,
    Event,
    Expired,
    Refused,
    Started,
    Suspended,
    Timer,
    Triggered,
    Unblocked,
)
from rebalance.led.member import LedMember
from rebalance.machine import MemberState, Phase, Policy, step
from rebalance.mailbox import Chore, Errand, Mail, Mailbox
from rebalance.ownership import Ownership
from rebalance.patience import Patience
from rebalance.reader import GroupReader
from rebalance.reconciler import Reconciler
from rebalance.registrar import Registrar
from rebalance.snapshot import Assignment, GroupSnapshot
from rebalance.status import Report, Status
from rebalance.upkeep import Periods, Upkeep
from zk_layout.errors import AuthenticationError, LegacyConsumerError
from zk_layout.loggers import safe_logger
from zk_layout.running_threads import OwnThread, is_running
from zk_layout.signals import Flag
from zk_layout.store import SessionEvent, SessionKind, WatchEvent, ZkStore

if sys.version_info >= (3, 11):
    from typing import assert_never
else:
    from typing_extensions import assert_never

logger = safe_logger(__name__)

_HASTE_S = 2.0
"""Seconds for leaving in haste, after the time for leaving in order is over."""
_THEIRS = 50
"""Every 50th turn takes an alarm or an errand first, so that a flood of other events does not hold them up."""


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
        led: LedMember | None = None,
    ) -> None:
        """led: the object whose assign() is given as assign, in a led group; None in a classic group."""
        self._store = store
        self._registrar = registrar
        self._ownership = ownership
        self._policy = policy
        self._clock = clock or SystemClock()
        self._name = registrar.consumer_id
        self._mailbox = Mailbox(self._clock)
        self._reader = GroupReader(
            store,
            registrar.group,
            exclude_internal_topics=exclude_internal_topics,
            on_change=self.post,
        )
        patience = Patience(self._name, store, assign, self._handle, self.post) if policy.absence_ms > 0 else None
        reconciler = Reconciler(
            registrar,
            self._reader,
            assign,
            ownership,
            delivery,
            patience,
            self._mailbox.changed,
            self.post,
            led.reads if led is not None else lambda: 0,
        )
        if led is not None:
            led.holds_off = lambda: reconciler.is_waiting
        self._report = Report(registrar, self._clock)
        self._upkeep = Upkeep(periods, self._mailbox, delivery, registrar, reconciler, self._report)
        self._runner = ActionRunner(
            store,
            registrar,
            self._reader,
            ownership,
            delivery,
            reconciler,
            self._mailbox,
            self._hear_of_id,
            led.rest if led else None,
        )
        self._state = MemberState()
        self._turns = 0
        self._busy_since: float | None = None
        self._thread: threading.Thread | None = None
        # not is_alive(): up to Python 3.12 a thread whose join() an exception interrupted counts as dead
        self._ended = Flag()

    # Callable from any thread.

    @property
    def status(self) -> Status:
        """The member's state now."""
        return self._report.status

    @property
    def counters(self) -> MemberCounters:
        """The counts so far; counts of an earlier life may be set before the start."""
        return self._report.counters

    @counters.setter
    def counters(self, counters: MemberCounters) -> None:
        self._report.counters = counters

    @property
    def vitals(self) -> Vitals:
        """The state of the coordinator's thread now; any thread may ask."""
        since, thread = self._busy_since, self._thread
        busy_s = 0.0 if since is None else self._clock.monotonic() - since
        connected = self._state.connected and not self.is_closed
        return Vitals(is_running(thread) and not self._ended.is_set(), busy_s, connected)

    @property
    def session_id(self) -> int:
        """The session in which everything that is owned was claimed; commits are bound to it."""
        return self._state.session_id

    @property
    def refusal(self) -> LegacyConsumerError | None:
        """The error after which there is no session any more: ZooKeeper has refused the credentials."""
        return self._state.refusal

    @property
    def is_closed(self) -> bool:
        """Whether the member has left for good."""
        return self._state.phase is Phase.CLOSED

    @property
    def has_left_nothing(self) -> bool:
        """Whether the member has left, and none of its znodes waits for the end of its session."""
        return self._runner.has_left_nothing

    def start(self) -> None:
        """Join the group; the store is connected already. Twice is harmless."""
        if self._thread is None:
            self.open()
            self._thread = OwnThread(target=self._run, name=f"{self._name}-coordinator")
            self._thread.start()

    def open(self) -> None:
        """Join the group without a thread: the caller calls turn()."""
        self._store.add_session_listener(self._hear_session)
        self._state = MemberState(session_id=self._store.session_id)
        for chore in Chore:
            self._upkeep.plan(chore)
        self.post(Started())

    def post(self, mail: Mail) -> None:
        """Enqueue and return."""
        self._mailbox.post(mail)

    def post_later(self, errand: Errand, delay_ms: int) -> None:
        """Run an errand after the delay; a repeated request restarts the delay. On the coordinator's thread only."""
        self._mailbox.set_alarm(errand, delay_ms)

    def wait_until(self, reached: Callable[[Status], bool], timeout_s: float) -> bool:
        """Wait until the status is as wanted, at most timeout_s; True if it is."""
        return self._report.wait_until(reached, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Leave the group in order within timeout_s, in haste after it. Of two calls the earlier end counts."""
        self.post(CloseRequested(round(timeout_s * 1000)))
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            if not is_running(thread) or self._ended.wait(timeout_s + _HASTE_S):
                thread.join()
            else:
                # closing the store ends the thread's requests; the end of the session deletes its znodes
                logger.warning("%s: did not leave within %.1f s", self._name, timeout_s)
        self._store.remove_session_listener(self._hear_session)

    def _hear_session(self, event: SessionEvent) -> None:
        match event.kind:
            case SessionKind.SUSPENDED:
                # the time until delivery is paused counts from the loss, not from the handling of this event
                self.post(Suspended(self._clock.monotonic()))
            case SessionKind.CONNECTED:
                self.post(Connected(event.session_id))
            case SessionKind.EXPIRED:
                self.post(Expired())
            case SessionKind.AUTH_FAILED:
                what = f"{self._name}: ZooKeeper refuses the credentials: restart with others"
                self.post(Refused(AuthenticationError(what)))

    def _hear_of_id(self, _event: WatchEvent) -> None:
        self.post(Unblocked())

    # On the coordinator's thread.

    def _run(self) -> None:
        try:
            self._take_turns()
        finally:
            self._ended.set()

    def _take_turns(self) -> None:
        logger.info("%s: joins group %s", self._name, self._registrar.group)
        while not self.is_closed:
            self._busy_since = self._clock.monotonic()
            try:
                wait_s = self.turn()
            except BaseException:
                # a defect must not stop the coordinator of a member that stays registered
                logger.exception("%s: continues after a defect", self._name)
                wait_s = 1.0
            self._busy_since = None
            if wait_s > 0 and not self.is_closed:
                self._mailbox.wait(wait_s)

    def turn(self) -> float:
        """Handle the first waiting mail, or the alarm that is due; return the seconds to the next call, 0 = at once."""
        # other clients may cause events without a pause: alarms and errands must not wait until they stop
        self._turns += 1
        is_theirs = self._turns % _THEIRS == 0
        if not is_theirs and (mail := self._mailbox.take()):
            self._take(mail)
            return 0.0
        alarm = self._mailbox.take_alarm()
        match alarm:
            case None:
                if is_theirs and (mail := self._mailbox.take(errands_first=True)):
                    self._take(mail)
                    return 0.0
                return self._mailbox.idle_s()
            case Timer():
                self._handle(alarm)
            case Errand():
                alarm.run()
            case Chore():
                self._handle(self._upkeep.do(alarm, self._state))
            case _:
                assert_never(alarm)
        return 0.0

    def _take(self, mail: list[Mail]) -> None:
        reasons: set[str] = set()
        for one in mail:
            match one:
                case WatchEvent():
                    reasons.add(self._reader.notice(one))
                case Errand():
                    one.run()
                case _:
                    self._handle(one)
        if reasons:
            self._handle(Triggered(", ".join(sorted(reasons))))

    def _handle(self, event: Event | None) -> None:
        """Step, carry out the actions, and step again with the resulting events."""
        while event is not None:
            before = self._state
            self._state, actions = step(before, event, self._policy)
            self._report.note(before, event, self._state)
            if not self.is_closed:
                self._publish()
            event = None
            for action in actions:
                try:
                    event = self._runner.carry_out(action, self._state) or event
                except Exception:
                    # the actions behind this one must be carried out all the same
                    logger.exception("%s: continues after a defect", self._name)
        self._publish()

    def _publish(self) -> None:
        self._report.publish(self._state, self._ownership.owned)
