"""A member of ours in a simulated world: the real coordinator and streams."""

from __future__ import annotations

from functools import partial

from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.member.resets import ResetFollower, answer_path
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.member.stream_delivery import DeliverySettings, StreamDelivery
from legacy_consumer.offsets.dual import DualOffsetStore
from legacy_consumer.offsets.kafka import KafkaOffsetStore
from legacy_consumer.offsets.progress import Progress
from legacy_consumer.offsets.retries import RetrySettings
from legacy_consumer.offsets.zookeeper import ZooKeeperOffsetStore
from rebalance.assignors import ASSIGNORS
from rebalance.assignors.strategies import make_assignors
from rebalance.coordinator import Coordinator
from rebalance.errors import (
    ConsumerRebalanceFailedError,
    PartitionOwnedError,
    PartlyBegunError,
    RebalanceError,
    RegistrationConflictError,
)
from rebalance.events import Answered, CloseRequested, Doubted, Drained
from rebalance.lease import Lease
from rebalance.led.member import LedMember
from rebalance.led.records import ephemeral_paths
from rebalance.machine import Phase, Policy
from rebalance.ownership import Ownership
from rebalance.registrar import Registrar
from rebalance.upkeep import Periods
from tests.simulation.brokers import LogEnds
from tests.simulation.by_hand import KeepingListener
from tests.simulation.checker import Violation
from tests.simulation.fetching import PatientClock, SimulatedFetcher
from tests.simulation.hooks import CommittingListener, HookCalls, LogEndsCall
from tests.simulation.offsets_in_kafka import Channel, ask_once
from tests.simulation.users import User
from tests.simulation.zookeeper import GROUP, IDS, InjectedError
from zk_layout.errors import NoNodeError
from zk_layout.model import ConsumerRegistration, SubscriptionPattern
from zk_layout.store import SessionKind

CLOSE_S = 4.0
"""Seconds for leaving in order."""
MAX_TURNS = 200
"""The turns at one moment, without a failed request, after which a coordinator counts as never coming to rest."""
MAX_TURNS_IN_ALL = 10 * MAX_TURNS
"""The bound on all turns; else a coordinator that retries without a pause goes on until MAX_TURNS in a row succeed."""


class Crash(BaseException):
    """A member's process dies: raised inside the member, where no code of it may catch it."""


class OurMember:
    """One member: all parts that ConsumerConnector connects, without threads."""

    def __init__(self, world, name, consumer_id, subscription, earlier=None):
        """earlier: the same connector before unsubscribe(); this member keeps its session and its offset store."""
        self.world = world
        self.settings = settings = world.settings
        self.name = name
        self.consumer_id = consumer_id
        self.subscription = subscription
        self.alive = True
        self.turning = self.using = self.committing = False
        self.closing = self.unsubscribing = self.ending = False
        self.close_by = 0.0
        """The world's time until which the member may leave in order."""
        self.wake_at = 0.0
        world.record("member", name)
        self.store = world.server.connect(name) if earlier is None else earlier.store
        self.progress = Progress()
        offsets = self.offsets = self._make_offsets() if earlier is None else earlier.offsets
        self.delivery = StreamDelivery(
            DeliverySettings(
                consumer_id=consumer_id,
                auto_commit=settings.auto_commit,
                at_next=settings.at_next,
                reset_to=self._reset_to(),
                adopt_foreign_commits=settings.adopt,
                retries=RetrySettings(max_retries=2, backoff_s=0.0),
                topics_by_hand=world.placing.topics,
            ),
            offsets=offsets,
            progress=self.progress,
            log_offsets=lambda: LogEnds(self),
            streams=self,
            session_id=lambda: self.coordinator.session_id,
            on_unowned=lambda: self.coordinator.post(Doubted()),
            on_answer=lambda: self.coordinator.post(Answered()),
        )
        self.delivery._ask_for_log_ends = lambda fresh: LogEndsCall(self, lambda: LogEnds(self).latest(fresh))
        self.hook_calls = None
        if world.placing.topics or world.hooks.commit:
            listener = KeepingListener(self) if world.placing.topics else CommittingListener(self)
            self.delivery.telling.listener = listener
            self.delivery.telling.calls = self.hook_calls = HookCalls(self, listener)
        self.delivery.await_answer = lambda wait_s: self.hook_calls and self.hook_calls.let_all_return(wait_s)
        self.follower = ResetFollower(
            self.store,
            GROUP,
            consumer_id,
            self.delivery,
            offsets=offsets,
            progress=self.progress,
            # lambdas: the coordinator does not exist yet
            post=lambda errand: self.coordinator.post(errand),  # noqa: PLW0108
            later=lambda errand, delay_ms: self.coordinator.post_later(errand, delay_ms),  # noqa: PLW0108
            refusal="offsets.storage" if world.group_offsets.is_used else None,
            topics_by_hand=world.placing.topics,
        )
        registration = ConsumerRegistration(
            SubscriptionPattern.STATIC,
            tuple(subscription.items()),
            world.clock.wall_ms(),
            coordination="leader" if world.led else "classic",
        )
        goes_along = (answer_path(GROUP, consumer_id), *(ephemeral_paths(GROUP, consumer_id) if world.led else ()))
        ownership = Ownership(self.store, GROUP, consumer_id, goes_along)

        def assign(group):
            return ASSIGNORS[settings.strategy](group, "1.0")

        self.led = None
        if world.led:
            self.led = LedMember(
                self.store,
                GROUP,
                consumer_id,
                make_assignors(world.led, {}),
                classic=assign,
                session_id=lambda: self.coordinator.session_id,
                owned=lambda: ownership.owned,
                post=lambda mail: self.coordinator.post(mail),  # noqa: PLW0108
                later=lambda errand, delay_ms: self.coordinator.post_later(errand, delay_ms),  # noqa: PLW0108
                clock=world.clock,
                rebalance_timeout_ms=settings.drain_timeout_ms + 2000,
            )
            assign = self.led.assign
        self.registrar = Registrar(self.store, GROUP, consumer_id, registration)
        self.coordinator = Coordinator(
            store=self.store,
            registrar=self.registrar,
            ownership=ownership,
            delivery=self.follower,
            assign=assign,
            exclude_internal_topics=True,
            policy=Policy(
                max_retries=settings.max_retries,
                backoff_ms=settings.backoff_ms,
                suspicion_ms=round(settings.suspicion_s * 1000),
                drain_timeout_ms=settings.drain_timeout_ms,
                absence_ms=0 if world.led else settings.absence_ms,
            ),
            periods=Periods(
                commit_ms=settings.commit_ms if settings.auto_commit else 0,
                audit_ms=round(settings.audit_s * 1000),
            ),
            clock=world.clock,
            led=self.led,
        )
        self._post = self.coordinator.post
        # other threads of the member's process post too, and a post must wake the coordinator
        self.coordinator.post = self._post_and_wake
        lease = Lease(self.store, lambda: self.coordinator.session_id, world.clock)
        self._streams = {}
        self.users = []
        for topic, count in subscription.items():
            for thread in range(count):
                clock = PatientClock(world.clock)
                fetcher = SimulatedFetcher(self, clock)
                stream = GatedStream(
                    fetcher=fetcher,
                    progress=self.progress,
                    clock=clock,
                    consumer_timeout_ms=50,
                    at_next=settings.at_next,
                    on_drained=partial(self.coordinator.post, Drained()),
                    may_hand_out=lease.holds,
                    acknowledged=world.acknowledges,
                    holder=partial(self._holder, len(self.users), clock),
                )
                self._streams[topic, thread] = stream
                style = world.rng.choice(("batches", "batches", "next", "iterate"))
                self.users.append(User(self, stream, fetcher, clock, len(self.users) + 1, style))
        self.store.add_session_listener(self._told)
        self._told_first()
        self.coordinator.open()
        self.follower.start()

    def _reset_to(self):
        if self.world.placing.waits_for_users:
            return None
        return LATEST if self.world.brokers.begins_at_end else EARLIEST

    def _make_offsets(self):
        in_zookeeper = ZooKeeperOffsetStore(self.store, GROUP)
        kept = self.world.group_offsets
        if not kept.is_used:
            return in_zookeeper
        channel = Channel(kept, self)
        in_kafka = KafkaOffsetStore(self.store, GROUP, channel, timeout_s=1.0, asking=ask_once)
        return DualOffsetStore(in_zookeeper, in_kafka) if kept.is_dual else in_kafka

    def _holder(self, number, clock):
        clock.strike()
        return self.users[number].ident

    # legacy_consumer.member.stream_delivery.Streams

    def all(self):
        return self._streams.values()

    def stream_of(self, tp, thread):
        return self._streams[tp.topic, thread.thread]

    # The steps that the world takes.

    def _told(self, event):
        if not self.alive:
            return
        self.world.record("told", self.name, event.kind, event.session_id)
        self.wake_at = 0.0

    def _told_first(self):
        self.world.record("told", self.name, SessionKind.CONNECTED, self.store.session_id)

    def _post_and_wake(self, mail):
        self._post(mail)
        self.wake_at = 0.0

    def turn(self):
        """Take one turn of the coordinator. Returns: True if another turn is due now."""
        world = self.world
        assert self not in world.time.frozen, "a process that stands still takes no turn"
        if self.hook_calls is not None and not self.using:
            try:
                self.hook_calls.go_on()
            except Crash:
                if self.alive:
                    world.bury(self)
                return False
        self.turning = True
        world.record("turn", self.name)
        try:
            wait_s = self.coordinator.turn()
        except Crash:
            world.bury(self)
            return False
        except InjectedError:
            # like the coordinator's thread, which survives the error, and waits unless mail has come
            wait_s = 0.0 if self.coordinator._mailbox._bell.is_set() else 1.0
        finally:
            self.turning = False
        if self.coordinator.is_closed:
            self._check_left()
            self.leave()
            return False
        self.wake_at = world.clock.now + wait_s
        if wait_s > 0:
            status = self.coordinator.status
            if self.store.has_told_of_refusal and self.coordinator.refusal is None:
                raise Violation("not told", f"{self.name} does not say that ZooKeeper refuses its credentials")
            _look_for_defect(status.error, may_be_refused=world.led_stranger.is_there)
            world.record("rest", self.name, status.phase, status.owned)
            world.checker.note_requested(self.name, self.store.requested | self.follower.held)
            return False
        return True

    def come_to_rest(self):
        """Take all turns that are due. Raises: Violation if they do not end.

        A failed request begins the count of MAX_TURNS again: the coordinator has a reason for more turns.
        """
        turns, failed = 0, self.world.failed_requests[self.name]
        for _ in range(MAX_TURNS_IN_ALL):
            if not self.turn():
                return
            before, failed = failed, self.world.failed_requests[self.name]
            turns = turns + 1 if failed == before else 0
            if turns == MAX_TURNS:
                break
        raise Violation("never rests", f"{self.name} is as busy after {MAX_TURNS} turns as before")

    def end_streams(self):
        """End all streams, as a signal handler does; the user shuts the member down when the loop is over."""
        self.world.record("ends streams", self.name)
        self.ending = True
        for user in self.users:
            user.stream.end()

    def ask_to_close(self):
        """Do what shutdown() does up to its wait for the coordinator."""
        self.closing = True
        self.world.record("unsubscribes" if self.unsubscribing else "closes", self.name)
        for user in self.users:
            if self.world.rng.random() < 0.3 and not self.using:
                self.delivery.let_go(user.ident)
                user.hand.clear()
        self.close_by = self.world.clock.now + CLOSE_S
        self.coordinator.post(CloseRequested(round(CLOSE_S * 1000)))
        self.wake_at = 0.0

    def _check_left(self):
        """Check that a member that left in time has released all its partitions, unless an ACL may have forbidden that.

        Raises: Violation.
        """
        world, session = self.world, self.coordinator.session_id
        was_forbidden = world.checker.actors[self.name].forbidden_at >= self.close_by - CLOSE_S
        is_excused = was_forbidden or world.denials.are_possible or not world.server.is_alive(session)
        if is_excused or world.clock.now >= self.close_by:
            return
        if left := [
            tp for tp, life in world.checker.owners.items() if (life.actor, life.session) == (self.name, session)
        ]:
            raise Violation("left too early", f"{self.name} has left, its owner znodes of {sorted(left)} have not")

    def leave(self):
        """Do the rest of shutdown(), or of unsubscribe(): then a member joins again in the same session."""
        is_kept = self.unsubscribing and self.coordinator.has_left_nothing
        self.world.record("left", self.name)
        self.alive = False
        self.follower.close()
        for user in self.users:
            user.stream.close()
            user.hand.clear()
        self.world.gone(self)
        if is_kept:
            self.world.join_again(self)
        else:
            self.store.close()

    def resume_all(self):
        """Resume all partitions that users have paused."""
        for stream in self._streams.values():
            stream.resume_partitions(stream.paused())
            for tp in self.world.checker.paused_by(self.name):
                self.world.record("resumed", self.name, tp)

    @property
    def is_settled(self):
        # a member that was frozen may not have read its mail yet
        return self.coordinator.status.phase is Phase.STABLE and not self.coordinator._mailbox._inbox

    @property
    def is_registered(self):
        return self._registration is not None

    @property
    def is_overwritten(self):
        """Whether another client has written the member's id znode; the member notices at its next audit."""
        return self._registration is not None and self._registration.data != self.registrar.data

    @property
    def _registration(self):
        try:
            znode = self.world.server.tree.read(f"{IDS}/{self.consumer_id}")
        except NoNodeError:
            return None
        return znode if znode.stat.ephemeral_owner == self.store.server_session_id else None

    @property
    def owned(self):
        return self.coordinator.status.owned


def _look_for_defect(error, *, may_be_refused):
    """Raise Violation for an error that only a defect causes.

    may_be_refused: a stranger may have written other strategies into a member's offer, until the member writes it anew.
    """
    if may_be_refused and "is refused by the leader" in str(error):
        return
    if (
        isinstance(error, RebalanceError)
        and not isinstance(
            error, (PartitionOwnedError, PartlyBegunError, ConsumerRebalanceFailedError, RegistrationConflictError)
        )
        and InjectedError.__name__ not in str(error)
        # a world also refuses single requests, which causes this error
        and "an ACL hides my own registration" not in str(error)
    ):
        raise Violation("defect", str(error))
