"""Fetcher over connections of its own, one to each broker that leads some of its partitions.

The polling thread does the thinking and the decoding: of a response that is whole, the heads of its batches say where
its partitions go on, the next request is sent, and only then is the response decoded and handed out. Meanwhile the next
one is received on another processor, by a loop that needs no Python (receiving), or by the polling thread where that
cannot be: TLS, or a backlog that leaves no room for it. Threads of their own, for as long as they are needed, look for
leaders and positions and open connections, so that no partition waits for another one's trouble.

Other threads leave their changes under a lock, and the next poll applies them before anything else.

Bounded: one response a broker under way, and no more is received while settings.backlog_bytes wait to be handed out, or
are being received into.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping

from legacy_consumer.errors import (
    BrokerRefusedError,
    BrokersUnavailableError,
    CorruptRecordsError,
    FetchError,
    KafkaError,
    MalformedResponseError,
)
from legacy_consumer.positions import PositionFinder, Search
from legacy_consumer.wire.answers import have_failed_again, take_answers
from legacy_consumer.wire.backlog import Backlog
from legacy_consumer.wire.batch import SMALL_RUN, ColumnarBatch, Wish
from legacy_consumer.wire.buffers import BufferPool
from legacy_consumer.wire.connection import BrokerAddress
from legacy_consumer.wire.decoder import Decoder
from legacy_consumer.wire.known_leaders import KnownLeaders
from legacy_consumer.wire.leaders import LeaderFinder
from legacy_consumer.wire.link import BrokerLink
from legacy_consumer.wire.opening import Opening
from legacy_consumer.wire.partition import PartitionState
from legacy_consumer.wire.protocol import error_codes
from legacy_consumer.wire.protocol.error_codes import Remedy, error_name, remedy
from legacy_consumer.wire.protocol.fetch import FetchPartition, FetchResponse
from legacy_consumer.wire.receiving import Receiver
from legacy_consumer.wire.records import Columns
from legacy_consumer.wire.settings import FetchSettings
from zk_layout.model import TopicPartition

logger = logging.getLogger(__name__)

_LOW_BACKLOG_BYTES = 4 * 1024 * 1024
"""With less than this waiting the next response is taken in, so that the one after it can be asked for."""
_SERVICE_S = 0.05
"""So often sockets and searches are looked after while there is enough to hand out."""
_OVERDUE_LOOK_S = 0.1
"""So often brokers are looked at that say nothing; they may do so for seconds."""
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
        known_leaders: KnownLeaders | None = None,
    ) -> None:
        """known_leaders: what other fetchers of this process found out, for hints."""
        self._settings = settings
        self._begin_opening = begin_opening
        self._finder = finder
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._freeing = threading.Lock()
        self._changes: dict[TopicPartition, int | None] = {}
        self._woken = False
        self._closed = False
        self._polling: int | None = None
        self._bell_in, self._bell_out = socket.socketpair()
        self._bell_in.setblocking(False)
        self._bell_out.setblocking(False)
        self._leaders = make_leader_finder(self._ring)
        # below: the polling thread's own
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell_in, selectors.EVENT_READ, None)
        self._pool = BufferPool()
        self._receiver = Receiver(self._bell_out)
        self._seen_news = 0
        self._states: dict[TopicPartition, PartitionState] = {}
        self._known_leaders: dict[TopicPartition, BrokerAddress] = {}
        self._leaders_known_to_all = known_leaders or KnownLeaders()
        self._life = 0
        self._links: dict[BrokerAddress, BrokerLink] = {}
        self._wish = Wish()
        self._decoder = Decoder(self._wish, read_committed=settings.read_committed)
        self._backlog = Backlog(self._decoder.decode, self._is_live, self._decoder.look_ahead)
        self._moves: dict[TopicPartition, int] = {}
        self._errors: list[KafkaError] = []
        self._complaints: set[tuple[object, str]] = set()
        self._next_service = 0.0
        self._next_overdue_look = 0.0
        self._searching_since = 0.0

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch each partition at its offset, EARLIEST or LATEST, with the next poll."""
        with self._lock:
            self._changes.update(positions)
            self._woken = True
        self._ring()

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these with the next poll; unknown ones are ignored.

        A poll that waits is not woken, it ends with the next response: others wait for these partitions, and should not
        wait for the consuming thread's turn as well.
        """
        with self._lock:
            self._changes.update(dict.fromkeys(partitions))
            self._woken = True

    def wake(self) -> None:
        """End a poll that waits, soon."""
        with self._lock:
            self._woken = True
        self._ring()

    def poll(self, max_messages: int, timeout_s: float) -> ColumnarBatch | None:
        """Up to max_messages, or None when none came within timeout_s or something changed meanwhile.

        A batch of no messages says where partitions were put whose position was not known, or lay outside the log.
        Raises: FetchError, OffsetOutOfRangeError (without a reset), MissingListenerError, BrokerRefusedError. Polling
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
        self._ring()
        with self._lock:
            if self._polling != threading.get_ident():
                self._idle.wait_for(lambda: self._polling is None, _CLOSE_WAIT_S)
            in_use = self._polling is not None
        self._finder.close()
        self._leaders.close()
        if not in_use:
            self._free()

    def _ring(self) -> None:
        """Let a poll that waits look about; from any thread."""
        with contextlib.suppress(OSError):  # full, so it rings already; or closed
            self._bell_out.send(b"\0")

    # The polling thread.

    def _poll(self, max_messages: int, deadline: float) -> ColumnarBatch | None:
        now = time.monotonic()
        backlog = self._backlog
        if now >= self._next_service or backlog.is_empty or (self._has_news() and backlog.nbytes < _LOW_BACKLOG_BYTES):
            self._service(now, 0.0)
        while True:
            if self._moves:
                moves, self._moves = self._moves, {}
                return ColumnarBatch((), moves)
            if self._errors:
                raise self._errors.pop(0)
            runs = self._take(max_messages)
            if runs:
                return ColumnarBatch(runs, wish=self._wish)
            if self._errors:
                continue
            now = time.monotonic()
            left = deadline - now
            if left <= 0 or self._woken:
                return None
            self._service(now, min(left, self._patience(now)))

    def _take(self, max_messages: int) -> list[Columns]:
        try:
            # columns are handed out a record set at a time, and between two of them there is time to ask for more
            return self._backlog.take(max_messages, None if self._wish.objects else SMALL_RUN)
        except CorruptRecordsError as error:
            spoilt = self._backlog.drop_first()
            self._place(spoilt.partition, spoilt.position, pause=True)
            self._errors.append(error)
            return []

    def _patience(self, now: float) -> float:
        """How long to wait for sockets before something else is to be looked after."""
        waits = [1.0]
        if self._finder.is_busy:
            self._searching_since = self._searching_since or now
            is_long = now - self._searching_since > _LONG_SEARCH_S
            waits.append(_LONG_SEARCH_SLICE_S if is_long else _SEARCH_SLICE_S)
        else:
            self._searching_since = 0.0
        waits.extend(link.ready_at - now for link in self._links.values() if link.ready_at > now)
        waits.extend(state.not_before - now for state in self._states.values() if state.not_before > now)
        return max(0.0, min(waits))

    def _service(self, now: float, wait_s: float) -> None:
        """Look after searches, connections and sockets; wait up to wait_s for the latter."""
        self._next_service = now + _SERVICE_S
        self._note_found(now)
        self._note_opened(now)
        self._ask(now)
        if self._receive_from_elsewhere():
            wait_s = 0.0
        for key, _ in self._selector.select(wait_s):
            link: BrokerLink | None = key.data
            if link is None:
                with contextlib.suppress(OSError):
                    self._bell_in.recv(4096)
            elif not link.is_waiting:
                # nothing was asked, so it is the end of the connection: it is opened again when it is needed
                self._hang_up(link)
            elif self._backlog.nbytes < self._settings.backlog_bytes:
                self._receive(link)
        if wait_s > 0:
            self._receive_from_elsewhere()
        self._drop_overdue()

    def _has_news(self) -> bool:
        return self._receiver.news != self._seen_news

    def _receive_from_elsewhere(self) -> bool:
        """Take in what the receiver is done with, as long as little waits; whether there was anything.

        What is there already waits as well where it is, and memory that is used again soon is in the caches.
        """
        if not self._has_news():
            return False
        self._seen_news = self._receiver.news
        for address, link in list(self._links.items()):
            if link.connection is not None and link.connection.has_received:
                if self._backlog.nbytes >= min(_LOW_BACKLOG_BYTES, self._settings.backlog_bytes):
                    self._seen_news = -1  # look again
                    break
                self._receive(link)
                if self._links.get(address) is link:
                    self._links[address] = self._links.pop(address)  # behind the others, next time
        return True

    # Changes

    def _apply(self, changes: Mapping[TopicPartition, int | None]) -> None:
        self._finder.forget(changes.keys())
        self._leaders.forget(changes.keys())
        for tp in changes:
            self._states.pop(tp, None)
            self._moves.pop(tp, None)
        self._have_mended(changes.keys())
        for tp, position in changes.items():
            if position is not None:
                self._life += 1
                leader = self._hint_of_leader(tp)
                self._states[tp] = PartitionState(self._life, position, is_placed=position >= 0, leader=leader)
        self._leaders.search([tp for tp in changes if tp in self._states and self._states[tp].leader is None])
        self._search([tp for tp in changes if tp in self._states and not self._states[tp].is_placed])

    def _hint_of_leader(self, tp: TopicPartition) -> BrokerAddress | None:
        """The last one known, who will say so if he leads no more.

        What others found counts only if I speak with that broker already: for one that is gone one might wait long.
        """
        known = self._known_leaders.get(tp)
        if known is None:
            told = self._leaders_known_to_all.get(tp)
            link = None if told is None else self._links.get(told)
            known = None if link is None or link.connection is None else told
        return known

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
                self._leave(state.leader, f"broker {address.broker_id} leads {tp} now", now)
            state.leader = self._known_leaders[tp] = address
            self._leaders_known_to_all.note(tp, address)
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
                self._errors.append(found.outside)
                continue
            self._place(tp, found.offset)
            self._moves[tp] = found.offset

    # Connections

    def _note_opened(self, now: float) -> None:
        for link in list(self._links.values()):
            if not link.is_opening:
                continue
            try:
                connection = link.take_opened()
            except BrokerRefusedError as error:
                self._errors.append(error)
                self._lose(link, str(error), now)
            except KafkaError as error:
                self._lose(link, str(error), now)
            else:
                if connection is not None:
                    connection.pool = self._pool
                    self._watch(link)

    def _ask(self, now: float) -> None:
        """Send a request to every broker that none is under way to."""
        if self._all_are_asked():
            # the rule: this is looked at several times for each response
            return
        by_leader: dict[BrokerAddress, list[TopicPartition]] = {}
        for tp, state in self._states.items():
            if state.is_placed and state.leader is not None and state.not_before <= now:
                by_leader.setdefault(state.leader, []).append(tp)
        for address, partitions in by_leader.items():
            link = self._links.get(address)
            if link is None:
                link = self._links[address] = BrokerLink(
                    address, self._settings, lambda address: self._begin_opening(address, self._ring)
                )
            if link.is_idle:
                if link.ready_at <= now:
                    self._send(link, partitions)
            elif link.connection is None and not link.is_opening and link.ready_at <= now:
                link.open()
        for address in self._links.keys() - by_leader.keys():
            if self._links[address].is_idle and all(s.leader != address for s in self._states.values()):
                self._hang_up(self._links[address])

    def _all_are_asked(self) -> bool:
        links = self._links
        if not all(link.is_waiting for link in links.values()):
            return False
        # most partitions of a broker share one object, and hashing an address costs more than this all
        leaders = {id(state.leader): state.leader for state in self._states.values()}
        return all(leader is None or leader in links for leader in leaders.values())

    def _send(self, link: BrokerLink, partitions: Collection[TopicPartition]) -> None:
        states = self._states
        wanted: dict[TopicPartition, FetchPartition] = {}
        asked: dict[TopicPartition, tuple[int, int]] = {}
        usual_bytes = link.limited(len(partitions), 0)
        for tp in partitions:
            state = states[tp]
            limit = link.limited(len(partitions), state.larger_bytes) if state.larger_bytes else usual_bytes
            one = state.asked
            if one is None or one.offset != state.position or one.max_bytes != limit:
                state.asked = one = FetchPartition(state.position, limit)
            wanted[tp] = one
            asked[tp] = (state.life, state.position)
        try:
            link.send(wanted, asked)
        except (BrokersUnavailableError, MalformedResponseError) as error:
            self._lose(link, str(error), time.monotonic())
            return
        connection, backlog_bytes = link.connection, self._settings.backlog_bytes
        assert connection is not None
        if self._backlog.nbytes + self._receiver.under_way_bytes + connection.ahead_bytes <= backlog_bytes:
            connection.receive_ahead(self._receiver)
        self._watch(link)

    def _watch(self, link: BrokerLink) -> None:
        """Wait for the socket where nobody else does."""
        assert link.connection is not None
        is_ours = not link.connection.is_received_elsewhere
        if is_ours != link.is_watched:
            link.is_watched = is_ours
            if is_ours:
                self._selector.register(link.connection, selectors.EVENT_READ, link)
            else:
                self._selector.unregister(link.connection)

    def _unwatch(self, link: BrokerLink) -> None:
        if link.is_watched:
            assert link.connection is not None
            self._selector.unregister(link.connection)
            link.is_watched = False

    def _send_next(self, link: BrokerLink) -> None:
        """Right behind a response, so that the broker works while it is decoded."""
        now = time.monotonic()
        if link.ready_at > now:
            return
        ready = [
            tp
            for tp, state in self._states.items()
            if state.leader == link.address and state.is_placed and state.not_before <= now
        ]
        if ready:
            self._send(link, ready)

    def _receive(self, link: BrokerLink) -> None:
        try:
            response = link.receive()
        except MalformedResponseError as error:
            if "response size" in error.reason:
                self._errors.append(FetchError(None, f"{error.reason}: raise fetch.message.max.bytes"))
            self._lose(link, str(error), time.monotonic())
        except BrokersUnavailableError as error:
            self._lose(link, str(error), time.monotonic())
        else:
            if response is not None:
                self._take_in(link, response)
                if link.is_idle:
                    self._send_next(link)
            if link.connection is not None:
                self._watch(link)

    def _hang_up(self, link: BrokerLink) -> None:
        self._unwatch(link)
        link.close()
        self._links.pop(link.address, None)

    def _lose(self, link: BrokerLink, reason: str, now: float) -> None:
        """The broker is gone: look where its partitions are led now, at once the first time, then with pauses."""
        self._unwatch(link)
        link.close()
        link.failures += 1
        link.ready_at = now + (0.0 if link.failures == 1 else self._settings.backoff_s)
        self._complain(link.address, reason)
        lost = [tp for tp, state in self._states.items() if state.leader == link.address]
        self._find_leaders(lost, 0.0 if link.failures == 1 else self._settings.backoff_s)

    def _leave(self, address: BrokerAddress, reason: str, now: float) -> None:
        link = self._links.get(address)
        if link is not None and link.connection is not None:
            self._lose(link, reason, now)

    def _drop_overdue(self) -> None:
        """Give up brokers that say nothing, and meanwhile ask whether others lead what they led."""
        now = time.monotonic()
        if now < self._next_overdue_look:
            return
        self._next_overdue_look = now + _OVERDUE_LOOK_S
        for link in list(self._links.values()):
            if not (link.is_overdue(now) or link.is_suspect(now)) or self._is_readable(link):
                continue
            if link.is_overdue(now):
                self._lose(link, f"broker {link.address.broker_id} at {link.address} does not answer", now)
            else:
                link.suspect(now)
                self._leaders.search([tp for tp, state in self._states.items() if state.leader == link.address])

    def _is_readable(self, link: BrokerLink) -> bool:
        return any(key.data is link for key, _ in self._selector.select(0))

    # Responses

    def _take_in(self, link: BrokerLink, response: FetchResponse) -> None:
        if response.error != error_codes.NONE:
            self._handle_response_error(link, response.error)
            return
        asked, link.asked = link.asked, {}
        found = take_answers(response.partitions, asked, self._states, self._settings, time.monotonic())
        for records in found.records:
            self._backlog.add(records)
        if found.well and self._complaints:
            self._have_mended([link.address, *found.well])
        for tp, reason in found.complaints:
            self._complain(tp, reason)
        self._errors += found.errors
        self._search(found.outdated)
        if found.moved:
            again = have_failed_again(found.moved, self._states)
            self._find_leaders(found.moved, self._settings.backoff_s if again else 0.0)

    def _handle_response_error(self, link: BrokerLink, code: int) -> None:
        match remedy(code):
            case Remedy.NEW_SESSION:
                logger.debug("broker %d: %s", link.address.broker_id, error_name(code))
                link.break_session()
            case Remedy.TELL_USER:
                link.ready_at = time.monotonic() + self._settings.backoff_s
                self._errors.append(FetchError(None, f"broker {link.address.broker_id} says {error_name(code)}"))
            case _:
                link.ready_at = time.monotonic() + self._settings.backoff_s
                self._complain(link.address, error_name(code))

    def _find_leaders(self, partitions: Collection[TopicPartition], delay_s: float) -> None:
        for tp in partitions:
            self._states[tp].leader = None
            self._known_leaders.pop(tp, None)
            self._leaders_known_to_all.forget(tp)
        self._leaders.search(partitions, delay_s)

    def _complain(self, about: object, reason: str) -> None:
        """Log what mends itself, once until it has: one partition may wait for long while others flow."""
        if (about, reason) not in self._complaints:
            self._complaints.add((about, reason))
            logger.warning("%s: waiting: %s", about, reason)

    def _have_mended(self, those: Collection[object]) -> None:
        self._complaints = {(about, reason) for about, reason in self._complaints if about not in those}

    def _free(self) -> None:
        with self._freeing:  # who closes and who was polling may both come here
            links, self._links = self._links, {}
            for link in links.values():
                link.close(wait=True)
            is_quiet = self._receiver.close()
            self._backlog.clear()
            self._decoder.close()
            self._selector.close()
            if is_quiet:
                self._bell_in.close()
                self._bell_out.close()
