"""A fetcher's connections, one to each broker that leads some of its partitions: opened, asked, received from, left.

A broker is asked for all its partitions at once, as soon as no other request is under way to it: right behind a
response, before that is decoded, so that it works meanwhile. Connections are opened on threads of their own, so that no
broker waits for another one's trouble.

Where a partition goes on and who leads it stands in states that the fetcher keeps. What comes, and what goes wrong, the
fetcher is told at once. Nothing waits but service(), for all sockets and for a bell, which other threads ring.

Bounded: one response a broker under way, and no more is received while settings.backlog_bytes wait to be handed out.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from legacy_consumer.errors import (
    BrokerRefusedError,
    BrokersUnavailableError,
    FetchError,
    KafkaError,
    MalformedResponseError,
)
from legacy_consumer.wire.backlog import Backlog
from legacy_consumer.wire.connection import BrokerAddress
from legacy_consumer.wire.link import Asked, BrokerLink
from legacy_consumer.wire.opening import Opening
from legacy_consumer.wire.partition import PartitionState
from legacy_consumer.wire.protocol import error_codes
from legacy_consumer.wire.protocol.error_codes import Remedy, error_name, remedy
from legacy_consumer.wire.protocol.fetch import FetchResponse
from legacy_consumer.wire.settings import FetchSettings
from zk_layout.model import TopicPartition

logger = logging.getLogger(__name__)

LOW_BACKLOG_BYTES = 4 * 1024 * 1024
"""With less than this waiting the next response is taken in, so that the one after it can be asked for."""
_OVERDUE_LOOK_S = 0.1
"""So often brokers are looked at that say nothing; they may do so for seconds."""


class BrokerLinks:
    """For the polling thread, but for ring(); close() when nobody polls.

    states, backlog: the fetcher's. Only what a state was asked for is written here, and only a backlog's size read.

    The fetcher is told, on the polling thread:
    take_in(broker, what was asked of it, response), and then has the states say where the next request goes on;
    find_leaders(partitions, delay_s), whose broker is gone; suspect(partitions), whose broker is silent;
    complain(about, reason) of what mends itself; fail(error), which the user is to get.
    """

    def __init__(
        self,
        settings: FetchSettings,
        states: Mapping[TopicPartition, PartitionState],
        backlog: Backlog,
        *,
        begin_opening: Callable[[BrokerAddress, Callable[[], None]], Opening],
        take_in: Callable[[BrokerAddress, Asked, FetchResponse], None],
        find_leaders: Callable[[Collection[TopicPartition], float], None],
        suspect: Callable[[Collection[TopicPartition]], None],
        complain: Callable[[object, str], None],
        fail: Callable[[KafkaError], None],
    ) -> None:
        self._settings = settings
        self._states = states
        self._backlog = backlog
        self._begin_opening = begin_opening
        self._take_in = take_in
        self._find_leaders = find_leaders
        self._suspect = suspect
        self._complain = complain
        self._fail = fail
        self._bell_in, self._bell_out = socket.socketpair()
        self._bell_in.setblocking(False)
        self._bell_out.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell_in, selectors.EVENT_READ, None)
        self._links: dict[BrokerAddress, BrokerLink] = {}
        self._next_overdue_look = 0.0

    def ring(self) -> None:
        """Let a service that waits look about; from any thread."""
        with contextlib.suppress(OSError):  # full, so it rings already; or closed
            self._bell_out.send(b"\0")

    def pauses(self, now: float) -> Iterator[float]:
        """In how many seconds brokers may be asked that are left alone for now."""
        for link in self._links.values():
            if link.ready_at > now:
                yield link.ready_at - now

    def service(self, now: float, wait_s: float) -> None:
        """Open, ask, receive, and give up who is silent for too long; wait up to wait_s for sockets and the bell."""
        self._note_opened(now)
        if not self._all_are_asked():  # they mostly are, and this is looked at several times for each response
            self._ask(now)
        for key, _ in self._selector.select(wait_s):
            link: BrokerLink | None = key.data
            if link is None:
                with contextlib.suppress(OSError):
                    self._bell_in.recv(4096)
            elif not link.is_waiting:
                if link.has_answered:
                    # nothing was asked, so it is the end of the connection: it is opened again when it is needed
                    self._hang_up(link, now)
                else:
                    self._lose(link, f"broker {link.address.broker_id} at {link.address} does not answer", now)
            elif self._backlog.nbytes < self._settings.backlog_bytes:
                self._receive(link)
        now = time.monotonic()
        if now >= self._next_overdue_look:
            self._drop_overdue(now)

    def leave(self, address: BrokerAddress, reason: str, now: float) -> None:
        """What this broker may still answer is to count no more."""
        link = self._links.get(address)
        if link is not None and (link.connection is not None or link.is_opening):
            self._lose(link, reason, now)

    def leave_brokers(self, broker_ids: Collection[int], now: float) -> None:
        """These brokers left ZooKeeper: look for others at once, without waiting until they are silent for long."""
        for address in [address for address in self._links if address.broker_id in broker_ids]:
            self.leave(address, f"broker {address.broker_id} left ZooKeeper", now)

    def close(self) -> None:
        """Hang up everywhere; twice is harmless, one after the other."""
        links, self._links = self._links, {}
        for link in links.values():
            link.close(wait=True)
        self._selector.close()
        self._bell_in.close()
        self._bell_out.close()

    # Asking

    def _note_opened(self, now: float) -> None:
        for link in list(self._links.values()):
            if not link.is_opening:
                continue
            try:
                connection = link.take_opened()
            except BrokerRefusedError as error:
                self._fail(error)
                self._lose(link, str(error), now)
            except KafkaError as error:
                self._lose(link, str(error), now)
            else:
                if connection is not None:
                    self._selector.register(connection, selectors.EVENT_READ, link)

    def _ask(self, now: float) -> None:
        """Send a request to every broker that none is under way to."""
        by_leader: dict[BrokerAddress, list[TopicPartition]] = {}
        for tp, state in self._states.items():
            if state.is_placed and state.leader is not None and state.not_before <= now:
                by_leader.setdefault(state.leader, []).append(tp)
        for address, partitions in by_leader.items():
            link = self._links.get(address)
            if link is None:
                link = self._links[address] = BrokerLink(
                    address, self._settings, lambda address: self._begin_opening(address, self.ring)
                )
            if link.is_idle:
                if link.ready_at <= now:
                    self._send(link, partitions)
            elif link.connection is None and not link.is_opening and link.ready_at <= now:
                link.open()
        for address in self._links.keys() - by_leader.keys():
            if self._links[address].is_spare(now) and all(s.leader != address for s in self._states.values()):
                self._hang_up(self._links.pop(address), now)

    def _all_are_asked(self) -> bool:
        links = self._links
        if not all(link.is_waiting for link in links.values()):
            return False
        # most partitions of a broker share one object, and hashing an address costs more than this all
        leaders = {id(state.leader): state.leader for state in self._states.values()}
        return all(leader is None or leader in links for leader in leaders.values())

    def _send(self, link: BrokerLink, partitions: Collection[TopicPartition]) -> None:
        wanted, asked = link.wanted(partitions, self._states)
        try:
            link.send(wanted, asked)
        except (BrokersUnavailableError, MalformedResponseError) as error:
            self._lose(link, str(error), time.monotonic())
            return

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

    # Receiving

    def _receive(self, link: BrokerLink) -> None:
        try:
            response = link.receive()
        except MalformedResponseError as error:
            if "response size" in error.reason:
                self._fail(FetchError(None, f"{error.reason}: raise fetch.message.max.bytes"))
            self._lose(link, str(error), time.monotonic())
        except BrokersUnavailableError as error:
            self._lose(link, str(error), time.monotonic())
        except MemoryError:
            reason = "there is no memory for a response: lower fetch.message.max.bytes, or give the process more"
            self._fail(FetchError(None, f"broker {link.address.broker_id}: {reason}"))
            self._lose(link, reason, time.monotonic())
        else:
            if response is not None:
                if response.error == error_codes.NONE:
                    asked, link.asked = link.asked, {}
                    self._take_in(link.address, asked, response)
                else:
                    self._handle_response_error(link, response.error)
                if link.is_idle:
                    self._send_next(link)

    def _handle_response_error(self, link: BrokerLink, code: int) -> None:
        match remedy(code):
            case Remedy.NEW_SESSION:
                logger.debug("broker %d: %s", link.address.broker_id, error_name(code))
                link.break_session()
            case Remedy.TELL_USER:
                link.ready_at = time.monotonic() + self._settings.backoff_s
                self._fail(FetchError(None, f"broker {link.address.broker_id} says {error_name(code)}"))
            case _:
                link.ready_at = time.monotonic() + self._settings.backoff_s
                self._complain(link.address, error_name(code))

    # Giving up

    def _hang_up(self, link: BrokerLink, now: float) -> float:
        """In how many seconds it may be opened again: a connection that lasted is, at once, others after a pause.

        That one can be opened is no proof that requests are answered over it.
        """
        if link.connection is not None:
            self._selector.unregister(link.connection)
        link.close()
        link.ready_at = max(now, link.ready_at, link.opened_at + self._settings.backoff_s)
        return link.ready_at - now

    def _lose(self, link: BrokerLink, reason: str, now: float) -> None:
        """The broker is gone: look where its partitions are led now."""
        pause_s = self._hang_up(link, now)
        self._complain(link.address, reason)
        self._find_leaders(self._led_by(link), pause_s)

    def _drop_overdue(self, now: float) -> None:
        """Give up brokers that say nothing, and meanwhile ask whether others lead what they led."""
        self._next_overdue_look = now + _OVERDUE_LOOK_S
        for link in list(self._links.values()):
            if not (link.is_overdue(now) or link.is_suspect(now)) or self._is_readable(link):
                continue
            if link.is_overdue(now):
                self._lose(link, f"broker {link.address.broker_id} at {link.address} does not answer", now)
            else:
                link.suspect(now)
                self._suspect(self._led_by(link))

    def _is_readable(self, link: BrokerLink) -> bool:
        return any(key.data is link for key, _ in self._selector.select(0))

    def _led_by(self, link: BrokerLink) -> list[TopicPartition]:
        return [tp for tp, state in self._states.items() if state.leader == link.address]
