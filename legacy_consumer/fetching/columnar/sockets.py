"""The connections of a fetcher, one to each broker: carries out the core's orders, waits, and receives responses.

It decides nothing. Only wait() waits: for all sockets, and for another thread that calls ring().
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.columnar.connection import Connection
from legacy_consumer.fetching.columnar.core import BrokerAddress, HangUp, Open, Order, Send
from legacy_consumer.fetching.columnar.opening import Opening
from legacy_consumer.fetching.columnar.protocol.fetch import FetchResponse, decode_fetch, encode_fetch
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.settings import FetchSettings

_CLOSE_WAIT_S = 1.0


class BrokerSockets:
    """Only the polling thread may use it; but any thread may call ring(), and close() while no thread polls.

    begin_opening: begins to connect to a broker, and calls its second argument once that is done.
    """

    def __init__(
        self,
        settings: FetchSettings,
        begin_opening: Callable[[BrokerAddress, Callable[[], None]], Opening],
    ) -> None:
        self._timeout_s = settings.socket_timeout_s
        self._begin_opening = begin_opening
        self._bell_in, self._bell_out = socket.socketpair()
        self._bell_in.setblocking(False)
        self._bell_out.setblocking(False)
        self._openings: dict[BrokerAddress, Opening] = {}
        self._connections: dict[BrokerAddress, Connection] = {}
        self._begin()
        self._responses = 0
        self._last_response: dict[BrokerAddress, int] = {}
        """{broker: the number of its last response, counted over all brokers}."""

    def _begin(self) -> None:
        # not selectors: its Python code takes 4 % of the time that a member at rest needs for an empty answer
        self._poll = select.poll()
        self._poll.register(self._bell_in, select.POLLIN)
        self._polled: dict[int, BrokerAddress] = {}
        """{descriptor: broker} of the connections."""

    def begin_anew(self) -> None:
        """Close all connections, whatever an exception has left half done."""
        self._begin()
        self._hang_up_everywhere(0)

    def ring(self) -> None:
        """End the wait, or the next one. Any thread may call it."""
        with contextlib.suppress(OSError):  # its buffer is full, so the wait ends anyway; or closed
            self._bell_out.send(b"\0")

    def obey(self, order: Order) -> None:
        """Carry out an order of the core. Raises, for a request: BrokersUnavailableError, MalformedResponseError."""
        match order:
            case Send():
                body = encode_fetch(order.version, order.limits, order.partitions, order.session, order.forgotten)
                self._connections[order.broker].send_in(
                    order.version, Api.FETCH, body, largest_bytes=order.largest_bytes, timeout_s=self._timeout_s
                )
            case Open(broker):
                self._openings[broker] = self._begin_opening(broker, self.ring)
            case HangUp(broker):
                self._hang_up(broker)

    def take_opened(self) -> list[tuple[BrokerAddress, Opening]]:
        """Return the connections that were opened, or failed to open, each once; see use()."""
        if not self._openings:
            return []
        done = [(address, opening) for address, opening in self._openings.items() if opening.is_done]
        for address, _ in done:
            del self._openings[address]
        return done

    def use(self, address: BrokerAddress, opening: Opening) -> int:
        """Take an opened connection; return the version of its fetches. Raises: the error of opening it."""
        connection = opening.result()
        try:
            version = connection.versions.of(Api.FETCH)
        except BaseException:
            connection.close()
            raise
        self._connections[address] = connection
        self._polled[connection.fileno()] = address
        self._poll.register(connection, select.POLLIN)
        return version

    def wait(self, wait_s: float) -> list[BrokerAddress]:
        """Wait up to wait_s, or until ring(); return the brokers that sent something.

        The broker whose last response is the oldest comes first. A caller that has room for only one response receives
        from the first broker, so each broker has its turn.
        """
        readable: list[BrokerAddress] = []
        for descriptor, _ in self._poll.poll(wait_s * 1000):
            address = self._polled.get(descriptor)
            if address is None:
                with contextlib.suppress(OSError):
                    self._bell_in.recv(4096)
            else:
                readable.append(address)
        readable.sort(key=lambda address: self._last_response.get(address, 0))
        return readable

    def note_any_byte(self) -> None:
        """Let the next wait also return brokers from which only a few bytes have come."""
        for connection in self._connections.values():
            connection.be_readable()

    def is_asked(self, address: BrokerAddress) -> bool:
        """Return whether a request to this broker is in flight."""
        connection = self._connections.get(address)
        return connection is not None and connection.is_waiting

    def receive(self, address: BrokerAddress) -> FetchResponse | None:
        """Return the response once it is whole, else None.

        Raises: MalformedResponseError; BrokersUnavailableError, also if the socket is readable while no request is in
        flight: as a rule the broker has closed the connection.
        """
        connection = self._connections.get(address)
        if connection is None:
            return None  # hung up meanwhile
        if not connection.is_waiting:
            raise BrokersUnavailableError(f"{address.in_words} does not answer")
        body = connection.receive()
        if body is None:
            return None
        self._responses += 1
        self._last_response[address] = self._responses
        return decode_fetch(connection.versions.of(Api.FETCH), body)

    def close(self) -> None:
        """Close all connections; a second call is harmless, but not at the same time."""
        self._hang_up_everywhere(_CLOSE_WAIT_S)
        self._bell_in.close()
        self._bell_out.close()

    def _hang_up_everywhere(self, wait_s: float) -> None:
        openings, self._openings = self._openings, {}
        connections, self._connections = self._connections, {}
        self._last_response.clear()
        for opening in openings.values():
            opening.close(wait_s)
        for connection in connections.values():
            connection.close()

    def _hang_up(self, address: BrokerAddress) -> None:
        opening = self._openings.pop(address, None)
        if opening is not None:
            opening.close(0)
        connection = self._connections.pop(address, None)
        self._last_response.pop(address, None)
        if connection is not None:
            del self._polled[connection.fileno()]
            self._poll.unregister(connection)
            connection.close()
