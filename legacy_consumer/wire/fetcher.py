"""Fetcher over connections of its own: which partitions, from where on, and what is handed out of what brokers send.

The polling thread does the thinking and the decoding: of a response that is whole, the heads of its batches say where
its partitions go on, the next request is sent, and only then is the response decoded and handed out. How brokers are
spoken to has a room of its own (links), which gets its turns within a poll, on the same thread. Threads of their own,
for as long as they are needed, look for leaders and positions, so that no partition waits for another one's trouble.

Other threads leave their changes under a lock, and the next poll applies them before anything else.

Bounded: while settings.backlog_bytes wait to be handed out, nothing more is received.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping

from legacy_consumer.errors import FetchError, KafkaError
from legacy_consumer.positions import PositionFinder, Search, StandingStill
from legacy_consumer.wire.answers import have_failed_again, take_answers
from legacy_consumer.wire.backlog import Backlog, RecordSet
from legacy_consumer.wire.batch import SMALL_RUN, ColumnarBatch
from legacy_consumer.wire.connection import BrokerAddress
from legacy_consumer.wire.leaders import LeaderFinder
from legacy_consumer.wire.link import Asked
from legacy_consumer.wire.links import LOW_BACKLOG_BYTES, BrokerLinks
from legacy_consumer.wire.opening import Opening
from legacy_consumer.wire.partition import PartitionState
from legacy_consumer.wire.protocol.fetch import FetchResponse
from legacy_consumer.wire.records import MAX_BATCH_BYTES, Columns, decode_records
from legacy_consumer.wire.settings import FetchSettings
from zk_layout.model import TopicPartition

logger = logging.getLogger(__name__)

_SERVICE_S = 0.05
"""So often sockets and searches are looked after while there is enough to hand out."""
_SERVICE_LOW_S = 0.001
"""The same while little is left: what has come is taken in, so that the next response can be asked for."""
_SEARCH_SLICE_S = 0.005
"""While positions are being looked for: they take a round trip."""
_LONG_SEARCH_SLICE_S = 0.05
_LONG_SEARCH_S = 1.0
_CLOSE_WAIT_S = 2.0


class ColumnarFetcher:
    """Implements Fetcher. begin_opening connects to a broker; leaders and finder are closed with this."""

    def __init__(
        self,
        settings: FetchSettings,
        *,
        begin_opening: Callable[[BrokerAddress, Callable[[], None]], Opening],
        make_leader_finder: Callable[[Callable[[], None]], LeaderFinder],
        finder: PositionFinder,
    ) -> None:
        self._settings = settings
        self._finder = finder
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._freeing = threading.Lock()
        self._changes: dict[TopicPartition, int | None] = {}
        self._gone: set[int] = set()
        self._woken = False
        self._closed = False
        self._polling: int | None = None
        # below: the polling thread's own
        self._states: dict[TopicPartition, PartitionState] = {}
        self._known_leaders: dict[TopicPartition, BrokerAddress] = {}
        self._life = 0
        self._backlog = Backlog(self._decode, self._is_live)
        self._moves: dict[TopicPartition, int] = {}
        self._errors: list[KafkaError] = []
        self._standing_still = StandingStill(settings.backoff_s)
        self._complaints: set[tuple[object, str]] = set()
        self._serviced_at = float("-inf")
        self._searching_since = 0.0
        self._links = BrokerLinks(
            settings,
            self._states,
            self._backlog,
            begin_opening=begin_opening,
            take_in=self._take_in,
            find_leaders=self._find_leaders,
            suspect=self._suspect,
            complain=self._complain,
            fail=self._errors.append,
        )
        # its thread rings, as any may
        self._leaders = make_leader_finder(self._links.ring)

    @property
    def is_closed(self) -> bool:
        """Whether it fetches no more."""
        return self._closed

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch each partition at its offset, EARLIEST or LATEST, with the next poll."""
        with self._lock:
            self._changes.update(positions)
            self._woken = True
        self._links.ring()

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these with the next poll; unknown ones are ignored.

        A poll that waits is not woken, it ends with the next response: others wait for these partitions, and should not
        wait for the consuming thread's turn as well.
        """
        with self._lock:
            self._changes.update(dict.fromkeys(partitions))
            self._woken = True

    def wake(self) -> None:
        """End a poll that waits, soon. Takes no lock."""
        self._woken = True
        self._links.ring()

    def note_brokers(self, gone: Collection[int]) -> None:
        """Brokers came or went: look again for leaders and positions; the next service leaves those that went."""
        with self._lock:
            self._gone.update(gone)
        self._leaders.look_now()
        self._finder.look_now()
        self._links.ring()

    def position(self, tp: TopicPartition) -> int | None:
        """The offset behind all of the partition that was taken, and behind what holds no messages for the user.

        None while something waits to be taken, or the position is not known. For the polling thread.
        """
        state = self._states.get(tp)
        return state.position if state is not None and state.is_placed and self._backlog.is_empty else None

    def poll(self, max_messages: int, timeout_s: float) -> ColumnarBatch | None:
        """Up to max_messages, or None when none came within timeout_s or something changed meanwhile.

        A batch of no messages says where partitions were put whose position was not known, or lay outside the log.
        Raises: FetchError, PositionError (without a reset), MissingListenerError, BrokerRefusedError. Polling
        again goes on.
        """
        with self._lock:
            if self._closed:
                return None
            self._polling = threading.get_ident()
            changes, self._changes = self._changes, {}
            self._woken = False
        try:
            if changes:
                self._apply(changes)
            return self._poll(max_messages, time.monotonic() + timeout_s)
        finally:
            self._end_poll()

    def _end_poll(self) -> None:
        with self._lock:
            self._polling = None
            closed = self._closed
            if closed:
                self._idle.notify_all()
        if closed:
            self._free()

    def close(self) -> None:
        """Stop and free everything; a poll in another thread returns first. Twice is harmless."""
        with self._lock:
            self._closed = self._woken = True
        self._links.ring()
        with self._lock:
            if self._polling != threading.get_ident():
                self._idle.wait_for(lambda: self._polling is None, _CLOSE_WAIT_S)
            in_use = self._polling is not None
        self._finder.close()
        self._leaders.close()
        if not in_use:
            self._free()

    # The polling thread.

    def _poll(self, max_messages: int, deadline: float) -> ColumnarBatch | None:
        now = time.monotonic()
        is_low = self._backlog.nbytes < LOW_BACKLOG_BYTES
        if self._backlog.is_empty or now >= self._serviced_at + (_SERVICE_LOW_S if is_low else _SERVICE_S):
            self._service(now, 0.0)
        while True:
            if self._moves:
                moves, self._moves = self._moves, {}
                return ColumnarBatch((), moves)
            if self._errors:
                raise self._errors.pop(0)
            self._standing_still.tell()
            runs = self._take(max_messages)
            if runs:
                return ColumnarBatch(runs)
            if self._errors:
                continue
            now = time.monotonic()
            left = deadline - now
            if left <= 0 or self._woken:
                return None
            self._service(now, min(left, self._patience(now)))

    def _take(self, max_messages: int) -> list[Columns]:
        try:
            # a record set at a time, as far as they are large: between two of them there is time to ask for more
            return self._backlog.take(max_messages, SMALL_RUN)
        except FetchError as error:  # CorruptRecordsError, as a rule
            spoilt = self._backlog.drop_first()
            self._place(spoilt.partition, spoilt.position, pause=True)
            self._errors.append(error)
            return []

    def _decode(self, records: RecordSet, position: int) -> Columns:
        return decode_records(
            records.records,
            records.partition,
            position,
            aborted=records.aborted,
            read_committed=self._settings.read_committed,
            max_batch_bytes=max(MAX_BATCH_BYTES, self._settings.largest_bytes),
        )

    def _patience(self, now: float) -> float:
        """How long to wait for sockets before something else is to be looked after."""
        waits = [1.0]
        if self._finder.is_busy:
            self._searching_since = self._searching_since or now
            is_long = now - self._searching_since > _LONG_SEARCH_S
            waits.append(_LONG_SEARCH_SLICE_S if is_long else _SEARCH_SLICE_S)
        else:
            self._searching_since = 0.0
        waits.extend(self._links.pauses(now))
        waits.extend(state.not_before - now for state in self._states.values() if state.not_before > now)
        return max(0.0, min(waits))

    def _service(self, now: float, wait_s: float) -> None:
        """Look after searches, connections and sockets; wait up to wait_s for the latter."""
        self._serviced_at = now
        self._note_found(now)
        if self._gone:
            with self._lock:
                gone, self._gone = self._gone, set()
            self._links.leave_brokers(gone, now)
        self._links.service(now, wait_s)

    # Changes

    def _apply(self, changes: Mapping[TopicPartition, int | None]) -> None:
        self._finder.forget(changes.keys())
        self._leaders.forget(changes.keys())
        self._standing_still.forget(changes.keys())
        for tp in changes:
            self._states.pop(tp, None)
            self._moves.pop(tp, None)
        self._have_mended(changes.keys())
        for tp, position in changes.items():
            if position is not None:
                self._life += 1
                # the last one known: it says so if it leads no more
                leader = self._known_leaders.get(tp)
                self._states[tp] = PartitionState(self._life, position, is_placed=position >= 0, leader=leader)
        self._leaders.search([tp for tp in changes if tp in self._states and self._states[tp].leader is None])
        self._search([tp for tp in changes if tp in self._states and not self._states[tp].is_placed])

    def _search(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            states = self._states
            self._finder.search([Search(tp, states[tp].life, states[tp].position) for tp in partitions])

    def _is_live(self, tp: TopicPartition, life: int) -> bool:
        state = self._states.get(tp)
        return state is not None and state.life == life

    def _place(self, tp: TopicPartition, position: int, *, pause: bool = False) -> None:
        """Go on there; what is under way or waits of the partition is dropped."""
        state = self._states[tp]
        self._life += 1
        state.life = self._life
        state.position = position
        state.is_placed = True
        if pause:
            state.not_before = time.monotonic() + self._settings.backoff_s

    def _note_found(self, now: float) -> None:
        for tp, address in self._leaders.take().items():
            state = self._states.get(tp)
            if state is None:
                continue
            if state.leader is not None and state.leader != address:
                # it was only suspected: what it may still answer must not come on top of what the new one does
                self._links.leave(state.leader, f"broker {address.broker_id} leads {tp} now", now)
            state.leader = self._known_leaders[tp] = address
        for tp, reason in self._leaders.take_reasons().items():
            self._complain(tp, reason)
        error = self._leaders.take_error()
        if error is not None:
            self._errors.append(error)
        if not self._finder.is_busy:
            return
        for found in self._finder.take():
            tp = found.search.partition
            if not self._is_live(tp, found.search.life):
                continue
            if found.outside is not None and not self._finder.resets:
                self._standing_still.add(found.outside)
                continue
            self._place(tp, found.offset)
            self._moves[tp] = found.offset

    # Responses

    def _take_in(self, broker: BrokerAddress, asked: Asked, response: FetchResponse) -> None:
        found = take_answers(response.partitions, asked, self._states, self._settings, time.monotonic())
        for records in found.records:
            self._backlog.add(records)
        if found.well and self._complaints:
            self._have_mended([broker, *found.well])
        for tp, reason in found.complaints:
            self._complain(tp, reason)
        self._errors += found.errors
        self._search(found.outdated)
        if found.moved:
            again = have_failed_again(found.moved, self._states)
            self._find_leaders(found.moved, self._settings.backoff_s if again else 0.0)

    def _find_leaders(self, partitions: Collection[TopicPartition], delay_s: float) -> None:
        for tp in partitions:
            self._states[tp].leader = None
            self._known_leaders.pop(tp, None)
        self._leaders.search(partitions, delay_s)

    def _suspect(self, partitions: Collection[TopicPartition]) -> None:
        """Ask whether others lead them by now; until then they stay where they are."""
        self._leaders.search(partitions)

    def _complain(self, about: object, reason: str) -> None:
        """Log what mends itself, once until it has: one partition may wait for long while others flow."""
        if (about, reason) not in self._complaints:
            self._complaints.add((about, reason))
            logger.warning("%s: waiting: %s", about, reason)

    def _have_mended(self, those: Collection[object]) -> None:
        self._complaints = {(about, reason) for about, reason in self._complaints if about not in those}

    def _free(self) -> None:
        with self._freeing:  # who closes and who was polling may both come here
            self._links.close()
            self._backlog.clear()
