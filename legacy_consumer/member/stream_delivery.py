"""The delivery of this member's partitions: their start positions, and their streams. Commits: committer.py.

It implements rebalance.delivery: the coordinator decides which partitions come and go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from legacy_consumer.errors import KafkaError, NotAssignedError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST, NO_POSITION, LogOffsets
from legacy_consumer.member.committer import CommitSettings, Committer
from legacy_consumer.member.gate import Pause
from legacy_consumer.member.listener import STARTS, has_hooks
from legacy_consumer.member.listener_calls import BoundedCall
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.member.telling import Telling
from legacy_consumer.offsets import OffsetStore, RetrySettings
from legacy_consumer.offsets.progress import Committed, Progress
from rebalance.delivery import Waits
from rebalance.errors import PartlyBegunError
from rebalance.snapshot import Assignment
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerThreadId, TopicPartition

logger = safe_logger(__name__)
_T = TypeVar("_T")


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
        self._buried: set[str] = set()
        """Topics that were deleted while this member read them. From then on, the member begins a partition of such a
        name without a committed offset at EARLIEST: it may have released it before the new topic's first commit."""
        self._running: dict[TopicPartition, GatedStream] = {}
        self.resetting: frozenset[TopicPartition] = frozenset()
        """See resets.follower.FollowingDelivery."""
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
        self.telling = Telling(settings.consumer_id, self.committer, settings.last_commit_timeout_s, on_answer)

    # For the coordinator.

    def begin(self, claimed: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment) -> Waits[None]:
        """Read the committed offsets, and start. The owner znodes exist, so no other member commits meanwhile."""
        if not claimed and self.telling.listener is None:
            # the usual case: only shares of other members changed, and there is no listener to call
            return
        chosen: dict[TopicPartition, int] = {}
        held: dict[TopicPartition, str] = {}
        if has_hooks(self.telling.listener, STARTS) and claimed:
            committed = self._committed(claimed)
            held = _problems(committed)
            known = {tp: seen.offset for tp, seen in committed.items() if tp not in held}
            self.committer.beginning = frozenset(claimed)
            try:
                by_hand = frozenset(tp for tp in known if self._is_by_hand(tp))
                chosen, unsaid = yield from self.telling.ask_for_starts(known, by_hand)
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
        listened = self.telling.listener is not None
        for stream, positions in by_stream.items():
            # before the hook, which may seek in the partitions and pause them
            self._running.update(dict.fromkeys(positions, stream))
            stream.begin(positions, {tp: epochs[tp] for tp in positions}, shut=listened)
        if listened:
            # the hook may still seek
            with self.committer.holding_back(claimed):
                yield from self.telling.tell_of_start(claimed, assignment)
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

    def end(self, partitions: Collection[TopicPartition]) -> Waits[None]:
        """Shut the gates; commit a last time, call the listener, forget the partitions."""
        going = [tp for tp in partitions if tp in self._running]
        if not going:
            return
        self.stop(going)
        if self._settings.auto_commit:
            self.committer.commit_last(going, self.telling.bound_s())
        if self.telling.listener is not None:
            # the user's code may finish messages meanwhile: a commit of them would come after the last one
            with self.committer.holding_back(going):
                yield from self.telling.tell_of_release(going)
        self._forget(going)

    def finish_telling(self) -> Waits[None]:
        """See Telling.hear_out."""
        return self.telling.hear_out()

    def await_answer(self, timeout_s: float) -> None:
        """Block until the answer is there that a step waits for, timeout_s at most."""
        self.telling.await_answer(timeout_s)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions that were lost with the session, without a commit."""
        self.stop(partitions)
        lost = [tp for tp in partitions if tp in self._running]
        # before the hook: calls and commits that begin now leave out the lost partitions
        self._forget_positions(partitions)
        self.telling.tell_of_loss(lost)
        self.telling.forget(partitions)

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
        self.committer.begin_closing()
        self.telling.begin_closing(timeout_s)

    def close(self) -> None:
        """Wait until the listener has heard of lost partitions, as long as a rebalance waits; then call it no more."""
        self.telling.close()

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
        self._forget_positions(partitions)
        self.telling.forget(partitions)

    def _forget_positions(self, partitions: Collection[TopicPartition]) -> None:
        self._progress.forget(partitions)
        for stream, own in self._by_stream(partitions).items():
            stream.forget(own)
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
            deadline = time.monotonic() + self.telling.bound_s()
            yield from self.telling.wait_for(lambda: 0.0 if asked.is_done else self.telling.left_until(deadline))
            try:
                found = asked.wait(0)
            except (KafkaError, TimeoutError) as error:
                # a missing broker must not make the rebalance fail: fetching begins when a broker is there
                logger.warning("%s: starts without log offsets: %s", self._settings.consumer_id, error)
        starts.update((tp, found.get(tp, self._reset_position)) for tp in fresh)
        return starts

    def _ask_for_log_ends(self, partitions: Collection[TopicPartition]) -> BoundedCall[Mapping[TopicPartition, int]]:
        name = f"{self._settings.consumer_id}-log-ends"
        return BoundedCall(lambda: self._log_offsets().latest(partitions), name, self.telling.tell_answered)

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


def _problems(committed: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, str]:
    """Return {partition: why its committed offset is unreadable}."""
    return {tp: seen.problem for tp, seen in committed.items() if seen.problem is not None}


def _without(known: Mapping[TopicPartition, _T], gone: Collection[TopicPartition]) -> dict[TopicPartition, _T]:
    return {tp: what for tp, what in known.items() if tp not in gone}


def _found(starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the starts without EARLIEST, LATEST and NO_POSITION, which a member does not commit."""
    return {tp: start for tp, start in starts.items() if start >= 0}
