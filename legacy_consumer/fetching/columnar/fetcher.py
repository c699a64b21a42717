"""The fetcher with connections of its own: it drives the core, and hands out the decoded messages.

The core (columnar.core) decides the requests to each broker, and handles the responses. This class drives it on the
polling thread, with the sockets, the clock, the log and the decoder that the core does not know. When a response is
complete, it reads the next offsets from the headers of the batches and sends the next request; only then it decodes the
response and hands it out. Short-lived threads connect and look for leaders and positions, so no partition waits for the
trouble of another.

Other threads leave their changes under a lock, and the next poll applies them before anything else.

Bounded: while settings.backlog_bytes wait to be handed out, nothing more is received.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence

from legacy_consumer.errors import (
    BrokerRefusedError,
    BrokersUnavailableError,
    FetchError,
    KafkaError,
    MalformedResponseError,
)
from legacy_consumer.fetching.columnar.backlog import Backlog
from legacy_consumer.fetching.columnar.batch import SMALL_RUN, SMALL_RUN_BYTES, ColumnarBatch
from legacy_consumer.fetching.columnar.core import (
    BrokerAddress,
    Event,
    Failed,
    FetchCore,
    FindLeader,
    FindPosition,
    HangUp,
    Records,
    Waiting,
)
from legacy_consumer.fetching.columnar.leader_finder import LeaderFinder
from legacy_consumer.fetching.columnar.opening import Opening
from legacy_consumer.fetching.columnar.records import (
    MAX_BATCH_BYTES,
    Ahead,
    Columns,
    Wishes,
    decode_ahead,
    decode_records,
    glance,
)
from legacy_consumer.fetching.columnar.settings import FetchSettings
from legacy_consumer.fetching.columnar.sockets import BrokerSockets
from legacy_consumer.fetching.positions import Found, PositionFinder, Search, StandingStill
from zk_layout.errors import LegacyConsumerError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

if sys.version_info >= (3, 11):
    from typing import assert_never
else:
    from typing_extensions import assert_never

logger = safe_logger(__name__)

_SERVICE_S = 0.05
"""Seconds between two services of sockets and searches while messages are waiting; otherwise each poll does one."""
_SEARCH_SLICE_S = 0.005
"""The slice while positions are being looked for, which takes a round trip."""
_LONG_SEARCH_SLICE_S = 0.05
_LONG_SEARCH_S = 1.0
_CLOSE_WAIT_S = 2.0
_LONGEST_WAIT_S = 0.5


class ColumnarFetcher:
    """Implements Fetcher. begin_opening: connects to a broker; close() also closes leaders and finder."""

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
        self._in_use = threading.Lock()
        """Held during a poll, and while close() frees sockets and messages."""
        self._changes: dict[TopicPartition, int | None] = {}
        self._gone: set[int] = set()
        self._woken = False
        self._closed = False
        # only the polling thread uses the fields below
        self._due: dict[TopicPartition, int | None] = {}
        """The changes that are not applied yet; an exception during a poll loses none."""
        self._is_poll_open = False
        """Whether a poll is running, or the last one ended with an exception that is not the fetcher's."""
        self._core = FetchCore(settings, glance)
        self._sockets = BrokerSockets(settings, begin_opening)
        self._backlog = Backlog(self._decode, self._decode_ahead, self._core.is_live)
        self._found: list[Found] = []
        self._moves: dict[TopicPartition, int] = {}
        self._standing_still = StandingStill(settings.backoff_s)
        self._serviced_at = float("-inf")
        # received bytes are checked twice within the time after which a silent broker is suspected
        self._longest_wait_s = min(_LONGEST_WAIT_S, settings.suspicion_s / 2)
        self._noted_bytes_at = float("-inf")
        self._searching_since = 0.0
        # its thread wakes the poll, as any thread may
        self._leaders = make_leader_finder(self._sockets.ring)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed and fetches no more."""
        return self._closed

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch each partition at its offset, EARLIEST or LATEST, with the next poll."""
        with self._lock:
            self._changes.update(positions)
        self._sockets.ring()

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions with the next poll; unknown ones are ignored.

        This does not wake a waiting poll, which ends with the next response: other members wait for these partitions,
        and should not also wait until the consuming thread runs.
        """
        with self._lock:
            self._changes.update(dict.fromkeys(partitions))

    def wake(self) -> None:
        """End the waiting poll, or the next one, soon. Takes no lock."""
        self._woken = True
        self._sockets.ring()

    def note_brokers(self, gone: Collection[int]) -> None:
        """Note that brokers registered or left: search again for leaders and positions, and drop brokers that left."""
        with self._lock:
            self._gone.update(gone)
        self._leaders.look_now()
        self._finder.look_now()
        self._sockets.ring()

    def poll(self, max_messages: int, timeout_s: float) -> ColumnarBatch | None:
        """Return up to max_messages, or None if none came within timeout_s or something changed meanwhile.

        A batch without messages has new positions: of partitions whose position was unknown or outside the log, and
        after records without messages for the user, such as the ends of transactions.
        Raises: FetchError, PositionError (without a reset), MissingListenerError, BrokerRefusedError. The next poll
        continues.
        """
        try:
            with self._in_use:
                return None if self._closed else self._whole_poll(max_messages, timeout_s)
        finally:
            if self._closed:
                self._free(0.0)

    def close(self) -> None:
        """Stop, and close the connections; a poll in another thread returns first. Twice is harmless."""
        self._closed = self._woken = True
        self._sockets.ring()
        self._finder.close()
        self._leaders.close()
        self._free(_CLOSE_WAIT_S)

    def _free(self, wait_s: float) -> None:
        """Free sockets and messages. If a poll uses them for longer than wait_s, that poll does it at its end."""
        if self._in_use.acquire(timeout=wait_s):
            try:
                self._sockets.close()
                self._backlog.clear()
            finally:
                self._in_use.release()

    # The polling thread.

    def _whole_poll(self, max_messages: int, timeout_s: float) -> ColumnarBatch | None:
        if self._is_poll_open:
            # after Ctrl-C, for example, a request may be noted but not sent, or a response only half handled
            self._begin_anew()
        self._is_poll_open = True
        try:
            if self._changes or self._due:
                self._apply_changes()
            batch = self._poll(max_messages, time.monotonic() + timeout_s)
        except LegacyConsumerError:
            self._is_poll_open = False
            raise
        self._is_poll_open = False
        return batch

    def _begin_anew(self) -> None:
        self._sockets.begin_anew()
        self._follow(self._core.interrupted(time.monotonic()))

    def _poll(self, max_messages: int, deadline: float) -> ColumnarBatch | None:
        now = time.monotonic()
        is_low = self._backlog.nbytes < self._settings.backlog_bytes
        if is_low or now >= self._serviced_at + _SERVICE_S:
            self._service(now, 0.0)
        while True:
            if self._moves:
                moves, self._moves = self._moves, {}
                return ColumnarBatch((), moves)
            self._standing_still.tell()
            if not self._backlog.is_empty:
                runs = self._take(max_messages)
                if self._backlog.positions:
                    return ColumnarBatch(runs, self._backlog.positions)
            now = time.monotonic()
            left = deadline - now
            if left <= 0 or self._woken or self._changes:
                self._woken = False
                return None
            self._service(now, min(left, self._patience(now)))

    def _take(self, max_messages: int) -> list[Columns]:
        try:
            # one large record set at a time: between two of them the next requests can be sent
            return self._backlog.take(max_messages, SMALL_RUN, SMALL_RUN_BYTES)
        except LegacyConsumerError as error:  # usually CorruptRecordsError
            # the frames hold the response and its columns, and the user's code may keep the error for long
            traceback.clear_frames(error.__traceback__)
            self._set_aside(self._backlog.drop_first())
            raise

    def _set_aside(self, told: Records | Failed) -> None:
        if isinstance(told, Records):
            self._core.damaged(told.partition, told.life, told.position, time.monotonic())

    def _decode(self, records: Records) -> Columns:
        return decode_records(records.records, records.partition, records.position, **self._wishes(records))

    def _decode_ahead(self, records: Records) -> Ahead | None:
        return decode_ahead(records.records, records.partition, records.position, **self._wishes(records))

    def _wishes(self, records: Records) -> Wishes:
        return {
            "aborted": records.aborted,
            "read_committed": self._settings.read_committed,
            "max_batch_bytes": max(MAX_BATCH_BYTES, self._settings.largest_bytes),
        }

    def _patience(self, now: float) -> float:
        """Return how long to wait for sockets before the next check of searches."""
        if self._finder.is_busy or self._found:
            self._searching_since = self._searching_since or now
            is_long = now - self._searching_since > _LONG_SEARCH_S
            return _LONG_SEARCH_SLICE_S if is_long else _SEARCH_SLICE_S
        self._searching_since = 0.0
        return self._longest_wait_s

    def _service(self, now: float, wait_s: float) -> None:
        """Serve searches, connections and sockets; wait for sockets up to wait_s and the core's deadline."""
        self._serviced_at = now
        if self._leaders.has_news:
            self._note_leaders(now)
        if self._finder.is_busy or self._found:
            self._note_positions()
        if self._gone:
            with self._lock:
                gone, self._gone = self._gone, set()
            self._follow(self._core.gone(gone, now))
        self._note_opened(now)
        due = self._core.next_deadline()
        if due <= now:
            self._ask(now)
            due = self._core.next_deadline()
        if now >= self._noted_bytes_at + self._longest_wait_s / 2:
            self._noted_bytes_at = now
            self._sockets.note_any_byte()
        readable = self._sockets.wait(max(0.0, min(wait_s, due - now)))
        now = time.monotonic()
        for address in readable:
            if self._backlog.nbytes < self._settings.backlog_bytes or not self._sockets.is_asked(address):
                self._receive(address)
            else:
                self._core.heard(address, now)
        if now >= due:
            self._follow(self._core.look_for_silence(now))

    # Changes

    def _apply_changes(self) -> None:
        with self._lock:
            self._due |= self._changes
            self._changes = {}
        self._apply(self._due)
        self._due = {}

    def _apply(self, changes: Mapping[TopicPartition, int | None]) -> None:
        self._finder.forget(changes.keys())
        self._leaders.forget(changes.keys())
        self._standing_still.forget(changes.keys())
        for tp in changes:
            self._moves.pop(tp, None)
        self._follow(self._core.change(changes))

    def _note_leaders(self, now: float) -> None:
        leaders, error = self._leaders.take()
        for tp, reason in leaders.missing.items():
            self._follow(self._core.leader_missing(tp, reason))
        for tp, address in leaders.addresses.items():
            self._follow(self._core.leader_found(tp, address, now))
        if error is not None:
            self._backlog.add(Failed(error))

    def _note_positions(self) -> None:
        founds, self._found = [*self._found, *self._newly_found()], []
        for found in founds:
            tp, life = found.search.partition, found.search.life
            if self._backlog.holds(tp, life):
                # the messages before the position come first; the move would drop them
                self._found.append(found)
            elif found.outside is not None and not self._finder.resets:
                if self._core.is_live(tp, life):
                    self._standing_still.add(found.outside)
            elif self._core.placed(tp, life, found.offset):
                self._moves[tp] = found.offset

    def _newly_found(self) -> list[Found]:
        try:
            return self._finder.take()
        except LegacyConsumerError as error:
            self._backlog.add(Failed(error))
            return []

    # Brokers

    def _note_opened(self, now: float) -> None:
        for address, opening in self._sockets.take_opened():
            try:
                version = self._sockets.use(address, opening)
            except KafkaError as error:
                self._lose(address, str(error), now, error if isinstance(error, BrokerRefusedError) else None)
            else:
                self._core.opened(address, version)

    def _ask(self, now: float) -> None:
        """Carry out the orders of the core for connections."""
        for order in self._core.requests(now):
            try:
                self._sockets.obey(order)
            except (BrokersUnavailableError, MalformedResponseError) as error:
                self._lose(order.broker, str(error), time.monotonic())

    def _receive(self, address: BrokerAddress) -> None:
        try:
            response = self._sockets.receive(address)
        except MalformedResponseError as error:
            is_large = "response size" in error.reason
            told = FetchError(None, f"{error.reason}: raise fetch.message.max.bytes") if is_large else None
            self._lose(address, str(error), time.monotonic(), told)
        except BrokersUnavailableError as error:
            self._lose(address, str(error), time.monotonic())
        except MemoryError:
            reason = "there is no memory for a response: lower fetch.message.max.bytes, or give the process more"
            told = FetchError(None, f"broker {address.broker_id}: {reason}")
            self._lose(address, reason, time.monotonic(), told)
        else:
            now = time.monotonic()
            if response is None:
                self._core.heard(address, now)
                return
            self._follow(self._core.received(address, response, now))
            # right after the response, so that the broker works while the response is decoded
            self._ask(now)

    def _lose(self, address: BrokerAddress, reason: str, now: float, error: KafkaError | None = None) -> None:
        self._follow(self._core.lost(address, reason, now, error))

    def _follow(self, events: Sequence[Event]) -> None:
        """Carry out the events of the core."""
        searches: list[Search] = []
        for event in events:
            match event:
                case Records() | Failed():
                    self._backlog.add(event)
                case FindLeader(partitions, delay_s):
                    self._leaders.search(partitions, delay_s)
                case FindPosition(tp, life, position):
                    searches.append(Search(tp, life, position))
                case HangUp():
                    self._sockets.obey(event)
                case Waiting(about, reason):
                    logger.warning("%s: waiting: %s", about, reason)
                case _:
                    assert_never(event)
        if searches:
            self._finder.search(searches)
