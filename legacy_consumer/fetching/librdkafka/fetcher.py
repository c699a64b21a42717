"""Fetcher over one librdkafka consumer.

Only the polling thread uses the consumer: a call from another thread would wait for a running consume(), for half a
second or for ever. Other threads store their changes under a lock, and the next poll applies them. A poll waits in
short slices, so that it returns soon after a change. No thread closes a consumer that another one is using.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from legacy_consumer.errors import BrokersUnavailableError, FetchError, KafkaError
from legacy_consumer.fetching.librdkafka.batch import LibrdkafkaBatch
from legacy_consumer.fetching.librdkafka.client_consumer import ConsumerHandle
from legacy_consumer.fetching.librdkafka.client_faults import Fault, FaultKind, has_faults, take_faults
from legacy_consumer.fetching.positions import PositionFinder, Search, StandingStill
from legacy_consumer.fetching.topic_names import NO_SUCH_NAME, has_a_possible_name
from zk_layout.errors import ConnectionLostError, ConnectTimeoutError, LegacyConsumerError, SessionExpiredError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)

_POLL_S = 0.5
"""The longest wait of one poll: between two polls, lost brokers and moved positions are checked."""
_SLICE_S = 0.05
_SEARCH_SLICE_S = 0.005
"""The slice while positions are being looked for, which takes a round trip."""
_MOST_AT_ONCE = 500
"""The most messages of one consume(). More are slower: objects leave the processor's cache before they are used."""
_CLOSE_WAIT_S = 2.0
_LOOK_S = 5.0
_PASSED_S = 1.0
"""Seconds between two requests for positions while no message comes: 2 us of processor time for each partition."""
_WAIT_OUT = (BrokersUnavailableError, ConnectionLostError, ConnectTimeoutError, SessionExpiredError)
"""No broker is known for now: neither the user's fault nor the end of the stream."""


class LibrdkafkaFetcher:
    """Implements Fetcher. open_handle: connects to the brokers that are registered at that time."""

    def __init__(self, open_handle: Callable[[], ConsumerHandle], finder: PositionFinder, *, backoff_s: float) -> None:
        self._open_handle = open_handle
        self._finder = finder
        self._backoff_s = backoff_s
        self._lock = threading.Lock()
        self._in_use = threading.Lock()
        """Held during a poll, and while close() frees the handle."""
        self._changes: dict[TopicPartition, int | None] = {}
        self._woken = False
        self._closed = False
        # only the polling thread uses the fields below
        self._due: dict[TopicPartition, int | None] = {}
        """The changes that are not applied yet; an exception during a poll loses none."""
        self._is_poll_open = False
        """Whether a poll is running, or the last one ended with an exception that is not the fetcher's."""
        self._handle: ConsumerHandle | None = None
        self._lives: dict[TopicPartition, int] = {}
        self._life = 0
        self._complaints: set[tuple[TopicPartition | None, str]] = set()
        self._errors: dict[TopicPartition | None, KafkaError] = {}
        """The last error of each partition, until a poll raises it or the partition is assigned again."""
        self._standing_still = StandingStill(backoff_s)
        self._resting: dict[TopicPartition, tuple[int, float]] = {}
        """{partition whose data is damaged: its position, and when it is fetched again}"""
        self._next_look = 0.0
        self._suspected: ConsumerHandle | None = None
        """The handle that was in use at the last check with no broker in reach."""
        self._next_passed = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether it was closed and fetches no more."""
        return self._closed

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch each partition at its offset, EARLIEST or LATEST, with the next poll."""
        with self._lock:
            self._changes.update(positions)
            self._woken = True

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions with the next poll; unknown ones are ignored."""
        with self._lock:
            self._changes.update(dict.fromkeys(partitions))
            self._woken = True

    def wake(self) -> None:
        """End a waiting poll soon. Takes no lock."""
        self._woken = True

    def poll(self, max_messages: int, timeout_s: float) -> LibrdkafkaBatch | None:
        """Return up to max_messages, or None if none came within timeout_s or something changed meanwhile.

        A batch without messages has new positions: of partitions whose position was unknown or outside the log, and
        after records without messages for the user, such as the ends of transactions.
        Raises: FetchError, PositionError (without a reset), MissingListenerError, BrokerRefusedError; other errors that
        keep a position from being found, such as NotPermittedError.
        """
        try:
            with self._in_use:
                return None if self._closed else self._whole_poll(max_messages, timeout_s)
        finally:
            if self._closed:
                self._free(0.0)

    def note_brokers(self, gone: Collection[int]) -> None:
        """Do nothing: librdkafka handles its connections itself.

        Positions are not asked for at once either: a broker that has just registered may not know its topics yet, and
        its empty answer would make librdkafka forget the partitions until the next refresh of its metadata.
        """

    def close(self) -> None:
        """Stop, and close the connections; a poll in another thread returns first. Twice is harmless."""
        self._closed = self._woken = True
        self._finder.close()
        self._free(_CLOSE_WAIT_S)

    def _free(self, wait_s: float) -> None:
        """Close the handle, unless a poll uses it for longer than wait_s: that poll then closes it at its end."""
        if self._in_use.acquire(timeout=wait_s):
            try:
                self._close_handle()
            finally:
                self._in_use.release()

    # The polling thread.

    def _whole_poll(self, max_messages: int, timeout_s: float) -> LibrdkafkaBatch | None:
        if self._is_poll_open:
            # after Ctrl-C, for example, librdkafka may have an assignment that the handle has not recorded
            self._begin_anew()
        self._is_poll_open = True
        try:
            batch = self._poll_a_handle(max_messages, time.monotonic() + min(timeout_s, _POLL_S))
        except LegacyConsumerError:
            self._is_poll_open = False
            raise
        self._is_poll_open = False
        return batch

    def _poll_a_handle(self, max_messages: int, deadline: float) -> LibrdkafkaBatch | None:
        with self._lock:
            self._woken = False
            self._due |= self._changes
            self._changes = {}
        if self._closed:
            # close() may have set _woken before this poll cleared it
            return None
        handle = self._handle or self._connect(deadline)
        if handle is None:
            return None
        if handle.may_stand_still or handle.has_forgotten:
            handle = self._begin_again(handle)
        return self._poll(handle, max_messages, deadline)

    def _begin_anew(self) -> None:
        """Drop the handle and all partitions: the caller assigns them again."""
        self._finder.forget(self._lives.keys())
        self._standing_still.forget(self._lives.keys())
        self._resting = {}
        self._lives = {}
        self._errors = {}
        self._close_handle()

    def _close_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def _connect(self, deadline: float) -> ConsumerHandle | None:
        try:
            if any(position is not None for position in self._due.values()):
                self._handle = self._open_handle()
        except _WAIT_OUT as error:
            self._complain(None, str(error))
        if self._handle is None:
            self._wait_for_change(min(deadline, time.monotonic() + self._backoff_s))
        return self._handle

    def _begin_again(self, handle: ConsumerHandle) -> ConsumerHandle:
        """If no broker can be reached, look for newly registered brokers, as after a move, and continue with these.

        librdkafka itself only knows brokers from earlier metadata. Also continue with a new handle if the old one has
        learned that a topic has no partitions, or if it is not known to fetch by the second look: when all brokers were
        down, it may never do so again. Messages that it had queued before do not show that it fetches.
        """
        now = time.monotonic()
        if now < self._next_look:
            return handle
        self._next_look = now + _LOOK_S
        try:
            fresh = self._open_handle()
        except _WAIT_OUT as error:
            self._complain(None, str(error))
            return handle
        if handle.has_forgotten:
            logger.warning("librdkafka was told that a topic has no partitions: it is begun again")
        elif fresh.bootstrap_servers == handle.bootstrap_servers:
            if self._suspected is not handle:
                self._suspected = handle
                fresh.close()
                return handle
            logger.info("no new message has come since no broker could be reached: librdkafka is begun again")
        else:
            logger.warning("no broker answers at %s, trying %s", handle.bootstrap_servers, fresh.bootstrap_servers)
        fresh.assign(handle.resume_positions())
        self._handle = fresh
        handle.close()
        return fresh

    def _wait_for_change(self, deadline: float) -> None:
        while not self._woken and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_S))

    def _poll(self, handle: ConsumerHandle, max_messages: int, deadline: float) -> LibrdkafkaBatch | None:
        if self._due:
            self._apply(handle, self._due)
            self._due = {}
        if self._finder.is_busy and (moved := self._place_found(handle)):
            return LibrdkafkaBatch((), moved)
        if self._errors:
            raise self._errors.pop(next(iter(self._errors)))
        self._standing_still.tell()
        if self._resting:
            self._fetch_rested(handle)
        messages = handle.consume(min(max_messages, _MOST_AT_ONCE), 0)
        while not messages:
            failure = handle.lasting_failure()
            if failure is not None:
                raise failure
            left = deadline - time.monotonic()
            if self._woken:
                return None
            if left <= 0:
                return self._passed(handle)
            if not self._finder.is_busy:
                messages = handle.consume(min(max_messages, _MOST_AT_ONCE), min(left, _SLICE_S))
                continue
            if moved := self._place_found(handle):
                return LibrdkafkaBatch((), moved)
            messages = handle.consume(min(max_messages, _MOST_AT_ONCE), min(left, _SEARCH_SLICE_S))
        faults: Sequence[Fault] = ()
        if has_faults(messages):
            messages, faults = take_faults(messages)
            # librdkafka's own positions lie after the data that it could not read
            next_offsets = handle.next_offsets_of(messages)
        else:
            next_offsets = handle.next_offsets(messages)
        if messages and self._complaints:
            self._have_mended([None, *next_offsets])
        self._handle_faults(handle, faults)
        return LibrdkafkaBatch(messages, next_offsets) if messages else None

    def _passed(self, handle: ConsumerHandle) -> LibrdkafkaBatch | None:
        """Return a batch of positions that moved without messages; None if none did."""
        now = time.monotonic()
        if now < self._next_passed:
            return None
        self._next_passed = now + _PASSED_S
        passed = handle.passed()
        return LibrdkafkaBatch((), passed) if passed else None

    def _apply(self, handle: ConsumerHandle, changes: Mapping[TopicPartition, int | None]) -> None:
        self._finder.forget(changes.keys())
        self._standing_still.forget(changes.keys())
        handle.unassign(changes.keys())
        starting = {
            tp: position for tp, position in changes.items() if position is not None and has_a_possible_name(tp.topic)
        }
        for tp in changes:
            self._lives.pop(tp, None)
            self._resting.pop(tp, None)
            self._errors.pop(tp, None)
        for tp in starting:
            self._life += 1
            self._lives[tp] = self._life
        handle.assign({tp: position for tp, position in starting.items() if position >= 0})
        self._search({tp: position for tp, position in starting.items() if position < 0})
        self._have_mended(changes.keys())
        for tp, position in changes.items():
            if position is not None and tp not in starting:
                self._complain(tp, NO_SUCH_NAME)

    def _search(self, positions: Mapping[TopicPartition, int]) -> None:
        if positions:
            self._finder.search([Search(tp, self._lives[tp], position) for tp, position in positions.items()])

    def _place_found(self, handle: ConsumerHandle) -> dict[TopicPartition, int]:
        """Move partitions to the finder's positions; return these."""
        placed: dict[TopicPartition, int] = {}
        for found in self._finder.take():
            search = found.search
            if self._lives.get(search.partition) != search.life:
                continue
            if found.outside is not None and not self._finder.resets:
                self._standing_still.add(found.outside)
                continue
            placed[search.partition] = found.offset
        if placed:
            handle.assign(placed)
        return placed

    def _handle_faults(self, handle: ConsumerHandle, faults: Sequence[Fault]) -> None:
        for fault in faults:
            tp = fault.partition
            if tp is not None and tp not in self._lives:
                continue
            match fault.kind:
                case FaultKind.POSITION if tp is not None:
                    if tp in handle.assigned:
                        position = handle.resume_positions()[tp]
                        handle.unassign([tp])
                        self._search({tp: position})
                case FaultKind.CORRUPT if tp is not None:
                    if tp in handle.assigned:
                        position = handle.resume_positions()[tp]
                        handle.unassign([tp])
                        self._resting[tp] = position, time.monotonic() + self._backoff_s
                        self._errors[tp] = FetchError(tp, f"offset {position}: {fault.reason}")
                case FaultKind.POSITION | FaultKind.PASSING | FaultKind.CORRUPT:
                    # CORRUPT without a partition: the answer to another request, lost with the connection
                    self._complain(tp, fault.reason)
                case FaultKind.IRRELEVANT:
                    logger.debug("%s", fault.reason)
                case FaultKind.LASTING:
                    self._errors[tp] = FetchError(tp, fault.reason)

    def _fetch_rested(self, handle: ConsumerHandle) -> None:
        now = time.monotonic()
        rested = {tp: position for tp, (position, until) in self._resting.items() if until <= now}
        for tp in rested:
            del self._resting[tp]
        handle.assign(rested)

    def _complain(self, tp: TopicPartition | None, reason: str) -> None:
        """Log a fault that librdkafka retries by itself, once until it is over: one may wait while others flow."""
        if (tp, reason) not in self._complaints:
            self._complaints.add((tp, reason))
            logger.warning("%s: waiting: %s", tp or "brokers", reason)

    def _have_mended(self, those: Collection[TopicPartition | None]) -> None:
        self._complaints = {(tp, reason) for tp, reason in self._complaints if tp not in those}
