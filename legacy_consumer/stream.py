"""GatedStream: the messages of one stream, as batches or one by one, behind a gate that a rebalance can shut.

One thread at a time consumes a stream; the coordinator opens and shuts it for single partitions. What was fetched and
what is in hand is in the ledger (hand.py). A message counts as consumed when the user comes back for the next one
(delivery.rule=at_least_once), or when it is handed out (at_next, as the JVM does it).

Every change of the ledger is one assignment. So an exception may strike the consuming thread anywhere (Ctrl-C, a soft
time limit, no memory): a change is made or not made, and what was not handed out is handed out later. A poll that was
struck is undone: the partitions are fetched again from behind what is in hand.

What shuts the gate takes away what lets messages through, so that the loop ends where it stands. To look at the lease
(rebalance.lease) would cost more than all else that a message costs, so it is looked at before each run of messages
that are iterated over. A run is one message; for a user who is done with many in a moment it is as many as that.

Shutting the gate for a partition takes effect before the next message is handed out. If the user has messages of the
partition in hand, the consuming thread must come back once; then they count as consumed, and the partition is drained.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from legacy_consumer.acknowledgements import Acknowledgements
from legacy_consumer.arguments import checked_number, checked_seconds
from legacy_consumer.arrow_batches import COLUMNS, ColumnSequence, LazyMessages, checked_columns, record_batch
from legacy_consumer.errors import CallInProgressError, ConsumerTimeoutError, NotAssignedError, StreamInUseError
from legacy_consumer.fetcher import Fetcher, Message
from legacy_consumer.hand import Chunk, Hand, Ledger, Life
from legacy_consumer.interrupted_calls import is_inside
from legacy_consumer.message_batch import MessageBatch
from legacy_consumer.owning_process import OwningProcess
from legacy_consumer.portions import ListPortion
from legacy_consumer.progress import Committed, PartitionProgress, Progress
from rebalance.clock import Clock
from zk_layout.errors import ConfigError, LegacyConsumerError
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Handed = TypeVar("Handed")

_SLICE_S = 0.5
"""How long one poll may wait. The end of the stream wakes a poll; one that begins at that moment notices it then."""
_LEASE_SLICE_S = 0.01
"""How long to wait before the lease is looked at again; the next heartbeat renews it."""
_TAKEN_AT_ONCE = 10_000
"""Messages per poll for a loop that comes back for each, and where columns come for any: to part them costs less than
to poll."""
_RUN = 256
_RUN_S = 100e-6
"""A run has at most so many messages, and no more than took the user about so long at his last pace."""

_tokens = threading.local()


def this_thread() -> object:
    """A token of the calling thread. Its ident will not do: the system gives that to the next thread."""
    try:
        return _tokens.mine
    except AttributeError:
        _tokens.mine = object()
        return _tokens.mine


class Pause(Enum):
    """Why a whole stream hands out nothing."""

    SUSPENDED = "the connection to ZooKeeper is suspended"
    USER = "the user has paused it"


class GatedStream:
    """A stream as the coordinator, the commits and its user (through KafkaStream) use it."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        progress: Progress,
        clock: Clock,
        consumer_timeout_ms: int,
        at_next: bool,
        on_drained: Callable[[], None],
        may_hand_out: Callable[[], bool] = lambda: True,
        holder: Callable[[], object] = this_thread,
        acknowledged: bool = False,
    ) -> None:
        """acknowledged: a message counts when it is acknowledged by name.

        holder: a token of the caller, to which what it takes belongs until somebody comes back for more.
        """
        self._fetcher = fetcher
        self._progress = progress
        self._clock = clock
        self._consumer_timeout_ms = consumer_timeout_ms
        # what counts as soon as it is handed out; with acknowledgements it is waited for from then on
        self._at_next = at_next or acknowledged
        self._acknowledgements = Acknowledgements() if acknowledged else None
        self._on_drained = on_drained
        self._may_hand_out = may_hand_out
        self._holder = holder
        # a signal handler may find its own thread inside: no change is half made, so it may go in too
        self._lock = threading.RLock()
        self._process = OwningProcess(self)
        self._opened = threading.Event()
        self._opened.set()
        self._never = threading.Event()
        # replaced, never changed: a poll notes the one that stood as it began
        self._live: Mapping[TopicPartition, Life] = {}
        self._wanted: set[TopicPartition] = set()
        """What the coordinator lets flow; it does unless its user pauses it."""
        self._paused: set[TopicPartition] = set()
        """What the user has paused by name."""
        self._lives: dict[TopicPartition, Life] = {}
        """The last life of each partition that the fetcher was ever told of."""
        self._ledger = Ledger()
        self._is_poll_open = False
        self._is_drained_due = False
        self._least = 1
        self._interrupted = False
        self._gate: list[object] = []
        self._pauses: frozenset[Pause] = frozenset()
        self._ended = False
        self._user: threading.Thread | None = None
        self._left_at = clock.monotonic()
        """When a call for messages last came back, with some or without."""
        self._rival: threading.Thread | None = None
        self.fetch_errors = 0
        """How often a user was given an error instead of messages."""

    # For users.

    def __iter__(self) -> Iterator[Message]:
        """See KafkaStream, as for all that users call."""
        return chain.from_iterable(self._runs())

    def _runs(self) -> Iterator[Iterator[Message]]:
        run, looked_at = 1, self._clock.monotonic()
        while (hand := self._advance(_TAKEN_AT_ONCE, None)) is not None:
            while (messages := self._through_gate(hand, run)) is not None:
                yield messages
                now = self._clock.monotonic()
                run = min(_RUN, int(run * _RUN_S / max(now - looked_at, 1e-9)) or 1)
                looked_at = now

    def __next__(self) -> Message:
        """See KafkaStream."""
        while True:
            hand = self._ledger.hand
            messages = self._through_gate(hand, 1) if hand is not None and not hand.whole else None
            if hand is None or messages is None:
                hand = self._advance(_TAKEN_AT_ONCE, None)
                if hand is None:
                    raise StopIteration
                if self._rival is not None:
                    raise StreamInUseError(self._rival.name)
                continue
            hand.holder = self._holder()
            before = hand.left_in_portion()
            try:
                for message in messages:
                    return message
            except BaseException:
                # it may be taken from the iterator, and the caller never gets it
                self._put_back(hand, hand.pulled() - (before - hand.left_in_portion()))
                raise

    def batches(self, max_messages: int = 1000, timeout: float | None = None) -> Iterator[Sequence[Message]]:
        """See KafkaStream."""
        return self._checked_wholes(max_messages, timeout, _own_messages, as_columns=False)

    def arrow_batches(
        self,
        max_messages: int = 65536,
        timeout: float | None = None,
        columns: Collection[str] = COLUMNS,
    ) -> Iterator[pa.RecordBatch]:
        """See KafkaStream."""
        if self._acknowledgements is not None:
            msg = "acknowledges messages, and Arrow batches have none: use batches(), or another delivery.rule"
            raise ConfigError("delivery.rule", "acknowledged", msg)
        wanted = checked_columns(columns)

        def make(chunk: Chunk) -> pa.RecordBatch:
            return record_batch(chunk.columns(), wanted)

        return self._checked_wholes(max_messages, timeout, make, as_columns=True)

    def _checked_wholes(
        self, most: int, timeout: float | None, make: Callable[[Chunk], Handed], *, as_columns: bool
    ) -> Iterator[Handed]:
        # at the call, not when the first one is asked for
        count = checked_number(most, "max_messages")
        patience = None if timeout is None else checked_seconds(timeout)
        return self._wholes(count, patience, make, as_columns=as_columns)

    def _wholes(
        self, most: int, timeout: float | None, make: Callable[[Chunk], Handed], *, as_columns: bool
    ) -> Iterator[Handed]:
        # a generator, so that users can close it
        yield from chain.from_iterable(self._whole_runs(most, timeout, make, as_columns=as_columns))

    def _whole_runs(
        self, most: int, timeout: float | None, make: Callable[[Chunk], Handed], *, as_columns: bool
    ) -> Iterator[Iterator[Handed]]:
        while (hand := self._advance(most, timeout, whole=True, as_columns=as_columns)) is not None:
            made = make(hand.chunk)
            if not hand.chunk.messages:
                yield iter((made,))
                continue
            hand.portions = (ListPortion((made,)),)  # type: ignore[arg-type]
            if (run := self._through_gate(hand, 1)) is not None:
                yield run  # type: ignore[misc]

    # For the coordinator and whoever commits, from any thread.

    def begin(
        self, positions: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int], *, shut: bool = False
    ) -> None:
        """Hand out messages of these partitions from their positions on; if shut, when they go on. They are not paused.

        Until they go on their user may seek and pause.
        """
        with self._lock:
            lives = {tp: Life(epochs[tp], position) for tp, position in positions.items()}
            self._lives.update(lives)
            self._paused -= lives.keys()
            if not shut:
                self._wanted |= lives.keys()
                self._open(lives)

    def go_on(self, partitions: Collection[TopicPartition]) -> None:
        """Take a stop back: hand out again, from behind what is in hand, which counts as if nothing had been."""
        with self._lock:
            going = self._lives.keys() & partitions
            self._wanted |= going
            self._fetch_again(going - self._paused)

    def restart(
        self, positions: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, Committed] | None = None
    ) -> Collection[TopicPartition]:
        """Hand out from elsewhere; what is stopped or paused stays so, and what is in hand does not count any more.

        committed: what is stored of them, if that is news. Returns: those that this stream has.
        """
        with self._lock:
            lives: dict[TopicPartition, Life] = {}
            for tp, position in positions.items():
                life = self._lives.get(tp)
                # an end of the log that no broker told us yet is no position to commit
                start = position if position >= 0 else None
                stored = committed[tp] if committed is not None else None
                epoch = None if life is None else self._progress.move(tp, life.epoch, start, stored)
                if epoch is not None:
                    lives[tp] = Life(epoch, position)
            self._lives.update(lives)
            flowing = self._live.keys() & lives.keys()
            self._shut(flowing)
            self._open({tp: lives[tp] for tp in flowing})
            return lives.keys()

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of these; see undrained for what is in hand."""
        with self._lock:
            self._wanted.difference_update(partitions)
            self._shut(self._live.keys() & partitions)

    # For users, from any thread.

    def seek(self, tp: TopicPartition, position: int) -> None:
        """Hand out from there. Raises: NotAssignedError."""
        if tp not in self.restart({tp: position}):
            raise NotAssignedError(tp)

    def pause_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these until they are resumed. Raises: NotAssignedError, and nothing is paused."""
        with self._lock:
            for tp in partitions:
                self._known(tp)
            self._paused.update(partitions)
            self._shut(self._live.keys() & partitions)

    def resume_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Undo pause_partitions. Raises: NotAssignedError, and nothing is resumed."""
        with self._lock:
            for tp in partitions:
                self._known(tp)
            going = self._paused & set(partitions)
            self._paused -= going
            self._fetch_again(going & self._wanted)

    def paused(self) -> frozenset[TopicPartition]:
        """Which of its partitions the user has paused, by name or as a whole."""
        with self._lock:
            paused = self._lives.keys() if Pause.USER in self._pauses else self._paused
            return frozenset(tp for tp in paused if self._has(tp))

    def position(self, tp: TopicPartition) -> int | None:
        """What is handed out next of it; None while that is not known. Raises: NotAssignedError."""
        with self._lock:
            self.note_progress()
            start = self._next(tp, self._known(tp), self._in_hand())
            return start if start >= 0 else None

    def acknowledge(self, tp: TopicPartition, offset: int) -> bool:
        """The message is done; False if it is not waited for. Raises: ConfigError with another delivery.rule."""
        with self._lock:
            if self._acknowledgements is None:
                raise ConfigError(
                    "delivery.rule", "at_least_once", "must be acknowledged to acknowledge messages by name"
                )
            known = self._progress.get(tp)
            if known is None:
                return False
            # a loop that has not come back yet has handed it out
            self.note_progress()
            consumed = self._acknowledgements.acknowledge(tp, known.epoch, offset)
            if consumed is None:
                return False
            self._progress.note_consumed({tp: consumed}, {tp: known.epoch})
            self._is_drained_due |= tp not in self._wanted and not self._awaits_acknowledgement(tp)
        self._tell_drained()
        return True

    def _has(self, tp: TopicPartition) -> bool:
        life, known = self._lives.get(tp), self._progress.get(tp)
        return life is not None and known is not None and life.epoch == known.epoch

    def _known(self, tp: TopicPartition) -> PartitionProgress:
        known = self._progress.get(tp)
        if known is None or not self._has(tp):
            raise NotAssignedError(tp)
        return known

    def _in_hand(self) -> Mapping[TopicPartition, int]:
        """The positions behind what is in hand and not noted yet."""
        hand = self._ledger.hand
        return hand.chunk.offsets(hand.noted, hand.pulled()) if hand is not None else {}

    def _next(self, tp: TopicPartition, known: PartitionProgress, in_hand: Mapping[TopicPartition, int]) -> int:
        hand = self._ledger.hand
        if hand is not None and tp in in_hand and hand.chunk.lives[tp].epoch == known.epoch:
            return in_hand[tp]
        if self._acknowledgements is not None:
            position = self._acknowledgements.position(tp, known.epoch)
            if position is not None:
                return position
        return self._lives[tp].start if known.consumed is None else known.consumed

    # Inside.

    # A poll applies what the fetcher was told before it began, and its messages belong to the lives that stood then. So
    # the fetcher is told of an end before the life is over, and of a beginning when the life is there: what is polled
    # between the two is nothing, or of a life that is over.

    def _shut(self, going: Collection[TopicPartition]) -> None:
        if not going:
            return
        self._fetcher.unassign(going)
        self._live = {tp: life for tp, life in self._live.items() if tp not in going}
        hand = self._ledger.hand
        if hand is not None and not hand.chunk.next_offsets.keys().isdisjoint(going):
            self._interrupt()
            hand.barred.update(tp for tp in hand.partitions_out() if tp in going)

    def _open(self, lives: Mapping[TopicPartition, Life]) -> None:
        self._lives.update(lives)
        self._live = {**self._live, **lives}
        self._fetcher.assign({tp: life.start for tp, life in lives.items()})

    def _fetch_again(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch from behind what is in hand; what was fetched and not handed out is dropped, for it will come again."""
        hand = self._ledger.hand
        if hand is not None:
            self._interrupt()
            self._note(hand, hand.given())
        in_hand = self._in_hand()
        lives: dict[TopicPartition, Life] = {}
        for tp in partitions:
            known = self._progress.get(tp)
            if known is None:
                continue
            if hand is not None and tp in in_hand and hand.chunk.lives[tp].epoch == known.epoch:
                hand.barred.discard(tp)
            lives[tp] = Life(known.epoch, self._next(tp, known, in_hand))
        self._fetcher.unassign(lives.keys())
        self._open(lives)

    def undrained(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Which of these stopped partitions have messages in hand."""
        with self._lock:
            if self._acknowledgements is not None:
                self.note_progress()
                return frozenset(tp for tp in partitions if self._awaits_acknowledgement(tp))
            hand = self._ledger.hand
            return frozenset(hand.barred & set(partitions)) if hand is not None else frozenset()

    def _awaits_acknowledgement(self, tp: TopicPartition) -> bool:
        known = self._progress.get(tp)
        return (
            known is not None
            and self._acknowledgements is not None
            and self._acknowledgements.is_any_waiting(tp, known.epoch)
        )

    def note_progress(self) -> None:
        """Tell Progress what was consumed so far."""
        with self._lock:
            hand = self._ledger.hand
            if hand is not None:
                self._note(hand, hand.pulled() if self._at_next else hand.given())

    def in_hand_s(self) -> float:
        """How long the user has had what is in hand, as far as looks at it tell; 0 if nothing is. Takes no lock."""
        hand = self._ledger.hand
        now = self._clock.monotonic()
        return now - hand.idle_since(now) if hand is not None and hand.pulled() else 0.0

    def unasked_s(self) -> float:
        """How long nobody has asked for more, as far as looks tell; 0 with nothing in hand nor to ask for. No lock."""
        if self._user is not None:
            return 0.0
        return self.in_hand_s() or (self._clock.monotonic() - self._left_at if self._wanted else 0.0)

    def is_held_by(self, holder: object) -> bool:
        """Whether this is who took what is in hand."""
        hand = self._ledger.hand
        return hand is not None and hand.holder == holder

    def let_go(self) -> None:
        """Wait no longer for what is in hand, and do not count it as consumed: its user is the one who waits."""
        with self._lock:
            hand = self._ledger.hand
            if hand is not None:
                self._interrupt()
                self._put_back(hand, hand.pulled() if self._at_next else hand.given())
        self._tell_drained()

    def pause(self, by: Pause) -> None:
        """Hand out nothing until each pause is resumed."""
        with self._lock:
            self._pauses |= {by}
            self._interrupt()
            self._opened.clear()

    def resume(self, by: Pause) -> None:
        """Undo that pause."""
        with self._lock:
            self._pauses -= {by}
            if not self._pauses:
                self._opened.set()

    def end(self) -> None:
        """Hand out nothing any more; the consuming thread's loop ends when it comes back, or its poll is woken.

        Takes no lock, so that a signal handler may call it.
        """
        self._ended = True
        self._interrupt()
        self._fetcher.wake()

    def end_in_child(self) -> None:
        """A loop that stands in a run of messages goes on in a forked child as well: there it asks, and is told."""
        self._interrupt()

    def close(self) -> None:
        """End, and free the fetcher. Twice is harmless."""
        self.end()
        self._opened.set()
        self._fetcher.close()

    def _interrupt(self) -> None:
        """Shut the gate: a loop over what is in hand ends before the next message; from any thread."""
        self._interrupted = True
        self._gate.clear()

    # The consuming thread.

    def _advance(
        self, most: int, timeout: float | None, *, whole: bool = False, as_columns: bool = False
    ) -> Hand | None:
        """Acknowledge what was in hand and take the next; None at the end, an empty hand after timeout seconds."""
        self.check_process()
        me = threading.current_thread()
        if self._user is me and is_inside(self):
            raise CallInProgressError
        try:
            self._enter(me)
            return self._next_hand(most, timeout, whole=whole, as_columns=as_columns)
        finally:
            if self._user is me:
                self._left_at, self._user = self._clock.monotonic(), None

    def _enter(self, me: threading.Thread) -> None:
        with self._lock:
            user = self._user
            if user is not None and user is not me:
                self._rival = me
                raise StreamInUseError(user.name)
            self._rival = None
            self._user = me

    def _next_hand(self, most: int, timeout: float | None, *, whole: bool, as_columns: bool) -> Hand | None:
        self.come_back()
        if self._is_poll_open:
            self._undo_poll()
        hand = self._take(most, whole=whole, as_columns=as_columns)
        if hand is not None:
            return hand
        began = self._clock.monotonic()
        limit = self._patience(timeout)
        slice_s = _SLICE_S if limit is None else min(_SLICE_S, limit)
        while not self._ended:
            if self._pauses:
                self._clock.wait(self._opened, slice_s)
            elif not self._may_hand_out():
                self._clock.wait(self._never, min(slice_s, _LEASE_SLICE_S))
            elif not self._ledger.waiting:
                self._poll(most, slice_s)
            hand = self._take(most, whole=whole, as_columns=as_columns)
            if hand is not None:
                return hand
            if limit is None:
                continue
            waited = self._clock.monotonic() - began
            slice_s = max(0.0, min(_SLICE_S, limit - waited))
            if waited >= limit:
                if timeout is not None:
                    return Hand(Chunk((), {}, {}), None, whole=whole)
                raise ConsumerTimeoutError(self._consumer_timeout_ms)
        return None

    def _patience(self, timeout: float | None) -> float | None:
        if timeout is not None:
            return timeout
        return None if self._consumer_timeout_ms < 0 else self._consumer_timeout_ms / 1000

    def _goes_on(self, hand: Hand) -> bool:
        """Whether the next of these may be handed out."""
        # The lease first: what was lost with a session is interrupted before the next one can be leased.
        return self._may_hand_out() and not self._interrupted and hand is self._ledger.hand

    def _through_gate(self, hand: Hand, most: int) -> Iterator[Message] | None:
        """The next of these, at most so many, until the gate is shut; None if it is, or if none is left."""
        self.check_process()
        if not self._goes_on(hand) or (taken := hand.run(most)) is None:
            return None
        # a loop that stands in its own run takes the rest from here, so that one gate is all there is to shut
        self._gate.clear()
        # there to be emptied before the look at what would have emptied it
        self._gate, messages = taken
        # a signal handler that took messages meanwhile has undone the interruption, and left another hand
        return None if self._interrupted or hand is not self._ledger.hand else messages

    def check_process(self) -> None:
        """Raises: ForkedConsumerError in a forked child, where a lock that another thread held stays held for ever."""
        self._process.check()

    def come_back(self) -> None:
        """What was in hand is consumed, for its user is back or says so; what was not handed out of it waits again."""
        with self._lock:
            hand = self._ledger.hand
            if hand is not None:
                # first, so that a loop over these messages takes the rest from the gate
                self._interrupt()
                self._put_back(hand, hand.pulled())
        self._tell_drained()

    def _put_back(self, hand: Hand, consumed: int) -> None:
        """So many of the messages in hand are consumed; nothing is in hand any more, and the rest waits."""
        with self._lock:
            if hand is not self._ledger.hand:
                return
            self._note(hand, consumed)
            waiting = self._ledger.waiting
            if consumed < len(hand.chunk.messages):
                waiting = (hand.chunk.after(consumed), *waiting)
            self._is_drained_due |= bool(hand.barred)
            self._ledger = Ledger(None, waiting)

    def _tell_drained(self) -> None:
        if self._is_drained_due:
            try:
                self._is_drained_due = False
                self._on_drained()
            except BaseException:
                self._is_drained_due = True
                raise

    def _poll(self, most: int, slice_s: float) -> None:
        lives = self._live
        self._is_poll_open = True
        try:
            batch = self._fetcher.poll(max(most, self._least), slice_s)
        except LegacyConsumerError:
            # the fetcher itself says so, and has lost nothing
            self._is_poll_open = False
            self.fetch_errors += 1
            raise
        if batch is not None:
            if isinstance(batch, ColumnSequence):
                self._least = _TAKEN_AT_ONCE
            messages = LazyMessages(batch) if isinstance(batch, ColumnSequence) else batch.messages()
            with self._lock:
                ledger = self._ledger
                self._ledger = Ledger(ledger.hand, (*ledger.waiting, Chunk(messages, batch.next_offsets, lives)))
        self._is_poll_open = False

    def _undo_poll(self) -> None:
        """A poll ended by an exception that is not the fetcher's: nobody knows what it had taken by then."""
        with self._lock:
            self._fetcher.unassign(self._lives.keys())
            self._fetch_again(self._live.keys())
        self._is_poll_open = False

    def _take(self, most: int, *, whole: bool, as_columns: bool) -> Hand | None:
        """Let what waits at the gate through, as far as it is still live: it is in hand then. None if there is none."""
        with self._lock:
            # before the look at what an interruption leaves, so that none which comes meanwhile is undone
            self._interrupted = False
            while self._ledger.waiting:
                if self._pauses or self._ended or not self._may_hand_out():
                    # neither handed out nor thrown away while ZooKeeper is out of sight
                    return None
                chunk, *behind = self._ledger.waiting
                if chunk.lives is not self._live:
                    gone = {tp for tp in chunk.next_offsets if not self._is_live(tp, chunk.lives)}
                    if gone:
                        chunk = chunk.without(gone)
                if chunk.messages:
                    return self._take_in_hand(chunk, behind, most, whole=whole, as_columns=as_columns)
                # a fetcher says so where it put partitions whose position was not known, or lay outside the log
                self._count_consumed(chunk.next_offsets, chunk.lives, placed=True)
                self._ledger = Ledger(None, tuple(behind))
            return None

    def _is_live(self, tp: TopicPartition, lives: Mapping[TopicPartition, Life]) -> bool:
        life = self._live.get(tp)
        return life is not None and life is lives.get(tp)

    def _take_in_hand(self, chunk: Chunk, behind: Sequence[Chunk], most: int, *, whole: bool, as_columns: bool) -> Hand:
        count = min(most, len(chunk.messages))
        if as_columns and isinstance(chunk.messages, LazyMessages):
            count = chunk.messages.columns.first(most)
        hand = Hand(chunk.first(count), self._holder(), whole=whole, now=self._clock.monotonic())
        rest = (chunk.after(count),) if count < len(chunk.messages) else ()
        self._ledger = Ledger(hand, (*rest, *behind))
        return hand

    def _note(self, hand: Hand, count: int) -> None:
        if count > hand.noted:
            messages = hand.chunk.messages[hand.noted : count] if self._acknowledgements is not None else ()
            self._count_consumed(hand.chunk.offsets(hand.noted, count), hand.chunk.lives, messages)
            hand.noted = count

    def _count_consumed(
        self,
        offsets: Mapping[TopicPartition, int],
        lives: Mapping[TopicPartition, Life],
        messages: Sequence[Message] = (),
        *,
        placed: bool = False,
    ) -> None:
        epochs = {tp: lives[tp].epoch for tp in offsets if tp in lives}
        if self._acknowledgements is not None:
            offsets = self._acknowledgements.hand_out(messages, offsets, epochs)
        self._progress.note_consumed(offsets, epochs, placed=placed)


def _own_messages(chunk: Chunk) -> Sequence[Message]:
    """For the user to keep and to change."""
    messages = chunk.messages
    return MessageBatch(messages if isinstance(messages, LazyMessages) else list(messages))
