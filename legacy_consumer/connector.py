"""ConsumerConnector: one member of a group, as a user sees it.

It wires the rooms together: the store, the coordinator that keeps the member's share, the streams that hand messages
out, and the fetchers behind them.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType

from legacy_consumer.admin.topic_partitions import read_topic_lives
from legacy_consumer.arguments import (
    check_config,
    check_count,
    check_filter,
    check_flag,
    check_function,
    check_listener,
    check_message,
    check_partition,
    check_partitions,
    check_topic_counts,
    checked_offsets,
    checked_position,
    checked_seconds,
)
from legacy_consumer.broker_watch import BrokerWatch
from legacy_consumer.closing import Closing
from legacy_consumer.config import ConsumerConfig
from legacy_consumer.config.sources import Value
from legacy_consumer.consumer_id import make_consumer_id
from legacy_consumer.counters import ConnectorCounters
from legacy_consumer.errors import (
    ConsumerClosedError,
    MessageStreamsExistError,
    NoSuchPartitionError,
    NoSuchTopicError,
    NotAssignedError,
    NotJoinedError,
    UnsubscribeError,
)
from legacy_consumer.fetcher import FetcherFactory, Message
from legacy_consumer.fetchers import FetcherChoice, choose_fetcher, make_fetchers
from legacy_consumer.interrupted_calls import is_inside, refuse_inside
from legacy_consumer.joining_checks import JoiningChecks, classic_strategy
from legacy_consumer.kafka_stream import KafkaStream
from legacy_consumer.librdkafka import open_group_offsets
from legacy_consumer.listener import GenerationListener, RebalanceListener, StartListener, in_our_words
from legacy_consumer.offsets import (
    CommitResult,
    DualOffsetStore,
    GroupOffsets,
    KafkaOffsetStore,
    OffsetStore,
    RetrySettings,
    ZooKeeperOffsetStore,
)
from legacy_consumer.offsets.retries import coordinator_answer
from legacy_consumer.offsets.store import refuse_unreadable
from legacy_consumer.owning_process import OwningProcess
from legacy_consumer.progress import PartitionProgress, Progress
from legacy_consumer.reset_requests import ResetFollower
from legacy_consumer.stream import GatedStream, this_thread
from legacy_consumer.stream_delivery import DeliverySettings, StreamDelivery
from rebalance.assignors.strategies import make_assignors
from rebalance.clock import Clock, SystemClock
from rebalance.coordinator import Coordinator
from rebalance.counters import MemberCounters, Vitals
from rebalance.events import Doubted, Drained, Event
from rebalance.lease import Lease
from rebalance.led.member import LED, LedMember
from rebalance.led.standing import LedState, Standing
from rebalance.machine import Phase, Policy
from rebalance.mailbox import Errand
from rebalance.ownership import Ownership
from rebalance.registrar import Registrar
from rebalance.snapshot import Assignment, GroupSnapshot, remember_last
from rebalance.status import Status
from rebalance.subscription import TopicFilter
from rebalance.upkeep import Periods
from zk_layout.errors import AuthenticationError, ConfigError, LegacyConsumerError
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, SubscriptionPattern, TopicPartition
from zk_layout.store import ZkStore

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_CLOSE_MARGIN_S = 5.0
"""What leaving may take beyond drain.timeout.ms: a last commit and the release."""
_REBALANCE_MARGIN_MS = 5000
"""How much longer than drain.timeout.ms a led group waits for a member to join again."""
_HASTE_S = 1.0
"""For leaving when joining has failed."""
_CLOSING_PATIENCE_S = 2.0
"""How long a thread waits for another one that frees what a member used."""


class _Streams:
    """Which stream a partition's messages go to (stream_delivery.Streams)."""

    def __init__(self) -> None:
        self.by_key: Mapping[tuple[str | None, int], GatedStream] = {}

    def all(self) -> Collection[GatedStream]:
        """Every stream of the connector."""
        return self.by_key.values()

    def stream_of(self, tp: TopicPartition, thread: ConsumerThreadId) -> GatedStream:
        """A static subscription has streams of its own for each topic, a filter shares them among all."""
        static = self.by_key.get((tp.topic, thread.thread))
        return static if static is not None else self.by_key[None, thread.thread]


class ConsumerConnector:
    """A member of the group `group.id`, in ZooKeeper at `zookeeper.connect`.

    Use it as a context manager, or call shutdown(). Give it a ConsumerConfig, or the properties themselves:
    ConsumerConnector(zookeeper_connect="localhost:2181", group_id="g").

    A signal handler may call shutdown() and end_streams() and look (status, progress, counters, vitals) whatever it
    interrupts. Its other calls raise CallInProgressError where it interrupts one of this connector or of its streams.

    Raises: ConfigError before any I/O; when streams are created ConnectTimeoutError, MissingChrootError,
    AuthenticationError, MissingListenerError, BrokerRefusedError.
    """

    def __init__(
        self,
        config: ConsumerConfig | None = None,
        *,
        store: ZkStore | None = None,
        fetchers: FetcherFactory | None = None,
        group_offsets: GroupOffsets | None = None,
        clock: Clock | None = None,
        **properties: Value,
    ) -> None:
        check_config(config)
        if config is not None and properties:
            msg = "give either a ConsumerConfig or properties"
            raise TypeError(msg)
        self._process = OwningProcess()
        self._config = config or ConsumerConfig.load(None, None, **properties)
        self._clock = clock or SystemClock()
        self._store = store or KazooStore(self._config.zk_settings())
        self._fetcher_choice: FetcherChoice | None = None
        if fetchers is None:
            self._fetcher_choice = choose_fetcher(self._config)
            fetchers = make_fetchers(self._config, self._store, self._fetcher_choice)
        self._fetchers = fetchers
        self.consumer_id = make_consumer_id(self._config.group_id, self._config.consumer_id, self._clock)
        self._progress = Progress()
        self._streams = _Streams()
        self._coordinator: Coordinator | None = None
        self._closed = False
        self._ending = False
        self._left = False
        self._closers: list[Callable[[], None]] = []
        # a signal handler may find its own thread here
        self._lock = threading.RLock()
        self._has_begun = False
        """Whether somebody creates the streams, or has."""
        self._has_joined = False
        """Whether they exist."""
        self._has_warned = False
        self._past = ConnectorCounters(MemberCounters())
        """What was counted before the last unsubscribe()."""
        self._lease = Lease(self._store, self._session_of_claims, self._clock)
        self._brokers = BrokerWatch(self._store, self.consumer_id, self._fetchers.note_brokers)
        self._offsets = self._make_offset_store(group_offsets)
        self._checks = self._make_checks()
        self._delivery = self._make_delivery()
        self._follower = self._make_follower()
        self._led: LedMember | None = None
        self._closing = Closing(
            self.consumer_id,
            [
                self._close_delivery,
                self._close_streams,
                self._brokers.close,
                self._fetchers.close,
                self._offsets.close,
                self._store.close,
                self._call_closers,
            ],
        )

    # Joining.

    def create_message_streams(self, topic_counts: Mapping[str, int]) -> dict[str, list[KafkaStream]]:
        """Join with topic_counts[topic] streams for each topic, and wait for the first share.

        Returns: {topic: its streams, by thread number}. A stream without partitions waits for some. If others hold
        partitions for longer than all tries take, the member is DEGRADED (see status) and its streams begin later.
        Raises: MessageStreamsExistError the second time, unless unsubscribe() was called; StrategyMismatchError,
        MissingListenerError, BrokerRefusedError and, with offsets.storage=kafka, GroupOffsetsUnavailableError before
        anything is registered; errors of ZooKeeper; ConfigError for what is no topic or no number of streams. After a
        retriable error before anything is registered it may be called again, as after a wrong value or
        MessageStreamsExistError; after any other error of joining the connector is shut down.
        """
        check_topic_counts(topic_counts)
        subscription = tuple(topic_counts.items())
        self._join(SubscriptionPattern.STATIC, subscription, [(t, n) for t, c in subscription for n in range(c)])
        return {topic: [self._face(topic, n) for n in range(count)] for topic, count in topic_counts.items()}

    def create_message_streams_by_filter(self, topic_filter: TopicFilter, streams: int = 1) -> list[KafkaStream]:
        """Join with this many streams for all topics that a Whitelist or Blacklist lets through, now and later.

        Raises: as create_message_streams.
        """
        check_filter(topic_filter)
        check_count(streams, "streams")
        self._join(topic_filter.pattern, ((topic_filter.regex, streams),), [(None, n) for n in range(streams)])
        return [self._face(None, n) for n in range(streams)]

    def set_rebalance_listener(self, listener: RebalanceListener | GenerationListener) -> None:
        """Hook into rebalances, with our hooks or with Java's.

        Raises: MessageStreamsExistError when the streams exist already; ConfigError.
        """
        self._check_open()
        check_listener(listener)
        if self._has_begun:
            raise MessageStreamsExistError
        self._delivery.listener = in_our_words(listener)

    # Committing.

    def commit_offsets(
        self, offsets: Mapping[TopicPartition, int] | None = None, *, unfenced: bool = False
    ) -> CommitResult:
        """Commit what was consumed, the messages in this thread's hands included; or the offsets given.

        It is accepted for as long as this member owns its partitions, so while shutdown() waits and in a listener's
        hook too; not in a signal handler that interrupts a call of this connector or of its streams. Given offsets
        ({partition: next offset to read}) move no position, and say that all before them is done. They may name
        partitions that nobody owns, to move them forward; with unfenced=True any partition, anywhere, over its owner.

        Returns: what became of each partition; what commit.conflict=adopt took of other clients is in its `foreign`.
        Raises: OffsetsNotCommittedError naming each partition that was not written, and why; the others are committed.
        OffsetError, TypeError for wrong values; NoSuchTopicError, NoSuchPartitionError; ZooKeeperError; with
        offsets.storage=kafka CommitFailedError after all tries. NotJoinedError before the streams exist,
        ConsumerClosedError once the member has left; CallInProgressError in such a signal handler.
        """
        self._check_has_joined()
        if offsets is None:
            return self._delivery.committer.commit_consumed(this_thread())
        offsets = checked_offsets(offsets)
        check_flag(unfenced, "unfenced")
        self._check_existence([tp for tp in offsets if self._progress.get(tp) is None])
        return self._delivery.committer.commit_offsets(offsets, unfenced=unfenced)

    # Acknowledging.

    def acknowledge(self, message: Message) -> bool:
        """With delivery.rule=acknowledged: this message is done; from any thread, in any order.

        Commits, auto commits too, write the offset of the first message that is not acknowledged. Partitions that are
        to go, and shutdown(), wait up to drain.timeout.ms for the acknowledgement of what was handed out.

        Returns: False if it is not waited for: it was acknowledged already, or handed out before a seek, or its
        partition has gone, and its next owner delivers the message again.
        Raises: TypeError for what is no message; ConfigError with another delivery.rule; NotJoinedError.
        """
        check_message(message)
        if self._config.delivery_rule != "acknowledged":
            what = "must be acknowledged, to acknowledge messages by name"
            raise ConfigError("delivery.rule", self._config.delivery_rule, what)
        self._check_has_joined()
        tp = TopicPartition(message.topic(), message.partition())
        try:
            return self._delivery.stream_with(tp).acknowledge(tp, message.offset())
        except NotAssignedError:
            return False

    # Where partitions are read.

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Hand out a partition of this member from another offset on: the next to read, EARLIEST or LATEST.

        Nothing that was fetched from elsewhere is handed out any more, and what users have in hand of it does not
        count. The next commit, an auto commit too, writes the position that was sought or what was consumed from there
        on, also if that moves the group back: a seek is its user's word. Nothing is committed by the seek itself. A
        paused partition stays paused.

        Raises: NotAssignedError if the partition is not this member's; OffsetError for what is no offset;
        NotJoinedError, ConsumerClosedError.
        """
        position = checked_position(tp, offset)
        self._check_has_joined()
        self._delivery.stream_with(tp).seek(tp, position)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of these until they are resumed, or come anew with a rebalance.

        They stay this member's, and nothing moves. What users have in hand counts as ever. A stream of which all
        partitions are paused waits, as for messages (consumer.timeout.ms). KafkaStream.pause pauses a whole stream.
        Raises: NotAssignedError, and nothing is paused; OffsetError, NotJoinedError, ConsumerClosedError.
        """
        for stream, own in self._by_stream(partitions).items():
            stream.pause_partitions(own)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Undo pause for these: they go on where they stood. Raises: as pause."""
        for stream, own in self._by_stream(partitions).items():
            stream.resume_partitions(own)

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused, by name or with their stream."""
        self._process.check()
        self._check_not_inside()
        return frozenset().union(*(stream.paused() for stream in self._streams.all()))

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of what is handed out next; None while that is not known (EARLIEST, LATEST).

        What is in hand lies before it, and is not consumed yet: see progress. Raises: as seek.
        """
        check_partition(tp)
        self._check_has_joined()
        return self._delivery.stream_with(tp).position(tp)

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """What the group has committed of these, whoever owns them: the next offset to read, None where there is none.

        It is read now, from where the group keeps its offsets (offsets.storage). Raises: OffsetError, also for a
        committed offset that cannot be read; ZooKeeperError, GroupOffsetsUnavailableError; NotJoinedError,
        ConsumerClosedError.
        """
        check_partitions(partitions)
        self._check_has_joined()
        found = self._offsets.read(list(partitions))
        refuse_unreadable(found)
        return {tp: seen.offset for tp, seen in found.items()}

    def lag(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """How many messages come after the position of each of this member's partitions, all by default.

        Asks the brokers, for up to 5 s. A partition is missing where none answers, with no position known, and while
        that lies beyond the log's end. Raises: NotAssignedError; as log_ends.
        """
        check_partitions(() if partitions is None else partitions)
        self._check_has_joined()
        # before the ends, so that a lag is rather too large than too small
        positions: dict[TopicPartition, int | None] = {}
        for tp in self._progress.snapshot() if partitions is None else partitions:
            try:
                positions[tp] = self._delivery.stream_with(tp).position(tp)
            except NotAssignedError:
                # of all that are mine one may just have gone
                if partitions is not None:
                    raise
        ends = self.log_ends(positions)
        return {tp: ends[tp] - at for tp, at in positions.items() if at is not None and tp in ends and at <= ends[tp]}

    def _by_stream(self, partitions: Collection[TopicPartition]) -> dict[GatedStream, list[TopicPartition]]:
        """Raises: NotAssignedError if one of them is not this member's; OffsetError, NotJoinedError."""
        check_partitions(partitions)
        self._check_has_joined()
        grouped: dict[GatedStream, list[TopicPartition]] = {}
        for tp in partitions:
            grouped.setdefault(self._delivery.stream_with(tp), []).append(tp)
        return grouped

    # Looking.

    @property
    def config(self) -> ConsumerConfig:
        """The configuration in use."""
        return self._config

    @property
    def fetcher_choice(self) -> FetcherChoice | None:
        """Which fetcher fetches, and why; None if it was given to the constructor."""
        return self._fetcher_choice

    @property
    def status(self) -> Status:
        """Phase, owned partitions, those held for a reset, the registered brokers, the led group, last error."""
        self._process.check()
        # looked up once: unsubscribe() takes it away
        coordinator = self._coordinator
        led = self._standing(coordinator)
        if coordinator is None:
            return Status(Phase.CREATED, led=led)
        status = coordinator.status
        error = status.error or (led.error if led is not None else None)
        return replace(status, held=self._follower.held, brokers=self._brokers.brokers, led=led, error=error)

    def _standing(self, coordinator: Coordinator | None) -> Standing | None:
        """None with group.coordination=classic."""
        led = self._led
        if coordinator is None or led is None:
            return Standing() if self._config.group_coordination == LED else None
        return led.standing(coordinator.status.phase, connected=coordinator.vitals.connected)

    @property
    def progress(self) -> Mapping[TopicPartition, PartitionProgress]:
        """Consumed and committed offsets of the partitions that are mine."""
        self._process.check()
        if not is_inside(self, *self._streams.all(), but=ConsumerConnector.wait_until.__code__):
            for stream in self._streams.all():
                stream.note_progress()
        return self._progress.snapshot()

    @property
    def vitals(self) -> Vitals:
        """Whether the thread that decides about this member lives and gets on."""
        self._process.check()
        coordinator = self._coordinator
        if coordinator is None:
            return Vitals(False, 0.0, False)
        vitals = coordinator.vitals
        streams = self._streams.all()
        return replace(
            vitals,
            leased=vitals.runs and self._lease.holds(),
            in_hand_s=max((stream.in_hand_s() for stream in streams), default=0.0),
            unasked_s=max((stream.unasked_s() for stream in streams), default=0.0),
        )

    @property
    def counters(self) -> ConnectorCounters:
        """What this member has done so far."""
        self._process.check()
        consumed, committed = self._progress.totals()
        committer = self._delivery.committer
        coordinator, past = self._coordinator, self._past
        return ConnectorCounters(
            coordinator.counters if coordinator is not None else past.member,
            consumed,
            committed,
            past.commits + committer.commits,
            past.failed_commits + committer.failed_commits,
            past.foreign_commits + committer.foreign_commits,
            past.fetch_errors + sum(stream.fetch_errors for stream in self._streams.all()),
            past.listener_errors + self._delivery.listener_errors,
        )

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last message of each, as the brokers tell; takes up to 5 s, and some may be missing.

        Raises: OffsetError; BrokersUnavailableError, MissingListenerError; NotJoinedError, ConsumerClosedError,
        CallInProgressError.
        """
        check_partitions(partitions)
        self._check_has_joined()
        return self._fetchers.log_offsets().latest(partitions)

    def at_shutdown(self, close: Callable[[], None]) -> None:
        """Have close called once when this member has left; at once if it has left already."""
        self._process.check()
        check_function(close, "close")
        with self._lock:
            if not self._left:
                self._closers.append(close)
                return
        close()

    def wait_until(self, reached: Callable[[Status], bool], timeout: float) -> bool:
        """Wait up to timeout seconds until the status is as wanted; True if it is. False at once before it has joined.

        reached: looks at a status, on this thread; what it raises is raised. Raises: TypeError, ValueError for what is
        no function or no time.
        """
        self._process.check()
        check_function(reached, "reached")
        timeout_s = checked_seconds(timeout)
        coordinator = self._coordinator
        return coordinator is not None and coordinator.wait_until(reached, timeout_s)

    # Leaving.

    def unsubscribe(self, timeout: float | None = None) -> None:
        """Drain, commit, release and leave the group as shutdown() does, end the streams, and keep the connector.

        Streams may be created again afterwards, of other topics too: the connector joins anew, in the same session,
        with the same listener unless another one is set, and under another consumer_id unless consumer.id is
        configured. Without streams it does nothing. timeout: as of shutdown(); what the calling thread has in hand is
        delivered again likewise.

        Raises: UnsubscribeError if the group was not left in order by then, as while ZooKeeper does not answer: the
        connector is shut down. NotJoinedError while another thread creates the streams; TypeError and ValueError for
        what is no time; ConsumerClosedError, CallInProgressError.
        """
        timeout_s = self._time_to_leave(timeout)
        self._check_open()
        self._check_not_inside()
        with self._lock:
            if not self._has_begun:
                return
            if not self._has_joined:
                raise NotJoinedError
            coordinator = self._coordinator
        assert coordinator is not None
        self._leave_group(timeout_s)
        self._close_delivery()
        self._close_streams()
        with self._lock:
            self._check_open()
            if self._coordinator is not coordinator:
                return  # another thread has unsubscribed as well
            if coordinator.has_left_nothing and (self._led is None or self._led.leave()):
                self._begin_anew()
                return
        self.shutdown(timeout_s)
        raise UnsubscribeError(self.consumer_id, timeout_s)

    def _begin_anew(self) -> None:
        """As it was before the streams, but for what was counted."""
        listener = self._delivery.listener
        self._past = self.counters
        self._coordinator = self._led = None
        self._streams.by_key = {}
        # an id that was made up lives once: its registration is not read again
        self.consumer_id = make_consumer_id(self._config.group_id, self._config.consumer_id, self._clock)
        self._checks = self._make_checks()
        self._delivery = self._make_delivery()
        self._delivery.listener = listener
        self._follower = self._make_follower()
        self._has_begun = self._has_joined = False

    def end_streams(self) -> None:
        """Let every stream end after the message in hand; shutdown() is still to be called.

        A signal handler may call it at any time. Streams that do not exist yet end as soon as they do, also after
        unsubscribe(). In a forked child it does nothing.
        """
        if self._process.is_elsewhere:
            return
        self._ending = True
        for stream in self._streams.all():
            stream.end()

    def shutdown(self, timeout: float | None = None) -> None:
        """Drain, commit, release, leave the group, and end the streams.

        timeout: seconds for doing it in order, math.inf is as good as for ever; default: drain.timeout.ms and a margin.
        It returns within 5 seconds more in any state: what cannot be done in order by then is done in haste, or left to
        the end of the session. What the calling thread itself has in hand is not waited for: it is delivered again,
        unless commit_offsets() was called.

        Any thread may call it, a listener's hook and a signal handler too, and again: what an earlier call did not
        finish is finished. In a handler that interrupts a call of this connector or of its streams it returns at once,
        a thread does the work, and the interrupted loop ends by itself. In a forked child it does nothing: the member
        is the parent's.

        Raises: TypeError and ValueError for what is no time, before anything is done; what a part raised while it was
        closed, when all the others are.
        """
        if self._process.is_elsewhere:
            return
        timeout_s = self._time_to_leave(timeout)
        self._closed = True
        if is_inside(self, *self._streams.all()):
            # what the signal interrupted may hold locks, and goes on only when this returns
            threading.Thread(target=self._leave_quietly, args=(timeout_s,), name=f"{self.consumer_id}-shutdown").start()
            return
        self._leave(timeout_s)

    def _time_to_leave(self, timeout: float | None) -> float:
        return self._config.drain_timeout_ms / 1000 + _CLOSE_MARGIN_S if timeout is None else checked_seconds(timeout)

    def _leave(self, timeout_s: float) -> None:
        try:
            self._leave_group(timeout_s)
        finally:
            self._closing.run(_CLOSING_PATIENCE_S)

    def _leave_group(self, timeout_s: float) -> None:
        self._follower.close()
        self._delivery.begin_closing(timeout_s)
        self._delivery.let_go(this_thread())
        with self._lock:
            coordinator = self._coordinator
        if coordinator is not None:
            coordinator.close(timeout_s)

    def _leave_quietly(self, timeout_s: float) -> None:
        # what it raises was logged, and the next call tries it again
        with contextlib.suppress(Exception):
            self._leave(timeout_s)

    def _close_delivery(self) -> None:
        self._delivery.close()

    def _close_streams(self) -> None:
        Closing(self.consumer_id, [stream.close for stream in self._streams.all()]).run(_CLOSING_PATIENCE_S)

    def _call_closers(self) -> None:
        with self._lock:
            self._left = True
            closers, self._closers = self._closers, []
        Closing(self.consumer_id, closers).run(_CLOSING_PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.shutdown()
        except Exception:
            # it was logged, and must not hide what the user's code raised
            if exc is None:
                raise

    # Inside.

    def _face(self, topic: str | None, number: int) -> KafkaStream:
        return KafkaStream(self._streams.by_key[topic, number])

    def _doubt_ownership(self) -> None:
        if self._coordinator is not None:
            self._coordinator.post(Doubted())

    def _may_hand_out(self) -> bool:
        """Raises: AuthenticationError, to a consuming thread that would wait for ever."""
        if self._lease.holds():
            return True
        refusal = self._coordinator.refusal if self._coordinator is not None else None
        if refusal is not None:
            raise AuthenticationError(str(refusal))
        return False

    def _session_of_claims(self) -> int:
        return self._coordinator.session_id if self._coordinator is not None else 0

    def _join(
        self,
        pattern: SubscriptionPattern,
        subscription: tuple[tuple[str, int], ...],
        streams: list[tuple[str | None, int]],
    ) -> None:
        self._check_open()
        self._check_not_inside()
        if self._config.topics_by_hand and not isinstance(self._delivery.listener, StartListener):
            what = "needs a listener whose starting_offsets says where they go on: set it before the streams"
            raise ConfigError("offsets.by.hand", self._config.offsets_by_hand, what)
        with self._lock:
            if self._has_begun:
                raise MessageStreamsExistError
            self._has_begun = True
        try:
            self._warn_once()
            self._store.start()
            self._brokers.start()
            self._fetchers.check_access()
            if pattern is SubscriptionPattern.STATIC:
                self._checks.warn_of_missing(topic for topic, _ in subscription)
            self._checks.check_strategy()
            registration = ConsumerRegistration(
                pattern, subscription, self._clock.wall_ms(), coordination=self._config.group_coordination
            )
            self._checks.check_offsets(registration)
            coordinator = self._make_coordinator(registration)
            with self._lock:
                # whoever shuts down after this finds a coordinator to close
                self._check_open()
                coordinator.counters = self._past.member
                self._coordinator = coordinator
                # replaced, never changed: a signal handler goes over them
                self._streams.by_key = {key: self._make_stream(coordinator) for key in streams}
            if self._ending:
                self.end_streams()
            coordinator.start()
            self._follower.start()
            self._await_first_share(coordinator)
            self._has_joined = True
        except LegacyConsumerError as error:
            was_closed = self._closed
            if self._coordinator is None and error.retriable and not was_closed:
                # nothing was written: as if it had not been tried, so it can be tried again
                self._has_begun = False
                raise
            self._closed = True
            self._leave(_HASTE_S)
            if was_closed:
                raise ConsumerClosedError from error
            raise
        except BaseException:
            self._closed = True
            self._leave(_HASTE_S)
            raise

    def _warn_once(self) -> None:
        if not self._has_warned:
            for warning in self._config.warnings:
                logger.warning("%s: %s", self.consumer_id, warning)
            for note in self._config.notes:
                logger.info("%s: %s", self.consumer_id, note)
            self._has_warned = True

    def _await_first_share(self, coordinator: Coordinator) -> None:
        # the machine itself ends the wait: its tries are bounded
        while not coordinator.wait_until(self._first_share_is_decided, 1.0):
            pass
        status = coordinator.status
        if status.error is not None and not status.error.retriable:
            raise status.error
        if status.phase is Phase.CLOSED:
            raise ConsumerClosedError
        if status.phase is Phase.DEGRADED and (mismatch := self._checks.mismatch()) is not None:
            # it could not be seen before I joined, while the group was moving
            self._checks.judge(mismatch)

    def _make_checks(self) -> JoiningChecks:
        return JoiningChecks(self._config, self.consumer_id, self._store, self._offsets, self._clock, self._check_open)

    def _make_delivery(self) -> StreamDelivery:
        config = self._config
        return StreamDelivery(
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
            offsets=self._offsets,
            progress=self._progress,
            log_offsets=self._fetchers.log_offsets,
            streams=self._streams,
            session_id=self._session_of_claims,
            on_unowned=self._doubt_ownership,
        )

    def _first_share_is_decided(self, status: Status) -> bool:
        if status.error is not None and not status.error.retriable:
            return True
        if status.phase is Phase.STABLE:
            led = self._standing(self._coordinator)
            return led is None or led.state is LedState.MEMBER
        return status.phase in (Phase.DEGRADED, Phase.CLOSED)

    def _make_follower(self) -> ResetFollower:
        def post(errand: Errand) -> None:
            if self._coordinator is not None:
                self._coordinator.post(errand)

        def later(errand: Errand, delay_ms: int) -> None:
            if self._coordinator is not None:
                self._coordinator.post_later(errand, delay_ms)

        storage = self._config.offsets_storage
        return ResetFollower(
            self._store,
            self._config.group_id,
            self.consumer_id,
            self._delivery,
            offsets=self._offsets,
            progress=self._progress,
            post=post,
            later=later,
            keeps_folder=self._config.zookeeper_set_acl,
            refusal=None if storage == "zookeeper" else f"it keeps its offsets in {storage}: offsets.storage",
            topics_by_hand=self._config.topics_by_hand,
        )

    def _make_coordinator(self, registration: ConsumerRegistration) -> Coordinator:
        config = self._config
        group = config.group_id
        ownership = Ownership(self._store, group, self.consumer_id)
        assign = remember_last(classic_strategy(config).assign)
        if config.group_coordination == LED:
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
                # kazoo sees a dead connection within two thirds of the session timeout; what is left of it is a third
                suspicion_ms=self._store.session_timeout_ms // 4,
                drain_timeout_ms=config.drain_timeout_ms,
                gather_ms=config.group_initial_rebalance_delay_ms,
                absence_ms=config.scheduled_rebalance_max_delay_ms,
            ),
            periods=Periods(
                commit_ms=config.auto_commit_interval_ms if config.auto_commit_enable else 0,
                audit_ms=config.audit_interval_ms,
            ),
            clock=self._clock,
        )

    def _make_led_member(self, ownership: Ownership, classic: Callable[[GroupSnapshot], Assignment]) -> LedMember:
        config = self._config

        def post(mail: Errand | Event) -> None:
            if self._coordinator is not None:
                self._coordinator.post(mail)

        def later(errand: Errand, delay_ms: int) -> None:
            if self._coordinator is not None:
                self._coordinator.post_later(errand, delay_ms)

        return LedMember(
            self._store,
            config.group_id,
            self.consumer_id,
            make_assignors(config.partition_assignment_strategy, dict(config.assignment)),
            classic=classic,
            session_id=self._session_of_claims,
            owned=lambda: ownership.owned,
            post=post,
            later=later,
            tell_nothing_revoked=self._delivery.tell_nothing_revoked,
            tell_nothing_assigned=self._delivery.tell_nothing_assigned,
            clock=self._clock,
            # a member that drains that long joins after it
            rebalance_timeout_ms=config.drain_timeout_ms + _REBALANCE_MARGIN_MS,
            initial_delay_ms=config.group_initial_rebalance_delay_ms,
        )

    def _make_offset_store(self, group_offsets: GroupOffsets | None) -> OffsetStore:
        config = self._config
        zookeeper = ZooKeeperOffsetStore(self._store, config.group_id)
        if config.offsets_storage == "zookeeper":
            return zookeeper
        kafka = KafkaOffsetStore(
            self._store,
            config.group_id,
            group_offsets or open_group_offsets(config, self._store),
            zookeeper,
            # the coordinator's thread waits for it, which must hear in time that ZooKeeper is out of sight
            timeout_s=min(config.offsets_channel_socket_timeout_ms, config.zookeeper_session_timeout_ms / 3) / 1000,
            asking=partial(coordinator_answer, config.offsets_channel_backoff_ms / 1000),
        )
        return DualOffsetStore(zookeeper, kafka) if config.dual_commit_enabled else kafka

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

    def _check_not_inside(self) -> None:
        """Raises: CallInProgressError in a signal handler that interrupted a call of this connector or its streams."""
        # what wait_until() is to look at may call anything
        refuse_inside(self, *self._streams.all(), but=ConsumerConnector.wait_until.__code__)

    def _check_open(self) -> None:
        self._process.check()
        if self._closed:
            raise ConsumerClosedError

    def _check_has_joined(self) -> None:
        """A member that is being shut down waits for its users, and what they are done with meanwhile counts."""
        coordinator = self._coordinator
        if coordinator is None:
            self._check_open()
            raise NotJoinedError
        self._process.check()
        if self._closed and coordinator.is_closed:
            raise ConsumerClosedError
        self._check_not_inside()

    def _check_existence(self, partitions: Collection[TopicPartition]) -> None:
        """An offset of what does not exist would stay for ever, and be some later topic's.

        Raises: NoSuchTopicError, NoSuchPartitionError.
        """
        if not partitions:
            return
        lives = read_topic_lives(self._store, {tp.topic for tp in partitions})
        for tp in sorted(partitions):
            if tp.topic not in lives:
                raise NoSuchTopicError(tp.topic)
            if tp.partition not in lives[tp.topic].partitions:
                raise NoSuchPartitionError(tp, len(lives[tp.topic].partitions))
