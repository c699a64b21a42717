"""ConsumerConnector: one member of a group, as the user's code sees it.

It connects the parts of a member: the store, the coordinator, which keeps the member's share, the streams, which hand
messages out, and the fetchers, which get them from brokers.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.config.sources import Value
from legacy_consumer.errors import (
    CallInProgressError,
    ConsumerClosedError,
    MessageStreamsExistError,
    NoSuchPartitionError,
    NoSuchTopicError,
    NotAssignedError,
    NotJoinedError,
    UnsubscribeError,
)
from legacy_consumer.fetching.fetcher import FetcherFactory, Message
from legacy_consumer.fetching.fetchers import FetcherChoice, choose_fetcher, loading, make_fetchers
from legacy_consumer.member.arguments import (
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
from legacy_consumer.member.broker_watch import BrokerWatch
from legacy_consumer.member.closing import Closing
from legacy_consumer.member.counters import ConnectorCounters
from legacy_consumer.member.hand_source import this_thread
from legacy_consumer.member.interrupted_calls import is_inside
from legacy_consumer.member.kafka_stream import KafkaStream
from legacy_consumer.member.listener import STARTS, GenerationListener, RebalanceListener, has_hooks, in_our_words
from legacy_consumer.member.membership import Membership, StreamKey
from legacy_consumer.member.owning_process import OwningProcess
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets import (
    CommitResult,
    DualOffsetStore,
    GroupOffsets,
    KafkaOffsetStore,
    OffsetStore,
    ZooKeeperOffsetStore,
)
from legacy_consumer.offsets.progress import PartitionProgress, Progress
from legacy_consumer.offsets.retries import coordinator_answer
from legacy_consumer.offsets.store import refuse_unreadable
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from rebalance.clock import Clock, SystemClock
from rebalance.counters import MemberCounters, Vitals
from rebalance.machine import Phase
from rebalance.status import Status
from rebalance.subscription import TopicFilter
from zk_layout.codecs import encode_registration
from zk_layout.errors import ConfigError, LegacyConsumerError
from zk_layout.kazoo_store import KazooStore
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition
from zk_layout.running_threads import OwnThread
from zk_layout.store import ZkStore

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

logger = safe_logger(__name__)

_CLOSE_MARGIN_S = 5.0
"""The time for leaving beyond drain.timeout.ms: a last commit and the release."""
_HASTE_S = 1.0
"""The time for leaving after joining has failed."""
_CLOSING_PATIENCE_S = 2.0
"""How long a thread waits for another thread that closes the parts of a member."""


class ConsumerConnector:
    """A member of the group `group.id`, in ZooKeeper at `zookeeper.connect`.

    Use it as a context manager, or call shutdown(). Pass a ConsumerConfig, or the properties themselves:
    ConsumerConnector(zookeeper_connect="localhost:2181", group_id="g").

    A signal handler may always call shutdown() and end_streams() and read status, progress, counters and vitals. Its
    other calls raise CallInProgressError if it interrupts a call of this connector or of its streams.

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
        self._progress = Progress()
        self._closed = False
        self._ending = False
        self._left = False
        self._closers: list[Callable[[], None]] = []
        # reentrant: a signal handler may run on a thread that holds it
        self._lock = threading.RLock()
        self._unsubscribing = threading.Lock()
        """Held for requests to ZooKeeper, so shutdown() never takes it."""
        self._has_warned = False
        self._offsets = _open_offset_store(self._config, self._store, group_offsets)
        self._membership = self._new_membership(ConnectorCounters(MemberCounters()))
        """unsubscribe() replaces it in one assignment, so each call looks it up once."""
        self._brokers = BrokerWatch(self._store, self.consumer_id, self._fetchers.note_brokers)
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

    @property
    def consumer_id(self) -> str:
        """The id under which this member is registered; unsubscribe() makes another one, unless consumer.id is set."""
        return self._membership.consumer_id

    # Joining.

    def create_message_streams(self, topic_counts: Mapping[str, int]) -> dict[str, list[KafkaStream]]:
        """Join with topic_counts[topic] streams for each topic, and wait for the first share.

        Returns: {topic: its streams, by thread number}. A stream without partitions waits for some. If other members
        keep partitions for longer than all tries take, the member is DEGRADED (see status) and its streams begin later.
        Raises: MessageStreamsExistError the second time, unless unsubscribe() was called; StrategyMismatchError,
        MissingListenerError, BrokerRefusedError and, with offsets.storage=kafka, GroupOffsetsUnavailableError before
        anything is registered; errors of ZooKeeper; ConfigError for an invalid topic or number of streams. After a
        retriable error before anything is registered it may be called again, as after a wrong value or
        MessageStreamsExistError; after any other error of joining the connector is shut down.
        """
        check_topic_counts(topic_counts)
        subscription = tuple(topic_counts.items())
        keys: list[StreamKey] = [(topic, n) for topic, count in subscription for n in range(count)]
        streams = self._join(SubscriptionPattern.STATIC, subscription, keys)
        return {topic: [streams[topic, n] for n in range(count)] for topic, count in subscription}

    def create_message_streams_by_filter(self, topic_filter: TopicFilter, streams: int = 1) -> list[KafkaStream]:
        """Join with this many streams for all topics that a Whitelist or Blacklist lets through, now and later.

        Raises: as create_message_streams.
        """
        check_filter(topic_filter)
        check_count(streams, "streams")
        keys: list[StreamKey] = [(None, n) for n in range(streams)]
        return list(self._join(topic_filter.pattern, ((topic_filter.regex, streams),), keys).values())

    def set_rebalance_listener(self, listener: RebalanceListener | GenerationListener | None) -> None:
        """Set the listener, with the hooks of RebalanceListener or of Java's; None removes it.

        Raises: MessageStreamsExistError when the streams exist already; ConfigError.
        """
        self._check_open()
        check_listener(listener)
        with self._lock:
            if self._membership.is_taken:
                raise MessageStreamsExistError
            self._membership.delivery.telling.listener = in_our_words(listener)

    # Committing.

    def commit_offsets(
        self, offsets: Mapping[TopicPartition, int] | None = None, *, unfenced: bool = False
    ) -> CommitResult:
        """Commit all consumed messages, including the calling thread's messages in hand; or the given offsets.

        It works as long as this member owns its partitions, so also while shutdown() waits and in a listener's hook;
        not in a signal handler that interrupts a call of this connector or of its streams. Given offsets ({partition:
        next offset to read}) move no position, and mark all messages before them as done. One that lies before the
        consumed messages of a partition of this member stands only until the next commit, also an auto commit. They may
        name partitions without an owner, to move them forward; with unfenced=True any partition, in any direction, even
        against its owner. If a topic is deleted while its offset is written, the offset may stay; it does not count for
        a new topic of that name.

        Returns: the outcome of each partition; offsets of other clients that were adopted (commit.conflict=adopt), or
        that stand because an operator resets the partition, are in `foreign`.
        Raises: OffsetsNotCommittedError naming each partition that was not written, and why; the others are committed.
        OffsetError, TypeError for wrong values; NoSuchTopicError, NoSuchPartitionError; ZooKeeperError; with
        offsets.storage=kafka CommitFailedError after all tries. NotJoinedError before the streams exist,
        ConsumerClosedError once the member has left; CallInProgressError in such a signal handler.
        """
        committer = self._joined().delivery.committer
        check_flag(unfenced, "unfenced")
        if offsets is None:
            if unfenced:
                msg = "unfenced=True is for offsets that are given by name"
                raise TypeError(msg)
            return committer.commit_consumed(this_thread())
        offsets = checked_offsets(offsets)
        self._check_existence([tp for tp in offsets if self._progress.get(tp) is None])
        return committer.commit_offsets(offsets, unfenced=unfenced)

    # Acknowledging.

    def acknowledge(self, message: Message) -> bool:
        """Mark this message as done, with delivery.rule=acknowledged; from any thread, in any order.

        Commits, also auto commits, write the offset of the first message that is not acknowledged. Before a release,
        and in shutdown(), the member waits up to drain.timeout.ms for the acknowledgement of the messages handed out.

        Returns: False if the member does not wait for it: it was acknowledged already, was handed out before a seek or
        before auto.offset.reset moved the position back, or the member no longer owns its partition, also after
        unsubscribe() and shutdown(), and the next owner delivers the message again.
        Raises: TypeError for a value that is no message; ConfigError with another delivery.rule; CallInProgressError.
        """
        check_message(message)
        if self._config.delivery_rule != "acknowledged":
            what = "must be acknowledged, to acknowledge messages by name"
            raise ConfigError("delivery.rule", self._config.delivery_rule, what)
        tp = TopicPartition(message.topic(), message.partition())
        try:
            return self._joined().delivery.stream_with(tp).acknowledge(tp, message.offset())
        except (NotAssignedError, NotJoinedError, ConsumerClosedError):
            return False

    # Where partitions are read.

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Move a partition of this member to another position: the next offset to read, EARLIEST or LATEST.

        Messages fetched before are not handed out any more, and messages in hand of the partition do not count as
        consumed. The next commit, also an auto commit, writes the new position or the progress from there on, even if
        that moves the group back, since the user's code asked for it. The seek itself commits nothing. A paused
        partition stays paused.

        Raises: NotAssignedError if this member does not own the partition; OffsetError for an invalid offset;
        NotJoinedError, ConsumerClosedError.
        """
        position = checked_position(tp, offset)
        self._joined().delivery.stream_with(tp).seek(tp, position)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no messages of these partitions until they are resumed, or claimed again, by any member.

        The member still owns them, and the group does not rebalance. Messages in hand count as usual. A stream whose
        partitions are all paused waits as for messages (consumer.timeout.ms). KafkaStream.pause pauses a whole stream.
        Raises: NotAssignedError, and nothing is paused; OffsetError, NotJoinedError, ConsumerClosedError.
        """
        for stream, own in self._by_stream(partitions).items():
            stream.pause_partitions(own)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Undo pause: the partitions continue at their positions. A stream that was paused as a whole stays so.

        Raises: as pause.
        """
        for stream, own in self._by_stream(partitions).items():
            stream.resume_partitions(own)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused, by name or with their stream."""
        self._process.check()
        membership = self._membership
        self._check_not_inside(membership)
        return frozenset().union(*(stream.paused() for stream in membership.streams.all()))

    def position(self, tp: TopicPartition) -> int | None:
        """Return the offset of the next message to hand out; None while it is not known (EARLIEST, LATEST).

        Messages in hand are before it, and not consumed yet: see progress. Raises: as seek.
        """
        check_partition(tp)
        return self._joined().delivery.stream_with(tp).position(tp)

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the group's committed offsets of these partitions, of any owner: the next offset to read, or None.

        The call asks the store of the group's offsets (offsets.storage). While ZooKeeper does not answer, that
        takes up to 10 s, or zookeeper.session.timeout.ms if that is longer; with offsets in Kafka up to
        offsets.channel.socket.timeout.ms more, and at most a third of the session timeout.
        Raises: OffsetError, also for a committed offset that cannot be read; ZooKeeperError,
        GroupOffsetsUnavailableError; NotJoinedError, ConsumerClosedError.
        """
        check_partitions(partitions)
        self._joined()
        found = self._offsets.read(list(partitions))
        refuse_unreadable(found)
        return {tp: seen.offset for tp, seen in found.items()}

    def lag(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return how many messages come after the position of each of this member's partitions, all by default.

        Ask the brokers, as log_ends. A partition is missing if no broker answers for it, while its position is not
        known, and while its position lies beyond the log's end. Raises: NotAssignedError; as log_ends.
        """
        check_partitions(() if partitions is None else partitions)
        membership = self._joined()
        # read before the ends, so that a lag is rather too large than too small
        positions: dict[TopicPartition, int | None] = {}
        for tp in self._progress.snapshot() if partitions is None else partitions:
            try:
                positions[tp] = membership.delivery.stream_with(tp).position(tp)
            except NotAssignedError:
                # the member may have lost one of its partitions a moment ago
                if partitions is not None:
                    raise
        ends = self.log_ends(positions)
        return {tp: ends[tp] - at for tp, at in positions.items() if at is not None and tp in ends and at <= ends[tp]}

    def _by_stream(self, partitions: Collection[TopicPartition]) -> dict[GatedStream, list[TopicPartition]]:
        """Return the partitions by their stream. Raises: NotAssignedError, OffsetError, NotJoinedError."""
        check_partitions(partitions)
        membership = self._joined()
        grouped: dict[GatedStream, list[TopicPartition]] = {}
        for tp in partitions:
            grouped.setdefault(membership.delivery.stream_with(tp), []).append(tp)
        # checked before the first stream changes; a loss after the check is the same as a loss after the call
        for stream, own in grouped.items():
            stream.check_assigned(own)
        return grouped

    # Looking.

    @property
    def config(self) -> ConsumerConfig:
        """The configuration in use."""
        return self._config

    @property
    def fetcher_choice(self) -> FetcherChoice | None:
        """The chosen fetcher and the reason; None if the fetcher was given to the constructor."""
        return self._fetcher_choice

    @property
    def status(self) -> Status:
        """Phase, owned partitions, those held for a reset, the registered brokers, the led group, last error."""
        self._process.check()
        return self._status_of(self._membership)

    def _status_of(self, membership: Membership) -> Status:
        status = membership.status(self._brokers.brokers)
        return replace(status, phase=Phase.CLOSED) if self._closed and status.phase is Phase.CREATED else status

    @property
    def progress(self) -> Mapping[TopicPartition, PartitionProgress]:
        """Consumed and committed offsets of the partitions that this member owns."""
        self._process.check()
        membership = self._membership
        if not self._is_inside(membership):
            for stream in membership.streams.all():
                stream.note_progress()
        return self._progress.snapshot()

    @property
    def vitals(self) -> Vitals:
        """The state of the coordinator's thread, and how long the user's code has not asked for messages."""
        self._process.check()
        return self._membership.vitals()

    @property
    def counters(self) -> ConnectorCounters:
        """The counts of this member so far."""
        self._process.check()
        return self._membership.counters()

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Ask the brokers for the log end of each partition, the offset after the last message; some may be missing.

        It takes up to 5 s, and while ZooKeeper does not answer up to 10 s more, or zookeeper.session.timeout.ms if that
        is longer: the member reads the leaders of the partitions from ZooKeeper first.
        Raises: OffsetError; ZooKeeperError, BrokersUnavailableError, MissingListenerError; NotJoinedError,
        ConsumerClosedError, CallInProgressError.
        """
        check_partitions(partitions)
        self._joined()
        return self._fetchers.log_offsets().latest(partitions)

    def at_shutdown(self, close: Callable[[], None]) -> None:
        """Call close once after this member has left; at once if it has left already.

        The connector is closed then: close can read its status, progress, counters and vitals, and do nothing else with
        it. After an exception in close, also Ctrl-C, all other functions are called; then shutdown() raises it.
        """
        self._process.check()
        check_function(close, "close")
        with self._lock:
            if not self._left:
                self._closers.append(close)
                return
        close()

    def wait_until(self, reached: Callable[[Status], bool], timeout: float) -> bool:
        """Wait up to timeout seconds until the status is as wanted; True if it is. False at once before it has joined.

        reached: gets a status, on this thread; its exceptions reach the caller. Raises: TypeError, ValueError for an
        invalid function or time.
        """
        self._process.check()
        check_function(reached, "reached")
        timeout_s = checked_seconds(timeout)
        membership = self._membership
        return membership.wait_until(reached, timeout_s, partial(self._status_of, membership))

    # Leaving.

    def unsubscribe(self, timeout: float | None = None) -> None:
        """Drain, commit, release and leave the group as shutdown() does, end the streams, and keep the connector.

        Streams may be created again afterwards, of other topics too: the connector joins anew, in the same session,
        with the same listener unless another one is set, and under another consumer_id unless consumer.id is
        configured. Without streams it does nothing. timeout, and messages in hand: as of shutdown().

        Raises: UnsubscribeError if the group was not left in order by then, as while ZooKeeper does not answer: the
        connector is shut down. A member that is not registered, because another one has its consumer.id or its session
        has expired, does not wait for the timeout: it raises that at once if its first request fails, or if it has no
        connection. NotJoinedError while another thread creates the streams; TypeError and ValueError for an invalid
        time; ConsumerClosedError, CallInProgressError.
        """
        timeout_s = self._time_to_leave(timeout)
        self._check_open()
        self._check_not_inside(self._membership)
        with self._lock:
            membership = self._membership
            if not membership.is_taken:
                return
            if not membership.has_joined:
                raise NotJoinedError
        membership.leave(timeout_s)
        membership.delivery.close()
        membership.close_streams(_CLOSING_PATIENCE_S)
        with self._unsubscribing:
            self._check_open()
            if self._membership is not membership:
                return  # another thread has unsubscribed as well
            if membership.has_left_in_order():
                following = self._new_membership(membership.counters())
                following.delivery.telling.take_over(membership.delivery.telling)
                with self._lock:
                    self._check_open()
                    self._membership = following
                return
        self.shutdown(timeout_s)
        raise UnsubscribeError(self.consumer_id, timeout_s)

    def end_streams(self) -> None:
        """Let every stream end after the message in hand; shutdown() is still to be called.

        A signal handler may call it at any time. Streams that do not exist yet end as soon as they do, also after
        unsubscribe(). In a forked child it does nothing.
        """
        if self._process.is_elsewhere:
            return
        self._ending = True
        for stream in self._membership.streams.all():
            stream.end()

    def shutdown(self, timeout: float | None = None) -> None:
        """Drain, commit, release, leave the group, and end the streams.

        timeout: seconds for a clean end, math.inf for no limit; default: drain.timeout.ms and a margin. It returns at
        most 5 seconds later in any state: steps that are not done by then are cut short, or left to the end of the
        session. It does not wait for messages that the calling thread itself has in hand: they are delivered again,
        unless commit_offsets() was called, or delivery.rule=at_next counted them. With delivery.rule=acknowledged it
        waits, up to drain.timeout.ms, until all messages handed out are acknowledged, on whichever thread it is called.
        Ctrl-C cuts it short: with auto commit, if ZooKeeper answers, it commits the finished messages; then it closes
        all connections and raises the KeyboardInterrupt.

        Any thread may call it, also a listener's hook and a signal handler, and repeatedly: a later call finishes the
        steps that an earlier one could not. In a handler that interrupts a call of this connector or of its streams it
        returns at once, a thread does the work, and the interrupted loop ends by itself; also in a logging handler or a
        finaliser that runs on a thread of the library. In a forked child it does nothing: the member belongs to the
        parent.

        Raises: TypeError and ValueError for an invalid timeout, before any step; the error of a part, after all other
        parts are closed.
        """
        if self._process.is_elsewhere:
            return
        timeout_s = self._time_to_leave(timeout)
        self._closed = True
        if is_inside(self, *self._membership.streams.all()) or OwnThread.is_current():
            # the interrupted call may hold locks, or the steps may wait for it; it continues only after this returns
            threading.Thread(target=self._leave_quietly, args=(timeout_s,), name=f"{self.consumer_id}-shutdown").start()
            return
        self._leave(timeout_s)

    def _time_to_leave(self, timeout: float | None) -> float:
        return self._config.drain_timeout_ms / 1000 + _CLOSE_MARGIN_S if timeout is None else checked_seconds(timeout)

    def _leave(self, timeout_s: float) -> None:
        try:
            with self._lock:
                membership = self._membership
            membership.leave(timeout_s)
        except BaseException:
            # Closing has logged its errors; they must not hide a Ctrl-C
            with contextlib.suppress(Exception):
                self._closing.run(_CLOSING_PATIENCE_S)
            raise
        self._closing.run(_CLOSING_PATIENCE_S)

    def _leave_quietly(self, timeout_s: float) -> None:
        # its errors are logged, and the next shutdown() tries the failed steps again
        with contextlib.suppress(Exception):
            self._leave(timeout_s)

    def _close_delivery(self) -> None:
        self._membership.delivery.close()

    def _close_streams(self) -> None:
        self._membership.close_streams(_CLOSING_PATIENCE_S)

    def _call_closers(self) -> None:
        with self._lock:
            self._left = True
        Closing(self.consumer_id, [self._call_next_closer] * len(self._closers)).run(_CLOSING_PATIENCE_S)

    def _call_next_closer(self) -> None:
        # removed as it is called: after an exception between two calls, the next shutdown() makes the others
        self._closers.pop(0)()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.shutdown()
        except Exception:
            # the error is logged, and must not hide the one that the user's code raised
            if exc is None:
                raise

    # Inside.

    def _new_membership(self, past: ConnectorCounters) -> Membership:
        return Membership(
            self._config,
            self._store,
            self._fetchers,
            self._offsets,
            self._progress,
            self._clock,
            check_open=self._check_open,
            past=past,
        )

    def _join(
        self,
        pattern: SubscriptionPattern,
        subscription: tuple[tuple[str, int], ...],
        streams: list[StreamKey],
    ) -> dict[StreamKey, KafkaStream]:
        self._check_open()
        self._check_not_inside(self._membership)
        registration = ConsumerRegistration(
            pattern, subscription, self._clock.wall_ms(), coordination=self._config.group_coordination
        )
        # refuses one that is too large before any I/O, as other wrong values
        encode_registration(registration)
        with self._lock:
            membership = self._membership
            if membership.is_taken:
                raise MessageStreamsExistError
            if self._config.topics_by_hand and not has_hooks(membership.delivery.telling.listener, STARTS):
                what = "needs a listener whose starting_offsets says where they go on: set it before the streams"
                raise ConfigError("offsets.by.hand", self._config.offsets_by_hand, what)
            membership.is_taken = True
        try:
            self._warn_once()
            self._store.start()
            self._brokers.start()
            self._fetchers.check_access()
            membership.checks.check_strategy()
            membership.checks.check_offsets(registration)
            coordinator = membership.make_coordinator(registration)
            with self._lock:
                # a shutdown() after this finds a coordinator to close
                self._check_open()
                membership.begin(coordinator, streams)
            if self._ending:
                self.end_streams()
            membership.join(coordinator)
            # another thread may have unsubscribed meanwhile; then these streams have ended
            check = partial(self._check_not_inside, membership)
            return {key: KafkaStream(stream, check) for key, stream in membership.streams.by_key.items()}
        except LegacyConsumerError as error:
            was_closed = self._closed
            if not membership.has_begun and error.retriable and not was_closed:
                # ZooKeeper has nothing of this member yet, so the user's code may try again
                membership.is_taken = False
                raise
            self._closed = True
            self._leave_quietly(_HASTE_S)
            if was_closed:
                raise ConsumerClosedError from error
            raise
        except BaseException:
            self._closed = True
            self._leave_quietly(_HASTE_S)
            raise

    def _warn_once(self) -> None:
        if not self._has_warned:
            for warning in self._config.warnings:
                logger.warning("%s: %s", self.consumer_id, warning)
            for note in self._config.notes:
                logger.info("%s: %s", self.consumer_id, note)
            self._has_warned = True

    def _check_not_inside(self, membership: Membership) -> None:
        """Refuse a call inside another one. Raises: CallInProgressError."""
        if self._is_inside(membership):
            raise CallInProgressError

    def _is_inside(self, membership: Membership) -> bool:
        """Return whether the caller is a handler or finaliser inside a call of this connector or of its coordinator."""
        delivery = membership.delivery
        inside = self, delivery, delivery.telling, delivery.committer, *membership.streams.all()
        # the function that wait_until() calls may itself make any call
        return is_inside(*inside, but=ConsumerConnector.wait_until.__code__)

    def _check_open(self) -> None:
        self._process.check()
        if self._closed:
            raise ConsumerClosedError

    def _joined(self) -> Membership:
        """Return the membership, also while shutdown() waits: the user's code may commit what it finishes meanwhile.

        Raises: NotJoinedError, ConsumerClosedError, CallInProgressError, ForkedConsumerError.
        """
        membership = self._membership
        if not membership.has_session:
            self._check_open()
            raise NotJoinedError
        self._process.check()
        if self._closed and membership.has_left:
            raise ConsumerClosedError
        self._check_not_inside(membership)
        return membership

    def _check_existence(self, partitions: Collection[TopicPartition]) -> None:
        """Refuse an offset of a missing topic or partition: it would stay, and be read for a later topic of that name.

        Raises: NoSuchTopicError, NoSuchPartitionError; MalformedZnodeError, NotPermittedError.
        """
        if not partitions:
            return
        topics = {tp.topic for tp in partitions}
        once = TopicsOnce(self._store)
        once.refuse_unreadable(topics)
        lives = once.lives(topics)
        for tp in sorted(partitions):
            if tp.topic not in lives:
                raise NoSuchTopicError(tp.topic)
            if tp.partition not in lives[tp.topic].partitions:
                raise NoSuchPartitionError(tp, len(lives[tp.topic].partitions))


def _open_offset_store(config: ConsumerConfig, store: ZkStore, group_offsets: GroupOffsets | None) -> OffsetStore:
    zookeeper = ZooKeeperOffsetStore(store, config.group_id)
    if config.offsets_storage == "zookeeper":
        return zookeeper
    with loading:
        from legacy_consumer.fetching.librdkafka import open_group_offsets

    kafka = KafkaOffsetStore(
        store,
        config.group_id,
        group_offsets or open_group_offsets(config, store),
        # the coordinator's thread waits for Kafka, and must learn in time that the connection to ZooKeeper is lost
        timeout_s=min(config.offsets_channel_socket_timeout_ms, config.zookeeper_session_timeout_ms / 3) / 1000,
        asking=partial(coordinator_answer, config.offsets_channel_backoff_ms / 1000),
    )
    return DualOffsetStore(zookeeper, kafka) if config.dual_commit_enabled else kafka
