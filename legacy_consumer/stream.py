"""KafkaStream: the messages of one stream, as batches or one by one, behind a gate that a rebalance can shut.

One thread consumes a stream; the coordinator opens and shuts it for single partitions. What the consuming thread was
given and has not come back from is *in hand*. A message counts as consumed when the thread comes back for the next one
(delivery.rule=at_least_once), or when it is handed out (at_next, as the JVM does it).

Iterating costs no bookkeeping per message: how far the user has come is what the iterator over the messages in hand has
left, and a loop's turn runs no code of ours at all (portions). What shuts the gate takes away what lets messages
through, so that the loop ends where it stands. To look at the lease (rebalance.lease) would cost more than all else
that a message costs, so it is looked at before each run of messages that are iterated over. A run is one message; for a
user who is done with many in a moment it is as many as that.

Shutting the gate for a partition takes effect before the next message is handed out. If some of the partition may be
in hand, the consuming thread must come back once; then it acknowledges what it had, drops what is left of the
partition, and the partition is drained.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from legacy_consumer.arrow_batches import COLUMNS, ColumnSequence, LazyMessages, check_columns, record_batch
from legacy_consumer.errors import ConsumerTimeoutError
from legacy_consumer.fetcher import Fetcher, Message
from legacy_consumer.portions import ListPortion, Portion, left
from legacy_consumer.progress import Progress
from rebalance.clock import Clock
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_SLICE_S = 0.1
"""How long one poll may wait, so that a pause or the end of the stream is noticed."""
_LEASE_SLICE_S = 0.01
"""How long to wait before the lease is looked at again; the next heartbeat renews it."""
_TAKEN_AT_ONCE = 10_000
"""So many are taken from the fetcher for a loop that comes back for each, and where columns come for any: to part them
costs less than to poll."""
_RUN = 256
_RUN_S = 100e-6
"""A run has at most so many messages, and no more than took the user about so long at his last pace."""


class _Hand:
    """Messages that were taken from the fetcher for the user."""

    __slots__ = ("barred", "credited", "epochs", "messages", "next_offsets", "noted", "portion", "portions", "whole")

    def __init__(
        self,
        messages: Sequence[Message],
        next_offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
        *,
        whole: bool = False,
    ) -> None:
        """whole: not handed out one by one; nobody may see them in hand and not know it."""
        self.messages = messages
        self.whole = whole
        self.portions: Sequence[Portion] | None = None
        self.portion = 0
        self.next_offsets = next_offsets
        self.epochs = epochs
        self.credited = epochs
        self.barred: set[TopicPartition] = set()
        self.noted = 0

    def pulled(self) -> int:
        """How many messages were handed out."""
        return len(self.messages) if self.whole else len(self.messages) - self.left()

    def left(self) -> int:
        """How many are still to be handed out, one by one."""
        return len(self.messages) if self.portions is None else sum(map(left, self.portions))

    def run(self, most: int) -> tuple[list[object], Iterator[Message]] | None:
        """A gate, and the next messages, at most so many, as far as it lets them through; None if none is left."""
        if self.portions is None:
            messages = self.messages
            self.portions = messages.portions() if isinstance(messages, LazyMessages) else (ListPortion(messages),)
        while self.portion < len(self.portions):
            portion = self.portions[self.portion]
            count = left(portion)
            if count > 0:
                gate = [portion.token] * min(most, count)
                return gate, portion.through(iter(gate))
            self.portion += 1
        return None

    def offsets_up_to(self, count: int) -> Mapping[TopicPartition, int]:
        """The positions after the first `count` messages, as far as not noted before."""
        if count == len(self.messages):
            return self.next_offsets
        new = self.messages[self.noted : count]
        if isinstance(new, LazyMessages):
            return new.next_offsets
        return {_partition_of(message): message.offset() + 1 for message in new}


class KafkaStream:
    """The messages of one consumer thread id. Iterate over it, or over batches(); from one thread at a time."""

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
    ) -> None:
        self._fetcher = fetcher
        self._progress = progress
        self._clock = clock
        self._consumer_timeout_ms = consumer_timeout_ms
        self._at_next = at_next
        self._on_drained = on_drained
        self._may_hand_out = may_hand_out
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self._opened.set()
        self._never = threading.Event()
        # replaced, never changed: whoever holds one knows whether it still stands
        self._live: Mapping[TopicPartition, int] = {}
        self._consumed: dict[TopicPartition, int] = {}
        self._consumed_epochs: Mapping[TopicPartition, int] = self._live
        self._hand: _Hand | None = None
        self._left: _Hand | None = None
        self._least = 1
        self._interrupted = False
        self._gate: list[object] = []
        self._paused = False
        self._ended = False
        self._thread_id: int | None = None
        self.fetch_errors = 0
        """How often a user was given an error instead of messages."""

    # For users.

    def __iter__(self) -> Iterator[Message]:
        """The messages, one by one, until the connector is shut down.

        Raises: ConsumerTimeoutError if none came within consumer.timeout.ms (-1 = wait for ever); FetchError.

        The stream is sound after an error, but the iterator that raised it is over: go on with another `for` over the
        stream, or with next(stream), which may be called again after any error as the next() of a Java iterator may.
        """
        return chain.from_iterable(self._runs())

    def _runs(self) -> Iterator[Iterator[Message]]:
        run, looked_at = 1, self._clock.monotonic()
        while True:
            hand = self._advance(_TAKEN_AT_ONCE, None)
            if hand is None:
                return
            while self._goes_on(hand) and (taken := hand.run(run)) is not None:
                # there to be emptied before the look at what would have emptied it
                self._gate, messages = taken
                if self._interrupted:
                    break
                yield messages
                now = self._clock.monotonic()
                run = min(_RUN, int(run * _RUN_S / max(now - looked_at, 1e-9)) or 1)
                looked_at = now

    def __next__(self) -> Message:
        """The next message; see __iter__."""
        hand = self._hand
        taken = hand.run(1) if hand is not None and not hand.whole and self._goes_on(hand) else None
        if taken is None:
            hand = self._advance(_TAKEN_AT_ONCE, None)
            taken = hand.run(1) if hand is not None else None
            if taken is None:
                raise StopIteration
        return next(taken[1])

    def batches(self, max_messages: int = 1000, timeout: float | None = None) -> Iterator[Sequence[Message]]:
        """Sequences of up to max_messages messages, until the connector is shut down.

        timeout: seconds to wait for a batch; when none came an empty one is handed out, so that the caller can see to
        other things. None = consumer.timeout.ms decides.
        Raises: as __iter__.
        """
        if max_messages < 1:
            msg = f"max_messages must be at least 1, not {max_messages}"
            raise ValueError(msg)
        while True:
            hand = self._advance(max_messages, timeout)
            if hand is None:
                return
            hand.whole = True
            yield hand.messages

    def arrow_batches(
        self,
        max_messages: int = 65536,
        timeout: float | None = None,
        columns: Collection[str] = COLUMNS,
    ) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of up to max_messages messages, until the connector is shut down.

        Columns: key, value (binary), topic (dictionary of strings), partition (int32), offset (int64), timestamp (ms,
        UTC, null if there is none), timestampType (int32); name them to get fewer, or "headers" too. A batch is as
        large as what a broker sent of a partition, about fetch.message.max.bytes. The fastest way where the columnar
        fetcher fetches: see docs/fetching.md.

        timeout: as for batches; then a batch without rows is handed out.
        Raises: as __iter__; ValueError for an unknown column; ConfigError if pyarrow is not installed.
        """
        check_columns(columns)
        if max_messages < 1:
            msg = f"max_messages must be at least 1, not {max_messages}"
            raise ValueError(msg)
        while True:
            hand = self._advance(max_messages, timeout, as_columns=True)
            if hand is None:
                return
            hand.whole = True
            yield record_batch(hand.messages, columns)

    # For the coordinator and whoever commits, from any thread.

    def begin(self, positions: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int]) -> None:
        """Hand out messages of these partitions from their positions on."""
        with self._lock:
            self._live = {**self._live, **epochs}
            self._fetcher.assign(positions)

    def go_on(
        self,
        positions: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
        stopped: Mapping[TopicPartition, int],
    ) -> None:
        """As begin, after a stop that is taken back: what is in hand of the stopped epochs counts in the new ones.

        What is in hand of an epoch before those, as of a session that was lost, counts no more than it did.
        """
        with self._lock:
            hand = self._hand
            if hand is not None:
                same = {tp: epoch for tp, epoch in epochs.items() if hand.credited.get(tp) == stopped[tp]}
                hand.credited = {**hand.credited, **same}
            self._live = {**self._live, **epochs}
            self._fetcher.assign(positions)

    def restart(self, positions: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int]) -> None:
        """Hand out from elsewhere; what is stopped stays so, and what is in hand does not count any more."""
        with self._lock:
            flowing = self._live.keys() & positions.keys()
            self._shut(flowing)
            self._live = {**self._live, **{tp: epochs[tp] for tp in flowing}}
            self._fetcher.assign({tp: positions[tp] for tp in flowing})

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of these; see undrained for what is in hand."""
        with self._lock:
            self._shut(partitions)

    def _shut(self, partitions: Collection[TopicPartition]) -> None:
        going = self._live.keys() & partitions
        if not going:
            return
        self._live = {tp: epoch for tp, epoch in self._live.items() if tp not in going}
        self._fetcher.unassign(going)
        hand = self._hand
        if hand is not None:
            touched = hand.next_offsets.keys() & going
            if touched:
                hand.barred |= touched
                self._interrupt()

    def undrained(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Which of these stopped partitions may have messages in hand."""
        with self._lock:
            return frozenset(self._hand.barred & set(partitions)) if self._hand is not None else frozenset()

    def handed_out(self, tp: TopicPartition, epoch: int) -> int | None:
        """The position after the last message of this life of the partition that is in hand; None if none is."""
        with self._lock:
            hand = self._hand
            if hand is None or hand.credited.get(tp) != epoch:
                return None
            return hand.offsets_up_to(hand.pulled()).get(tp)

    def note_progress(self) -> None:
        """Tell Progress what was consumed so far."""
        with self._lock:
            if self._hand is not None:
                self._note(self._hand, with_in_hand=self._at_next)
            self._tell_progress()

    def acknowledge(self) -> None:
        """The user says that what is in hand is done; what was not handed out yet goes back to the gate."""
        self._come_back()
        self.note_progress()

    def pause(self) -> None:
        """Hand out nothing until resume."""
        with self._lock:
            self._paused = True
            self._interrupt()
            self._opened.clear()

    def resume(self) -> None:
        """Undo pause."""
        with self._lock:
            self._paused = False
            self._opened.set()

    def let_go(self) -> None:
        """Wait no longer for what is in hand, and do not count it as consumed: its user is the one who waits."""
        with self._lock:
            if self._hand is not None:
                self._note(self._hand, with_in_hand=self._at_next)
                self._hand = None
                self._interrupt()
            self._tell_progress()

    def end(self) -> None:
        """Hand out nothing any more; the consuming thread's loop ends when it comes back, or within a poll's slice.

        Takes no lock, so that a signal handler may call it: it could be held by the thread that the signal interrupts.
        """
        self._ended = True
        self._interrupt()

    def _interrupt(self) -> None:
        """End a loop over what is in hand before the next message; from any thread."""
        self._interrupted = True
        self._gate.clear()

    def close(self) -> None:
        """End, and free the fetcher. Twice is harmless."""
        self.end()
        self._opened.set()
        self._fetcher.wake()
        self._fetcher.close()

    def is_consumed_by(self, thread_id: int) -> bool:
        """Whether this thread was the last one to ask for messages."""
        return self._thread_id == thread_id

    # The consuming thread.

    def _advance(self, max_messages: int, timeout: float | None, *, as_columns: bool = False) -> _Hand | None:
        """Acknowledge what was in hand and take the next; None at the end, an empty hand after timeout seconds."""
        self._thread_id = threading.get_ident()
        self._come_back()
        hand = self._take(max_messages, as_columns)
        if hand is not None:
            return hand
        self._fetcher.prepare()
        began = self._clock.monotonic()
        limit = self._patience(timeout)
        slice_s = _SLICE_S if limit is None else min(_SLICE_S, limit)
        while not self._ended:
            if self._paused:
                self._clock.wait(self._opened, slice_s)
            elif not self._may_hand_out():
                self._clock.wait(self._never, min(slice_s, _LEASE_SLICE_S))
            elif self._left is None:
                self._left = self._poll(max_messages, slice_s)
            hand = self._take(max_messages, as_columns)
            if hand is not None:
                return hand
            if limit is None:
                continue
            waited = self._clock.monotonic() - began
            slice_s = max(0.0, min(_SLICE_S, limit - waited))
            if waited >= limit:
                if timeout is not None:
                    return _Hand((), {}, {})
                raise ConsumerTimeoutError(self._consumer_timeout_ms)
        return None

    def _goes_on(self, hand: _Hand) -> bool:
        """Whether the next of these may be handed out."""
        # The lease first: what was lost with a session is interrupted before the next one can be leased.
        return self._may_hand_out() and not self._interrupted and hand is self._hand

    def _patience(self, timeout: float | None) -> float | None:
        if timeout is not None:
            return timeout
        return None if self._consumer_timeout_ms < 0 else self._consumer_timeout_ms / 1000

    def _come_back(self) -> None:
        """The user is back: what was in hand is consumed, what was not handed out of it waits at the gate again."""
        with self._lock:
            hand = self._hand
            if hand is None:
                return
            self._note(hand, with_in_hand=True)
            self._hand = None
            # a loop over these messages must take the rest from the gate
            self._interrupt()
            count = hand.pulled()
            if count < len(hand.messages):
                # behind it may wait what a smaller hand left of the same poll
                behind = self._left.messages if self._left is not None else ()
                ends = self._left.next_offsets if self._left is not None else hand.next_offsets
                self._left = _Hand([*hand.messages[count:], *behind], ends, hand.epochs)
        if hand.barred:
            self._on_drained()

    def _poll(self, max_messages: int, slice_s: float) -> _Hand | None:
        # A poll applies what was handed in before it began, and nothing later: so whatever it returns was fetched for
        # the lives that the partitions have now.
        epochs = self._live
        try:
            batch = self._fetcher.poll(max(max_messages, self._least), slice_s)
        except LegacyConsumerError:
            self.fetch_errors += 1
            raise
        if batch is None:
            return None
        if not isinstance(batch, ColumnSequence):
            return _Hand(batch.messages(), batch.next_offsets, epochs)
        self._least = _TAKEN_AT_ONCE
        return _Hand(LazyMessages(batch), batch.next_offsets, epochs)

    def _take(self, max_messages: int, as_columns: bool = False) -> _Hand | None:
        """Let what waits at the gate through, as far as it is still live: it is in hand then. None if there is none."""
        with self._lock:
            # before the look at what an interruption leaves, so that none which comes meanwhile is undone
            self._interrupted = False
            left = self._left
            if left is None or self._paused or self._ended or not self._may_hand_out():
                # neither handed out nor thrown away while ZooKeeper is out of sight
                return None
            self._left = None
            if left.epochs is not self._live:
                gone = {tp for tp in left.next_offsets if self._live.get(tp) != left.epochs.get(tp, 0)}
                if gone:
                    left = _hand_without(left, gone)
            left, self._left = _parted(left, max_messages, as_columns)
            if not left.messages:
                # a fetcher says so where it put partitions whose position was not known, or lay outside the log
                self._count_consumed(left.next_offsets, left.epochs)
                return None
            self._hand = left
            return left

    def _note(self, hand: _Hand, *, with_in_hand: bool) -> None:
        count = hand.pulled()
        if not with_in_hand:
            # the last one handed out is in the user's hands, or the whole batch is
            count = 0 if hand.whole else max(0, count - 1)
        if count > hand.noted:
            self._count_consumed(hand.offsets_up_to(count), hand.credited)
            hand.noted = count

    def _count_consumed(self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int]) -> None:
        """Keep it here until somebody asks: Progress would cost as much as all else that a batch costs."""
        if epochs is not self._consumed_epochs:
            self._tell_progress()
            self._consumed_epochs = epochs
        self._consumed.update(offsets)

    def _tell_progress(self) -> None:
        if self._consumed:
            self._progress.note_consumed(self._consumed, self._consumed_epochs)
            self._consumed = {}


def _partition_of(message: Message) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())


def _hand_without(hand: _Hand, gone: Collection[TopicPartition]) -> _Hand:
    if isinstance(hand.messages, LazyMessages):
        kept = hand.messages.columns.without(gone)
        return _Hand(LazyMessages(kept), kept.next_offsets, hand.epochs)
    return _hand_of([m for m in hand.messages if _partition_of(m) not in gone], hand.epochs)


def _parted(hand: _Hand, most: int, as_columns: bool) -> tuple[_Hand, _Hand | None]:
    """What is handed out at once, as one record batch or as messages, and the rest."""
    messages, count = hand.messages, len(hand.messages)
    first = min(most, count)
    if not isinstance(messages, LazyMessages):
        if first == count:
            return hand, None
        ours = _hand_of(messages[:first], hand.epochs)
        return ours, _Hand(messages[first:], hand.next_offsets, hand.epochs)
    if as_columns:
        columns = messages.columns
        first = columns.first(most)
        columns = columns.part(0, first)
        ours = _Hand(columns, columns.next_offsets, hand.epochs, whole=True)
    elif first == count:
        return hand, None
    else:
        part = messages.part(0, first)
        ours = _Hand(part, part.next_offsets, hand.epochs)
    if first == count:
        return ours, None
    rest = messages.part(first, count)
    # as a rule they are of one partition, which ends where it did
    ends = hand.next_offsets if len(hand.next_offsets) == 1 else rest.next_offsets
    return ours, _Hand(rest, ends, hand.epochs)


def _hand_of(messages: Sequence[Message], epochs: Mapping[TopicPartition, int]) -> _Hand:
    return _Hand(messages, {_partition_of(message): message.offset() + 1 for message in messages}, epochs)
