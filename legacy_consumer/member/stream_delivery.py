"""The delivery of this member's partitions: their start positions, and their streams. Commits: committer.py.

It implements rebalance.delivery: the coordinator decides which partitions come and go.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar, cast

from legacy_consumer.errors import KafkaError, NotAssignedError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST, NO_POSITION, LogOffsets
from legacy_consumer.member.arguments import checked_starts
from legacy_consumer.member.committer import CommitSettings, Committer
from legacy_consumer.member.gate import Pause
from legacy_consumer.member.listener import (
    LOSSES,
    STARTS,
    JavaStyle,
    LossListener,
    RebalanceListener,
    StartListener,
    has_hooks,
    is_same_listener,
)
from legacy_consumer.member.listener_calls import BoundedCall, Hook, HookCall, ListenerCalls
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets import OffsetStore, RetrySettings
from legacy_consumer.offsets.progress import Committed, Progress
from rebalance.errors import PartlyBegunError
from rebalance.snapshot import Assignment
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.signals import Flag

logger = safe_logger(__name__)
_T = TypeVar("_T")
Waits: TypeAlias = Generator[float, None, _T]
"""A step that may wait: it yields the seconds to wait at most, and is resumed when the answer is there, or then."""

_HASTE_S = 0.5
"""The bound of one step once the time for leaving is over."""


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """The part of the configuration that delivery depends on.

    reset_to: EARLIEST, LATEST, or None to leave partitions without an offset to the user's code. topics_by_hand: topics
    whose offsets are neither read from the group nor committed to it. last_commit_timeout_s: bounds the commit to Kafka
    before a release, the wait for a listener's hook, and the wait for the brokers' log ends.
    """

    consumer_id: str
    auto_commit: bool
    at_next: bool
    reset_to: int | None
    adopt_foreign_commits: bool
    retries: RetrySettings = field(default_factory=RetrySettings)
    last_commit_timeout_s: float = 5.0
    group: str = ""
    topics_by_hand: frozenset[str] = frozenset()


class Streams(Protocol):
    """The stream of each partition."""

    def all(self) -> Collection[GatedStream]:
        """Return every stream of the connector."""
        ...

    def stream_of(self, tp: TopicPartition, thread: ConsumerThreadId) -> GatedStream:
        """Return the stream of a partition that this member's consumer thread owns."""
        ...


class StreamDelivery:
    """Implements rebalance.delivery.Delivery over KafkaStreams."""

    def __init__(
        self,
        settings: DeliverySettings,
        *,
        offsets: OffsetStore,
        progress: Progress,
        log_offsets: Callable[[], LogOffsets],
        streams: Streams,
        session_id: Callable[[], int],
        on_unowned: Callable[[], None] = lambda: None,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """on_answer: called on any thread when a hook has returned or a broker has answered."""
        self._settings = settings
        self._offsets = offsets
        self._progress = progress
        self._log_offsets = log_offsets
        self._streams = streams
        self._calls: ListenerCalls | None = None
        self._earlier: ListenerCalls | None = None
        """The listener calls of an earlier membership: hooks of the same listener wait for their end."""
        self._close_by = float("inf")
        self._step: Waits[None] | None = None
        """The call of begin, end or finish_telling that waits for an answer."""
        self._answered = Flag()
        self._on_answer = on_answer
        self._unheard: list[HookCall] = []
        """Calls of the listener for which nobody has waited yet: about losses, and about empty generations."""
        self._known: set[TopicPartition] = set()
        """The partitions whose start the listener was told of, and whose release or loss it was not."""
        self._buried: set[str] = set()
        """Topics that were deleted while this member read them. From then on, the member begins a partition of such a
        name without a committed offset at EARLIEST: it may have released it before the new topic's first commit."""
        self._running: dict[TopicPartition, GatedStream] = {}
        self.resetting: frozenset[TopicPartition] = frozenset()
        """See resets.follower.FollowingDelivery."""
        self.listener: RebalanceListener | None = None
        self.committer = Committer(
            CommitSettings(
                settings.group,
                settings.consumer_id,
                settings.adopt_foreign_commits,
                settings.retries,
                settings.topics_by_hand,
            ),
            offsets=offsets,
            progress=progress,
            streams=streams.all,
            session_id=session_id,
            adopt=self.adopt,
            resetting=lambda: self.resetting,
            on_unowned=on_unowned,
        )

    # For the coordinator.

    def begin(self, claimed: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment) -> int | None:
        """Read the committed offsets, and start. The owner znodes exist, so no other member commits meanwhile.

        Returns: None when done, or the milliseconds to wait at most; see Delivery.
        """
        if not claimed and self.listener is None:
            # the usual case: only shares of other members changed, and there is no listener to call
            return None
        return self._carry_on(self._step or self._beginning(claimed, assignment))

    def _carry_on(self, step: Waits[None]) -> int | None:
        self._step = None
        self._answered.clear()
        try:
            wait_s = next(step)
        except StopIteration:
            return None
        self._step = step
        return math.ceil(wait_s * 1000)

    def finish_telling(self) -> int | None:
        """Wait until the listener has heard all that it was told; see Delivery."""
        return self._carry_on(self._step or self._hear_out()) if self._step or self._unheard else None

    def await_answer(self, timeout_s: float) -> None:
        """Wait for the answer that begin or end waits for; see Delivery."""
        self._answered.wait(timeout_s)

    def _beginning(self, claimed: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment) -> Waits[None]:
        chosen: dict[TopicPartition, int] = {}
        held: dict[TopicPartition, str] = {}
        if has_hooks(self.listener, STARTS) and claimed:
            committed = self._committed(claimed)
            held = _problems(committed)
            known = {tp: seen.offset for tp, seen in committed.items() if tp not in held}
            self.committer.beginning = frozenset(claimed)
            try:
                chosen, unsaid = yield from self._ask_for_starts(known)
            finally:
                self.committer.beginning = frozenset()
            held.update(unsaid)
        # a commit of an earlier claim of these may be under way: its offset is read here, or it is refused later
        with self.committer.lock:
            committed = self._committed(claimed)
            held.update(_problems(committed))
            going = _without(claimed, held)
            epochs = {tp: self._progress.begin(tp, None, committed[tp]) for tp in going}
        try:
            unchosen = _without({tp: committed[tp] for tp in going}, chosen)
            starts = {**chosen, **(yield from self._starting_positions(unchosen))}
            self._progress.note_consumed(_found({tp: starts[tp] for tp in going}), epochs, placed=True)
            if going or not held:
                yield from self._begin(going, assignment, starts, epochs)
        except BaseException:
            # the coordinator does not count them as begun: it begins them again, or releases them without end()
            self.stop(going)
            self._forget(going)
            raise
        if held:
            raise PartlyBegunError(held)

    def _committed(self, claimed: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        by_hand = {tp: Committed(None, None) for tp in claimed if self._is_by_hand(tp)}
        return {**self._offsets.read([tp for tp in claimed if tp not in by_hand]), **by_hand}

    def _begin(
        self,
        claimed: Mapping[TopicPartition, ConsumerThreadId],
        assignment: Assignment,
        starts: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
    ) -> Waits[None]:
        by_stream: dict[GatedStream, dict[TopicPartition, int]] = {}
        for tp, thread in claimed.items():
            by_stream.setdefault(self._streams.stream_of(tp, thread), {})[tp] = starts[tp]
        listened = self.listener is not None
        for stream, positions in by_stream.items():
            # before the hook, which may seek in the partitions and pause them
            self._running.update(dict.fromkeys(positions, stream))
            stream.begin(positions, {tp: epochs[tp] for tp in positions}, shut=listened)
        if listened:
            starting = dict(claimed)
            yield from self._ask(
                lambda hooks: hooks.before_starting_fetchers(starting, assignment), claimed, starts=True
            )
            for stream, positions in by_stream.items():
                stream.go_on(positions)

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Shut the gates of these partitions."""
        for stream, own in self._by_stream(partitions).items():
            stream.stop(own)

    def undrained(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return the partitions with messages in hand."""
        return frozenset().union(*(stream.undrained(own) for stream, own in self._by_stream(partitions).items()))

    def go_on(self, partitions: Collection[TopicPartition]) -> None:
        """Undo stop: fetch again, from after the messages in hand."""
        for stream, own in self._by_stream(partitions).items():
            stream.go_on(own)

    def end(self, partitions: Collection[TopicPartition]) -> int | None:
        """Shut the gates; commit a last time, call the listener, forget the partitions.

        Returns: None when done, or the milliseconds to wait at most; see Delivery.
        """
        going = [tp for tp in partitions if tp in self._running]
        return self._carry_on(self._step or self._ending(going)) if going else None

    def _ending(self, going: Collection[TopicPartition]) -> Waits[None]:
        self.stop(going)
        if self._settings.auto_commit:
            self.committer.commit_last(going, self._patience_s())
        if self.listener is not None:
            released = frozenset(going)
            yield from self._ask(lambda hooks: hooks.before_releasing_partitions(released), going, starts=False)
        self._forget(going)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions that were lost with the session, without a commit."""
        self.stop(partitions)
        lost = frozenset(tp for tp in partitions if tp in self._running and tp in self._known)
        if self._step is not None:
            # all partitions are lost: nothing else is dropped while a step waits
            self._step.close()
            self._step = None
        # before the hook: calls and commits that begin now leave out the lost partitions
        self._forget(partitions)
        try:
            if self.listener is not None and lost:
                self._unheard.append(self._tell_lost(lost, self.committer, self._listener_calls()))
        except Exception:
            # they are lost all the same if the system has no thread left for the hook
            logger.exception("%s: could not tell its listener what is lost", self._settings.consumer_id)

    def tell_nothing_revoked(self) -> None:
        """Call a listener with Java's hooks: a generation begins for which this member releases nothing."""
        if isinstance(self.listener, JavaStyle):
            self._unheard.append(self._tell(lambda listener: cast(JavaStyle, listener).nothing_revoked()))

    def tell_nothing_assigned(self) -> None:
        """Call a listener with Java's hooks: a generation was assigned in which this member gains nothing."""
        if isinstance(self.listener, JavaStyle):
            self._unheard.append(self._tell(lambda listener: cast(JavaStyle, listener).nothing_assigned()))

    def bury(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions of a deleted topic, without a commit."""
        self._buried.update(tp.topic for tp in partitions)
        self.drop(partitions)
        # last: this may raise and is retried, and the listener must be called only once
        self.disown(partitions)

    def disown(self, partitions: Collection[TopicPartition]) -> None:
        """Commit 0 for partitions whose topic was created again before the last commit arrived."""
        self.committer.disown(partitions)

    def adopt(self, foreign: Mapping[TopicPartition, Committed]) -> None:
        """Continue from these offsets; stopped partitions stay stopped, and continue there after go_on."""
        for tp, theirs in foreign.items():
            stream = self._running.get(tp)
            if stream is None or self._is_by_hand(tp):
                continue
            position = theirs.offset if theirs.offset is not None else self._reset_position
            stream.restart({tp: position}, {tp: theirs})

    def follow(self, find: Callable[[], Mapping[TopicPartition, Committed]]) -> Mapping[TopicPartition, Committed]:
        """Adopt the offsets that find returns, and return them; no commit is under way meanwhile."""
        with self.committer.lock:
            found = find()
            self.adopt(found)
        return found

    def pause(self) -> None:
        """Hand out nothing until resume()."""
        for stream in self._streams.all():
            stream.pause(Pause.SUSPENDED)

    def resume(self) -> None:
        """Undo pause."""
        for stream in self._streams.all():
            stream.resume(Pause.SUSPENDED)

    def commit(self) -> None:
        """Carry out an auto commit."""
        self.committer.commit()

    # For the connector, on the user's threads.

    def begin_closing(self, timeout_s: float) -> None:
        """From now on retry no commit of the user's code, and wait for no hook after timeout_s.

        If a hook calls shutdown(), the rebalance does not wait for that hook.
        """
        self._close_by = min(self._close_by, time.monotonic() + timeout_s)
        self.committer.begin_closing()
        if self._calls is not None:
            self._calls.give_up_at = self._close_by
            if self._calls.is_on_this_thread():
                self._calls.end()
        # the coordinator may wait for longer than that
        self._tell_answered()

    def close(self) -> None:
        """Wait until the listener has heard of lost partitions, as long as a rebalance waits; then call it no more."""
        calls = self._calls
        if calls is None:
            return
        try:
            for call in [] if calls.is_on_this_thread() else list(self._unheard):
                calls.wait(call)
        finally:
            calls.end()

    def keep_listener_of(self, earlier: StreamDelivery) -> None:
        """Take over the listener of an earlier membership; its hooks wait for an earlier hook that has not returned."""
        self.listener = earlier.listener
        calls = earlier._calls or earlier._earlier
        # a hook that unsubscribes may join again, which calls hooks inside it
        self._earlier = None if calls is None or calls.is_on_this_thread() else calls

    @property
    def listener_errors(self) -> int:
        """The number of the listener's hooks that raised or did not return in time."""
        return 0 if self._calls is None else self._calls.errors

    def let_go(self, holder: object) -> None:
        """Do not wait for this thread's own messages in hand, nor hand them out to another thread of this member."""
        for stream in self._streams.all():
            if stream.is_held_by(holder):
                stream.pause(Pause.LEAVING)
                stream.let_go()

    def stream_with(self, tp: TopicPartition) -> GatedStream:
        """Return the stream that hands out a partition. Raises: NotAssignedError."""
        stream = self._running.get(tp)
        if stream is None:
            raise NotAssignedError(tp)
        return stream

    # Inside.

    def _ask_for_starts(
        self, committed: Mapping[TopicPartition, int | None]
    ) -> Waits[tuple[dict[TopicPartition, int], dict[TopicPartition, str]]]:
        """Return the listener's start positions, and the partitions without one, which must not start elsewhere."""
        if not has_hooks(self.listener, STARTS) or not committed:
            return {}, {}
        yield from self._hear_out()
        answers: list[tuple[dict[TopicPartition, int], dict[TopicPartition, str]]] = []
        by_hand = frozenset(tp for tp in committed if self._is_by_hand(tp))

        def ask(listener: RebalanceListener) -> None:
            # checked on the listener's thread: the answer may be a mapping that asks a database for each entry
            answer: object = cast(StartListener, listener).starting_offsets(dict(committed))
            answers.append(checked_starts(answer, committed, by_hand))

        if self._calls is None or not self._calls.is_late:
            yield from self._hear(self._tell(ask))
        if not answers:
            why = "the listener's starting_offsets raised, or has not returned yet: see the log"
            return {}, dict.fromkeys(committed, why)
        return answers[0]

    def _is_by_hand(self, tp: TopicPartition) -> bool:
        return tp.topic in self._settings.topics_by_hand

    @property
    def _reset_position(self) -> int:
        return NO_POSITION if self._settings.reset_to is None else self._settings.reset_to

    def _by_stream(self, partitions: Iterable[TopicPartition]) -> dict[GatedStream, list[TopicPartition]]:
        grouped: dict[GatedStream, list[TopicPartition]] = {}
        for tp in partitions:
            stream = self._running.get(tp)
            if stream is not None:
                grouped.setdefault(stream, []).append(tp)
        return grouped

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        self._progress.forget(partitions)
        for stream, own in self._by_stream(partitions).items():
            stream.forget(own)
        self._known.difference_update(partitions)
        for tp in partitions:
            self._running.pop(tp, None)

    def _starting_positions(self, committed: Mapping[TopicPartition, Committed]) -> Waits[dict[TopicPartition, int]]:
        """Return the start of each partition: its committed offset, or the position of auto.offset.reset.

        The largest offset is looked up now and counts as consumed, as in the JVM: the next owner of the partition
        starts there, not at a later end. The fetcher finds the smallest offset later. A topic that was deleted and
        created again is read from its beginning: see offsets.judgement.
        """
        starts = {tp: seen.offset for tp, seen in committed.items() if seen.offset is not None}
        anew = [
            tp
            for tp, seen in committed.items()
            if tp not in starts and (seen.outlived is not None or tp.topic in self._buried)
        ]
        starts.update(dict.fromkeys(anew, EARLIEST))
        self._warn_of_outlived({tp: seen.outlived for tp, seen in committed.items() if seen.outlived is not None})
        fresh = [tp for tp in committed if tp not in starts]
        found: Mapping[TopicPartition, int] = {}
        if fresh and self._settings.reset_to == LATEST:
            asked = self._ask_for_log_ends(fresh)
            deadline = time.monotonic() + self._patience_s()
            while not asked.is_done and (left_s := min(deadline, self._close_by) - time.monotonic()) > 0:
                yield left_s
            try:
                found = asked.wait(0)
            except (KafkaError, TimeoutError) as error:
                # a missing broker must not make the rebalance fail: fetching begins when a broker is there
                logger.warning("%s: starts without log offsets: %s", self._settings.consumer_id, error)
        starts.update((tp, found.get(tp, self._reset_position)) for tp in fresh)
        return starts

    def _ask_for_log_ends(self, partitions: Collection[TopicPartition]) -> BoundedCall[Mapping[TopicPartition, int]]:
        name = f"{self._settings.consumer_id}-log-ends"
        return BoundedCall(lambda: self._log_offsets().latest(partitions), name, self._tell_answered)

    def _warn_of_outlived(self, outlived: Mapping[TopicPartition, int]) -> None:
        if outlived:
            tp, offset = min(outlived.items())
            logger.warning(
                "%s: committed offsets of %d partitions were written for a topic that was deleted since (%s: %d): the "
                "topic of that name is read from its beginning",
                self._settings.consumer_id,
                len(outlived),
                tp,
                offset,
            )

    def _tell(self, hook: Hook) -> HookCall:
        """Have a hook called, after the hooks before it. Do not wait."""
        return self._listener_calls().begin(hook, self._patience_s(), self._tell_answered)

    def _ask(self, hook: Hook, partitions: Collection[TopicPartition], *, starts: bool) -> Waits[None]:
        """Tell the listener of the start or the release of partitions, and wait until it has heard."""
        self.committer.held_back = frozenset(partitions)
        try:
            yield from self._hear_out()
            call = self._tell(hook)
            if starts:
                self._known.update(partitions)
            else:
                self._known.difference_update(partitions)
            yield from self._hear(call)
        finally:
            self.committer.held_back = frozenset()

    def _hear_out(self) -> Waits[None]:
        """Wait for the calls of the listener for which nobody has waited yet."""
        while self._unheard:
            yield from self._hear(self._unheard[0])
            del self._unheard[0]

    def _hear(self, call: HookCall) -> Waits[None]:
        """Wait until a hook has returned, or for its time at most."""
        calls = self._listener_calls()
        while (left_s := calls.left_s(call)) > 0:
            yield left_s
        calls.conclude(call)

    def _tell_answered(self) -> None:
        self._answered.set()
        self._on_answer()

    def _tell_lost(self, lost: frozenset[TopicPartition], committer: Committer, calls: ListenerCalls) -> HookCall:
        # `tell` must not use self: the hook's own calls would count as inside this delivery (interrupted_calls)
        def tell(listener: RebalanceListener) -> None:
            # a commit under way may still write them; on this thread the wait counts as a part of the hook
            committer.finish()
            if calls.is_over:
                return
            if has_hooks(listener, LOSSES):
                cast(LossListener, listener).on_partitions_lost(lost)
            else:
                listener.before_releasing_partitions(lost)

        return self._tell(tell)

    def _listener_calls(self) -> ListenerCalls:
        if self._calls is None:
            assert self.listener is not None
            earlier = self._earlier
            after = earlier if earlier is not None and is_same_listener(earlier.listener, self.listener) else None
            self._calls = ListenerCalls(self._settings.consumer_id, self.listener, after)
        return self._calls

    def _patience_s(self) -> float:
        """Return how long to wait now for a hook or a broker at most, in seconds."""
        return min(self._settings.last_commit_timeout_s, max(_HASTE_S, self._close_by - time.monotonic()))


def _problems(committed: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, str]:
    """Return {partition: why its committed offset is unreadable}."""
    return {tp: seen.problem for tp, seen in committed.items() if seen.problem is not None}


def _without(known: Mapping[TopicPartition, _T], gone: Collection[TopicPartition]) -> dict[TopicPartition, _T]:
    return {tp: what for tp, what in known.items() if tp not in gone}


def _found(starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the starts without EARLIEST, LATEST and NO_POSITION, which a member does not commit."""
    return {tp: start for tp, start in starts.items() if start >= 0}
