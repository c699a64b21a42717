"""Membership: the parts of a connector from the creation of its streams until it leaves the group.

It connects the parts of a member. A connector makes a new Membership when it unsubscribes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import ConsumerClosedError
from legacy_consumer.fetching.fetcher import FetcherFactory
from legacy_consumer.member.closing import Closing
from legacy_consumer.member.consumer_id import make_consumer_id
from legacy_consumer.member.counters import ConnectorCounters
from legacy_consumer.member.hand_source import this_thread
from legacy_consumer.member.joining_checks import JoiningChecks, classic_strategy
from legacy_consumer.member.listener_calls import BoundedCall
from legacy_consumer.member.resets import ResetFollower, answer_path
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.member.stream_delivery import DeliverySettings, StreamDelivery
from legacy_consumer.offsets import OffsetStore, RetrySettings
from legacy_consumer.offsets.progress import Progress
from rebalance.assignors.strategies import make_assignors
from rebalance.clock import Clock
from rebalance.coordinator import Coordinator
from rebalance.counters import Vitals
from rebalance.events import Answered, CloseRequested, Doubted, Drained, Event
from rebalance.lease import Lease
from rebalance.led.member import LED, LedMember
from rebalance.led.records import ephemeral_paths
from rebalance.led.standing import LedState, Standing
from rebalance.machine import Phase, Policy
from rebalance.mailbox import Errand
from rebalance.ownership import Ownership
from rebalance.registrar import Registrar
from rebalance.snapshot import Assignment, GroupSnapshot, remember_last
from rebalance.status import Status
from rebalance.upkeep import Periods
from zk_layout.errors import AuthenticationError
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, TopicPartition
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

StreamKey = tuple[str | None, int]
"""Topic, None with a filter, and thread number."""

_REBALANCE_MARGIN_MS = 5000
"""The time beyond drain.timeout.ms for which a led group waits for a member to join again."""
_HASTE_S = 1.0
"""The bound of the last commit of a shutdown that Ctrl-C cuts short."""
_LOOK_AGAIN_S = 0.2
"""The interval at which wait_until() checks facts outside the coordinator: held partitions, brokers, led groups."""


class MemberStreams:
    """The stream of each partition (stream_delivery.Streams)."""

    def __init__(self) -> None:
        self.by_key: Mapping[StreamKey, GatedStream] = {}
        """Replaced, never changed, because a signal handler may iterate over it."""

    def all(self) -> Collection[GatedStream]:
        """Every stream of the member."""
        return self.by_key.values()

    def stream_of(self, tp: TopicPartition, thread: ConsumerThreadId) -> GatedStream:
        """Return the stream of a partition: a static subscription has streams for each topic, a filter for all."""
        static = self.by_key.get((tp.topic, thread.thread))
        return static if static is not None else self.by_key[None, thread.thread]


class Membership:
    """One life of a connector in its group, under one consumer id.

    check_open raises the error of a closed connector; past: the counts of earlier memberships.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        store: ZkStore,
        fetchers: FetcherFactory,
        offsets: OffsetStore,
        progress: Progress,
        clock: Clock,
        *,
        check_open: Callable[[], None],
        past: ConnectorCounters,
    ) -> None:
        self._config = config
        self._store = store
        self._fetchers = fetchers
        self._progress = progress
        self._clock = clock
        self.consumer_id = make_consumer_id(config.group_id, config.consumer_id, clock)
        self.is_taken = False
        """Whether a thread creates the streams, or has created them."""
        self.has_joined = False
        """Whether the streams exist and the first share is decided."""
        self.streams = MemberStreams()
        self._past = past
        self._coordinator: Coordinator | None = None
        """None before begin()."""
        self._led: LedMember | None = None
        self._lease = Lease(store, self._session_of_claims, clock)
        self.checks = JoiningChecks(config, self.consumer_id, store, offsets, clock, check_open)
        self.delivery = StreamDelivery(
            DeliverySettings(
                group=config.group_id,
                consumer_id=self.consumer_id,
                auto_commit=config.auto_commit_enable,
                at_next=config.delivery_rule == "at_next",
                reset_to=config.reset_to,
                adopt_foreign_commits=config.commit_conflict == "adopt",
                retries=RetrySettings(config.offsets_commit_max_retries, config.offsets_channel_backoff_ms / 1000),
                last_commit_timeout_s=config.drain_timeout_ms / 1000,
                topics_by_hand=config.topics_by_hand,
            ),
            offsets=offsets,
            progress=progress,
            log_offsets=fetchers.log_offsets,
            streams=self.streams,
            session_id=self._session_of_claims,
            on_unowned=partial(self._post, Doubted()),
            on_answer=partial(self._post, Answered()),
        )
        storage = config.offsets_storage
        self._follower = ResetFollower(
            store,
            config.group_id,
            self.consumer_id,
            self.delivery,
            offsets=offsets,
            progress=progress,
            post=self._post,
            later=self._post_later,
            keeps_folder=config.zookeeper_set_acl,
            refusal=None if storage == "zookeeper" else f"it keeps its offsets in {storage}: offsets.storage",
            topics_by_hand=config.topics_by_hand,
        )

    # Joining.

    @property
    def has_begun(self) -> bool:
        """Whether there is a coordinator, which leave() must close."""
        return self._coordinator is not None

    @property
    def has_session(self) -> bool:
        """Whether it has a session, which may have expired, so that it can try to commit."""
        return self._session_of_claims() != 0

    def begin(self, coordinator: Coordinator, streams: Sequence[StreamKey]) -> None:
        """Make the streams; from now on leave() closes them. No request is sent before join()."""
        coordinator.counters = self._past.member
        self._coordinator = coordinator
        self.streams.by_key = {key: self._make_stream(coordinator) for key in streams}

    def join(self, coordinator: Coordinator) -> None:
        """Register, and wait until the first share is decided.

        Raises: the error that ended joining; ConsumerClosedError; StrategyMismatchError.
        """
        coordinator.start()
        self._follower.start()
        # the machine itself ends the wait: its tries are bounded
        while not coordinator.wait_until(self._first_share_is_decided, 1.0):
            pass
        status = coordinator.status
        if status.error is not None and not status.error.retriable:
            raise status.error
        if status.phase is Phase.CLOSED:
            raise ConsumerClosedError
        if status.phase is Phase.DEGRADED and (mismatch := self.checks.mismatch()) is not None:
            # the check before joining may have missed the mismatch, while the group rebalanced
            self.checks.judge(mismatch)
        self.has_joined = True

    def _first_share_is_decided(self, status: Status) -> bool:
        if status.error is not None and not status.error.retriable:
            return True
        if status.phase is Phase.STABLE:
            led = self._standing()
            return led is None or led.state is LedState.MEMBER
        return status.phase in (Phase.DEGRADED, Phase.CLOSED)

    # Looking.

    def status(self, brokers: tuple[int, ...]) -> Status:
        """Return the member's status, with the registered brokers."""
        coordinator, led = self._coordinator, self._standing()
        if coordinator is None:
            return Status(Phase.CREATED, led=led)
        status = coordinator.status
        error = status.error or (led.error if led is not None else None)
        return replace(status, held=self._follower.held, brokers=brokers, led=led, error=error)

    def _standing(self) -> Standing | None:
        """Return the member's standing in a led group; None with group.coordination=classic."""
        coordinator, led = self._coordinator, self._led
        if coordinator is None or led is None:
            return Standing() if self._config.group_coordination == LED else None
        return led.standing(coordinator.status.phase, connected=coordinator.vitals.connected)

    def vitals(self) -> Vitals:
        """Return whether the coordinator's thread lives and makes progress."""
        if self._coordinator is None:
            return Vitals(False, 0.0, False)
        vitals = self._coordinator.vitals
        streams = self.streams.all()
        return replace(
            vitals,
            leased=vitals.runs and self._lease.holds(),
            in_hand_s=max((stream.in_hand_s() for stream in streams), default=0.0),
            unasked_s=max((stream.unasked_s() for stream in streams), default=0.0),
            deserted_s=max((stream.unasked_s() for stream in streams if stream.is_deserted()), default=0.0),
        )

    def counters(self) -> ConnectorCounters:
        """Return the counts of this member, including its earlier memberships."""
        consumed, committed = self._progress.totals()
        committer, past = self.delivery.committer, self._past
        member = self._coordinator.counters if self._coordinator is not None else past.member
        return ConnectorCounters(
            member.reading(),
            consumed,
            committed,
            past.commits + committer.commits,
            past.failed_commits + committer.failed_commits,
            past.foreign_commits + committer.foreign_commits,
            past.fetch_errors + sum(stream.fetch_errors for stream in self.streams.all()),
            past.listener_errors + self.delivery.telling.errors,
        )

    def wait_until(self, reached: Callable[[Status], bool], timeout_s: float, status: Callable[[], Status]) -> bool:
        """Wait until the status is as wanted, at most timeout_s; True if it is. False at once before it has begun."""
        coordinator = self._coordinator
        if coordinator is None:
            return False
        end_s = time.monotonic() + timeout_s
        while True:
            left_s = end_s - time.monotonic()
            if coordinator.wait_until(lambda _: reached(status()), max(0.0, min(left_s, _LOOK_AGAIN_S))):
                return True
            if left_s <= _LOOK_AGAIN_S:
                return False

    # Leaving.

    def leave(self, timeout_s: float) -> None:
        """Drain, commit, release and leave; do not wait for the calling thread's own messages in hand."""
        self._follower.close()
        self.delivery.begin_closing(timeout_s)
        if self._coordinator is not None:
            try:
                self.delivery.let_go(this_thread())
                self._coordinator.close(timeout_s)
            except BaseException:
                # Ctrl-C: the connector closes its connections next; commit finished messages and end the coordinator
                self._commit_in_haste()
                self.delivery.begin_closing(0.0)
                self._post(CloseRequested(0))
                raise

    def _commit_in_haste(self) -> None:
        if self._config.auto_commit_enable and self._lease.holds():
            try:
                # on another thread, because a commit may wait for an earlier one, and for ZooKeeper
                BoundedCall(self.delivery.commit, f"{self.consumer_id}-last-commit").wait(_HASTE_S)
            except Exception as error:  # noqa: BLE001 - it must not hide the interrupt
                logger.warning("%s: ends without a last commit: %s", self.consumer_id, error)

    @property
    def has_left(self) -> bool:
        """Whether the coordinator has ended, in order or not."""
        return self._coordinator is not None and self._coordinator.is_closed

    def has_left_in_order(self) -> bool:
        """Return whether the member has no znode in ZooKeeper any more."""
        assert self._coordinator is not None
        return self._coordinator.has_left_nothing

    def close_streams(self, patience_s: float) -> None:
        """Close all streams. Raises: the first error, after all are closed."""
        Closing(self.consumer_id, [stream.close for stream in self.streams.all()]).run(patience_s)

    # Inside.

    def _post(self, mail: Errand | Event) -> None:
        if self._coordinator is not None:
            self._coordinator.post(mail)

    def _post_later(self, errand: Errand, delay_ms: int) -> None:
        if self._coordinator is not None:
            self._coordinator.post_later(errand, delay_ms)

    def _session_of_claims(self) -> int:
        return self._coordinator.session_id if self._coordinator is not None else 0

    def _may_hand_out(self) -> bool:
        """Return whether messages may be handed out. Raises: AuthenticationError, instead of an endless wait."""
        refusal = self._coordinator.refusal if self._coordinator is not None else None
        if refusal is not None:
            # checked first: the lease of the session before may still run, but no further messages can come
            raise AuthenticationError(str(refusal))
        return self._lease.holds()

    def make_coordinator(self, registration: ConsumerRegistration) -> Coordinator:
        """Make the coordinator. Raises: ConfigError for an assignor that cannot be loaded."""
        config = self._config
        group = config.group_id
        is_led = config.group_coordination == LED
        goes_along = [answer_path(group, self.consumer_id)]
        if is_led:
            goes_along += ephemeral_paths(group, self.consumer_id)
        ownership = Ownership(self._store, group, self.consumer_id, goes_along)
        assign = remember_last(classic_strategy(config).assign)
        if is_led:
            self._led = self._make_led_member(ownership, assign)
            assign = self._led.assign
        return Coordinator(
            store=self._store,
            registrar=Registrar(self._store, group, self.consumer_id, registration),
            ownership=ownership,
            delivery=self._follower,
            assign=assign,
            exclude_internal_topics=config.exclude_internal_topics,
            policy=Policy(
                max_retries=config.rebalance_max_retries,
                backoff_ms=config.rebalance_backoff_ms,
                # kazoo notices a dead connection within two thirds of the session timeout, so a third of it is left
                suspicion_ms=self._store.session_timeout_ms // 4,
                drain_timeout_ms=config.drain_timeout_ms,
                # in a led group the leader waits for others, and decides when a member that left counts as gone
                gather_ms=0 if is_led else config.group_initial_rebalance_delay_ms,
                absence_ms=0 if is_led else config.scheduled_rebalance_max_delay_ms,
            ),
            periods=Periods(
                commit_ms=config.auto_commit_interval_ms if config.auto_commit_enable else 0,
                audit_ms=config.audit_interval_ms,
            ),
            clock=self._clock,
            led=self._led,
        )

    def _make_led_member(self, ownership: Ownership, classic: Callable[[GroupSnapshot], Assignment]) -> LedMember:
        config = self._config
        return LedMember(
            self._store,
            config.group_id,
            self.consumer_id,
            make_assignors(config.partition_assignment_strategy, dict(config.assignment)),
            classic=classic,
            session_id=self._session_of_claims,
            owned=lambda: ownership.owned,
            post=self._post,
            later=self._post_later,
            tell_nothing_revoked=self.delivery.telling.tell_nothing_revoked,
            tell_nothing_assigned=self.delivery.telling.tell_nothing_assigned,
            clock=self._clock,
            # a member joins only after it has drained, which may take that long
            rebalance_timeout_ms=config.drain_timeout_ms + _REBALANCE_MARGIN_MS,
            initial_delay_ms=config.group_initial_rebalance_delay_ms,
        )

    def _make_stream(self, coordinator: Coordinator) -> GatedStream:
        return GatedStream(
            fetcher=self._fetchers.fetcher(),
            progress=self._progress,
            clock=self._clock,
            consumer_timeout_ms=self._config.consumer_timeout_ms,
            at_next=self._config.delivery_rule == "at_next",
            on_drained=partial(coordinator.post, Drained()),
            may_hand_out=self._may_hand_out,
            acknowledged=self._config.delivery_rule == "acknowledged",
        )
