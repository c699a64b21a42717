"""A member's report of itself: its status, its counters, its log. It decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rebalance.absence import GroupMemory
from rebalance.clock import Clock
from rebalance.counters import MemberCounters
from rebalance.errors import ConsumerRebalanceFailedError, RegistrationConflictError, UnexpectedError
from rebalance.events import (
    Blocked,
    Connected,
    Deregistered,
    Event,
    Expired,
    Failed,
    Refused,
    Registered,
    RegistrationBlocked,
    Settled,
    Suspended,
)
from rebalance.led.standing import Standing
from rebalance.machine import MemberState, Phase
from rebalance.registrar import Registrar
from zk_layout.errors import LegacyConsumerError
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.signals import Signal

logger = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """A member's status.

    phase: see rebalance.machine. settled_at_ms: when it last became STABLE, 0 = never. error: the last one, while it
    matters. owned: its partitions. rebalances: how many ended in STABLE. held: owned partitions that hand out nothing
    while an operator resets their offsets. brokers: the ids of registered brokers, as last read. led: its state in a
    led group; None with group.coordination=classic.
    """

    phase: Phase
    owned: Mapping[TopicPartition, ConsumerThreadId] = field(default_factory=dict)
    settled_at_ms: int = 0
    rebalances: int = 0
    error: LegacyConsumerError | None = None
    held: frozenset[TopicPartition] = frozenset()
    brokers: tuple[int, ...] = ()
    led: Standing | None = None


def level_of(error: LegacyConsumerError, last: LegacyConsumerError | None, first: int) -> int:
    """Return DEBUG if the last error reads the same, so that it does not appear with every try; otherwise first."""
    return logging.DEBUG if str(error) == str(last) else first


class Report:
    """The report of one member. The coordinator's thread writes it, any thread reads it."""

    def __init__(self, registrar: Registrar, clock: Clock) -> None:
        self._name = registrar.consumer_id
        self._registrar = registrar
        self._clock = clock
        self.status = Status(Phase.CREATED)
        self.counters = MemberCounters()
        self.unexpected: dict[str, UnexpectedError] = {}
        """{periodic task: its unforeseen error}, until the same task succeeds again."""
        self._settled_at_ms = self._rebalances = 0
        self._began: float | None = None
        self._phase_since = 0.0
        self._degraded: LegacyConsumerError | None = None
        self._changed = Signal()

    def wait_until(self, reached: Callable[[Status], bool], timeout_s: float) -> bool:
        """Wait until the status is as wanted, at most timeout_s; True if it is.

        reached is the user's code: if it takes long, no other thread waits for it.
        """
        return self._changed.wait_for(lambda: reached(self.status), timeout_s)

    def publish(self, state: MemberState, owned: Mapping[TopicPartition, ConsumerThreadId]) -> None:
        """Publish the state and the owned partitions, and wake up waiting callers."""
        unexpected = next(iter(self.unexpected.values()), None)
        error = state.refusal or (self._degraded if state.degraded else None) or state.obstacle or unexpected
        now = Status(state.shown, self.status.owned, self._settled_at_ms, self._rebalances, error)
        if now == self.status and now.owned == owned:
            return
        self.status = replace(now, owned=dict(owned))
        self._changed.notify()

    def note(self, before: MemberState, event: Event, after: MemberState) -> None:
        """Log and count an event, and the step from one state to the next."""
        if after.phase is not before.phase:
            self._phase_since = self._clock.monotonic()
            logger.debug("%s: %s: %s -> %s", self._name, event, before.phase.value, after.phase.value)
        self._note_session(before, event, after)
        self._note_attempt(before, event, after)
        self._note_absence(before.memory, after.memory)

    def _note_session(self, before: MemberState, event: Event, after: MemberState) -> None:
        sessions = self.counters.session_events
        match event:
            case Suspended():
                sessions["suspended"] += 1
                logger.warning("%s: connection to ZooKeeper lost", self._name)
            case Expired():
                sessions["expired"] += 1
                logger.warning("%s: session 0x%x expired", self._name, before.session_id)
            case Connected():
                sessions["connected"] += 1
                if event.session_id != before.session_id:
                    logger.warning("%s: ZooKeeper is back, in a new session 0x%x", self._name, event.session_id)
                elif not before.connected:
                    logger.warning("%s: the connection to ZooKeeper is back", self._name)
            case Refused():
                sessions["auth_failed"] += 1
                logger.error("%s", event.error)
            case _:
                pass
        if after.paused and not before.paused:
            logger.warning("%s: hands out no messages until ZooKeeper answers again", self._name)
        if after.phase is Phase.EXPIRED and before.phase is not Phase.EXPIRED:
            logger.warning("%s: owns nothing until it has a new session", self._name)

    def _note_attempt(self, before: MemberState, event: Event, after: MemberState) -> None:
        if after.session_id != before.session_id:
            # the rebalance ended with its session
            self._began = None
        if after.phase is Phase.REBALANCING and self._began is None:
            self._began = self._clock.monotonic()
        match event:
            case Registered() if before.missed:
                # a new session resets missed, so the session lives, and another client deleted the znode
                logger.warning("%s: another client deleted my id znode, I have registered again", self._name)
            case Deregistered():
                # most likely my session has expired, and the next event says so
                logger.info("%s: my id znode is gone, or is another session's", self._name)
            case Blocked():
                self.counters.conflicts += 1
                logger.debug("%s: %s", self._name, event.error)
            case Failed():
                self.counters.failures += 1
            case Settled() if after.phase is Phase.STABLE:
                self._note_settled(event)
            case _:
                pass
        if after.degraded and isinstance(event, (Blocked, Failed, RegistrationBlocked)):
            self._note_degraded(after, is_news=not before.degraded)

    def _note_settled(self, event: Settled) -> None:
        seconds = 0.0 if self._began is None else self._clock.monotonic() - self._began
        if event.released or event.claimed:
            logger.info(
                "%s: rebalanced group %s in %.0f ms: kept %d, released %d, claimed %d partitions",
                self._name,
                self._registrar.group,
                seconds * 1000,
                event.kept,
                event.released,
                event.claimed,
            )
        self.counters.note_settled((event.kept, event.released, event.claimed), seconds)
        self._began = None
        self._settled_at_ms = self._clock.wall_ms()
        self._rebalances += 1

    def _note_degraded(self, state: MemberState, *, is_news: bool) -> None:
        waited_ms = round((self._clock.monotonic() - self._phase_since) * 1000)
        is_permanent = self._registrar.in_the_way == 0
        last = state.obstacle or RegistrationConflictError(self._registrar.path, waited_ms, is_permanent=is_permanent)
        self._degraded = ConsumerRebalanceFailedError(self._name, state.tries, str(last))
        if is_news:
            self.counters.rebalances["degraded"] += 1
        # an ERROR once, not with every try
        level = logging.ERROR if is_news else logging.DEBUG
        logger.log(level, "%s: DEGRADED, goes on trying: %s", self._name, self._degraded)

    def _note_absence(self, before: GroupMemory, after: GroupMemory) -> None:
        present = len(after.last or ())
        if after.before is not None and before.before is None:
            left = len(after.before) - present
            what = f"waits up to scheduled.rebalance.max.delay.ms for {left} members that left, or for new ones"
        elif before.before is not None and after.before is None:
            left = len(before.before) - present
            what = "is whole again" if left <= 0 else f"goes on with {left} members fewer"
        else:
            return
        logger.info("%s: group %s %s", self._name, self._registrar.group, what)
