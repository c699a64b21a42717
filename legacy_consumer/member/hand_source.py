"""HandSource: gets the next hand of a stream, for one consuming thread at a time.

Each call for messages comes here. It counts the messages in hand as consumed, and takes the next hand from the waiting
chunks (hand.py), or from a poll of the fetcher. If an exception interrupts a poll, the stream fetches its partitions
again, from after the messages in hand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from legacy_consumer.errors import CallInProgressError, ConsumerTimeoutError, StreamInUseError
from legacy_consumer.fetching.arrow_batches import ColumnSequence, LazyMessages
from legacy_consumer.fetching.fetcher import Fetcher
from legacy_consumer.member.gate import Gate
from legacy_consumer.member.hand import Chunk, Hand, Ledger, Life
from legacy_consumer.member.interrupted_calls import is_inside
from legacy_consumer.member.owning_process import OwningProcess
from legacy_consumer.offsets.progress import Progress
from rebalance.clock import Clock
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition
from zk_layout.running_threads import is_running
from zk_layout.signals import Flag

_POLL_S = 60.0
"""The longest wait of one poll, in seconds. The end of the stream wakes it."""
_PAUSED_SLICE_S = 0.5
"""The interval at which a paused stream checks for its end: end() takes no lock, so it wakes no waiting thread."""
_LEASE_SLICE_S = 0.01
"""The wait, in seconds, until the next check of the lease, which the next heartbeat renews."""
TAKEN_AT_ONCE = 10_000
"""Messages per poll: for a loop over single messages, and for every loop once the fetcher has returned columns, because
splitting a batch costs less than a poll."""

_tokens = threading.local()


def this_thread() -> object:
    """Return a token of the calling thread. Its ident would not do: the system gives it to a later thread."""
    try:
        return _tokens.mine
    except AttributeError:
        _tokens.mine = object()
        return _tokens.mine


@dataclass(frozen=True, slots=True)
class Demand:
    """The request of a call for messages: the most that it takes, and whether one by one or as a whole.

    timeout: seconds until the call gets an empty hand; None = consumer.timeout.ms decides. as_columns: take only as
    many messages as make one record batch cheaply.
    """

    most: int
    timeout: float | None = None
    whole: bool = False
    as_columns: bool = False


class HandSource(Gate):
    """The part of a stream that waits for messages, polls the fetcher and takes the next hand."""

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

        holder: returns a token of the caller, which has the messages in hand until the next call for messages.
        """
        super().__init__(
            fetcher=fetcher,
            progress=progress,
            clock=clock,
            at_next=at_next,
            on_drained=on_drained,
            acknowledged=acknowledged,
        )
        self._consumer_timeout_ms = consumer_timeout_ms
        self._may_hand_out = may_hand_out
        self._holder = holder
        self._process = OwningProcess(self)
        self._never = Flag()
        self._is_poll_open = False
        self._least = 1
        self._ended = False
        self._user: threading.Thread | None = None
        """The thread that waits for messages now."""
        self._last_user: threading.Thread | None = None
        self._left_at = clock.monotonic()
        """When the last call for messages returned, with messages or without."""
        self._rival: threading.Thread | None = None
        self.fetch_errors = 0
        """The number of the fetcher's errors that the user's code got instead of messages."""

    # For the connector, from any thread.

    def in_hand_s(self) -> float:
        """Return how long the user's code has had messages in hand, as earlier calls saw it; 0 without any. No lock."""
        return self._in_hand_s(self._clock.monotonic()) or 0.0

    def unasked_s(self) -> float:
        """Return how long no thread has asked for more, as earlier calls saw it; 0 without partitions. No lock."""
        user = self._user
        if is_running(user):
            return 0.0
        now = self._clock.monotonic()
        in_hand_s = self._in_hand_s(now)
        if in_hand_s is not None:
            # a loop takes the messages of its hand without a call
            return in_hand_s
        return now - self._left_at if self._wanted else 0.0

    def _in_hand_s(self, now: float) -> float | None:
        """Return the same as in_hand_s, but None if nothing is in hand."""
        hand = self._ledger.hand
        return now - hand.idle_since(now) if hand is not None and hand.handed_out() else None

    def is_deserted(self) -> bool:
        """Return whether the thread that asked last has ended. Takes no lock."""
        return self._last_user is not None and not is_running(self._last_user)

    def end(self) -> None:
        """Hand out nothing any more, and wake a poll; the consuming thread's loop ends when it asks again.

        Takes no lock, so that a signal handler may call it.
        """
        self._ended = True
        self._interrupt()
        self._fetcher.wake()

    def end_in_child(self) -> None:
        """Shut the hand in a forked child: a loop in it then asks for more, and gets ForkedConsumerError."""
        self._interrupt()

    def close(self) -> None:
        """End, and free the fetcher. Twice is harmless."""
        self.end()
        self._opened.set()
        # waiting chunks take many MB, and the user's code may keep the stream
        self._ledger = Ledger(self._ledger.hand)
        self._fetcher.close()

    # The consuming thread.

    def _advance(self, demand: Demand) -> Hand | None:
        """Count the messages in hand as consumed; take the next hand, None at the end, an empty one after timeout."""
        self.check_process()
        me = threading.current_thread()
        if self._user is me and is_inside(self):
            raise CallInProgressError
        try:
            self._enter(me)
            return self._next_hand(demand)
        finally:
            if self._user is me:
                try:
                    self._left_at = self._clock.monotonic()
                finally:
                    # also after an exception in the clock, other threads must be able to use the stream
                    self._user = None

    def _enter(self, me: threading.Thread) -> None:
        with self._lock:
            user = self._user
            # an exception may have ended a thread before it reset _user
            if user is not None and user is not me and is_running(user):
                self._rival = me
                raise StreamInUseError(user.name)
            self._rival = None
            self._user = self._last_user = me

    def _next_hand(self, demand: Demand) -> Hand | None:
        self.come_back()
        if self._is_poll_open or self._is_unsettled:
            self._go_on_after_an_exception()
        hand = self._take(demand)
        if hand is not None:
            return hand
        began = self._clock.monotonic()
        limit = self._patience(demand.timeout)
        left_s = _POLL_S if limit is None else min(_POLL_S, limit)
        while not self._ended:
            if self._pauses:
                self._clock.wait(self._opened, min(left_s, _PAUSED_SLICE_S))
            elif not self._may_hand_out():
                self._clock.wait(self._never, min(left_s, _LEASE_SLICE_S))
            elif not self._ledger.waiting:
                self._poll(demand.most, left_s)
            hand = self._take(demand)
            if hand is not None:
                return hand
            if limit is None:
                continue
            waited = self._clock.monotonic() - began
            left_s = max(0.0, min(_POLL_S, limit - waited))
            if waited >= limit:
                if demand.timeout is not None:
                    return Hand(Chunk((), {}, {}), None, whole=demand.whole)
                raise ConsumerTimeoutError(self._consumer_timeout_ms)
        return None

    def _patience(self, timeout: float | None) -> float | None:
        if timeout is not None:
            return timeout
        return None if self._consumer_timeout_ms < 0 else self._consumer_timeout_ms / 1000

    def check_process(self) -> None:
        """Refuse a forked child, where a lock of another thread is never released. Raises: ForkedConsumerError."""
        self._process.check()

    def _poll(self, most: int, wait_s: float) -> None:
        lives = self._live
        self._is_poll_open = True
        try:
            batch = self._fetcher.poll(max(most, self._least), wait_s)
        except LegacyConsumerError:
            # the fetcher raised the error itself, and has lost no message
            self._is_poll_open = False
            self.fetch_errors += 1
            raise
        if batch is not None:
            if isinstance(batch, ColumnSequence):
                self._least = TAKEN_AT_ONCE
            messages = LazyMessages(batch) if isinstance(batch, ColumnSequence) else batch.messages()
            with self._lock:
                if messages:
                    ledger = self._ledger
                    self._ledger = Ledger(ledger.hand, (*ledger.waiting, Chunk(messages, batch.next_offsets, lives)))
                else:
                    # the positions at which the fetcher placed partitions, or after records without messages; they
                    # count also for a partition paused meanwhile: else the fetcher would look up its log's end again
                    self._count_consumed(batch.next_offsets, lives, placed=True)
                self._fetch_what_began(batch.next_offsets, lives)
            self._tell_drained()
        self._is_poll_open = False

    def _fetch_what_began(self, polled: Mapping[TopicPartition, int], lives: Mapping[TopicPartition, Life]) -> None:
        """Fetch polled partitions again that began after the poll noted the lives.

        The poll may have fetched them from their new start already. The stream cannot know that, and drops the poll's
        messages of them.
        """
        if self._live is not lives:
            began = {tp for tp in polled if tp in self._live and not self._is_live(tp, lives)}
            if began:
                self._fetch_again(began)

    def _go_on_after_an_exception(self) -> None:
        """Fetch again after an exception that is not the fetcher's: it is unknown which messages the poll took."""
        with self._lock:
            self._is_unsettled |= self._is_poll_open
            self._settle()
        self._is_poll_open = False

    def _take(self, demand: Demand) -> Hand | None:
        """Make the waiting messages of live partitions the hand, and return it; None without any."""
        with self._lock:
            return self._take_waiting(demand)

    def _take_waiting(self, demand: Demand) -> Hand | None:
        while self._ledger.waiting:
            if self._pauses or self._ended or not self._may_hand_out():
                # the chunks stay: messages are neither handed out nor dropped while ZooKeeper does not answer
                return None
            chunk, *behind = self._ledger.waiting
            if chunk.lives is not self._live:
                gone = {tp for tp in chunk.next_offsets if not self._is_live(tp, chunk.lives)}
                if gone:
                    chunk = chunk.without(gone)
            if chunk.messages:
                return self._take_in_hand(chunk, behind, demand)
            # the rest of the chunk has positions only: the fetcher passed records without messages
            self._count_consumed(chunk.next_offsets, chunk.lives, placed=True)
            self._ledger = Ledger(None, tuple(behind))
        return None

    def _is_live(self, tp: TopicPartition, lives: Mapping[TopicPartition, Life]) -> bool:
        life = self._live.get(tp)
        return life is not None and life is lives.get(tp)

    def _take_in_hand(self, chunk: Chunk, behind: Sequence[Chunk], demand: Demand) -> Hand:
        count = min(demand.most, len(chunk.messages))
        if demand.as_columns and isinstance(chunk.messages, LazyMessages):
            count = chunk.messages.columns.first(demand.most)
        hand = Hand(chunk.first(count), self._holder(), whole=demand.whole, now=self._clock.monotonic())
        rest = (chunk.after(count),) if count < len(chunk.messages) else ()
        self._ledger = Ledger(hand, (*rest, *behind))
        # end() and end_in_child() take no lock: they find this hand in the ledger, or came before this check
        if self._ended or self._process.is_elsewhere:
            hand.shut()
        return hand
