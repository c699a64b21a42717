"""One connection to one broker, with at most one request in flight; each response has its own buffer.

The socket never blocks: a caller with several connections waits for all of them at once, and calls receive() of the
readable ones. ask() is for a caller with nothing else to do.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from dataclasses import dataclass

from legacy_consumer_native import buffer

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.protocol.api_versions import Versions
from legacy_consumer.fetching.columnar.protocol.framing import HEAD_BYTES, Api, check_head, frame_request
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

SMALL_ANSWER_BYTES = 16 * 1024 * 1024
"""The most bytes of an answer, except of one to a fetch: enough for the metadata of 100,000 partitions."""
_AT_ONCE = 4 * 1024 * 1024
_READABLE_BYTES = 4 * 1024 * 1024
"""The bytes of a response, or its rest, that must have arrived before the socket counts as readable."""


@dataclass(slots=True)
class _Awaited:
    """The response to the request in flight: its head, then its body."""

    api: Api
    correlation_id: int
    largest_bytes: int
    head: bytearray
    body: memoryview | None = None
    filled: int = 0


class Connection:
    """A connected socket; only one thread at a time may use it, except close(). opening.open_connection makes it.

    Raises, all methods that send or receive: BrokersUnavailableError if the connection is lost or no answer comes in
    time, MalformedResponseError. After either the connection cannot be used any more.
    """

    def __init__(self, address: BrokerAddress, sock: socket.socket, client_id: str) -> None:
        self.address = address
        self.versions = Versions({})
        self._socket = sock
        self._client_id = client_id
        self._correlation_id = 0
        self._awaited: _Awaited | None = None
        # with TLS the size on the wire is not known; and not every system has this option
        self._can_wait_for_more = not isinstance(sock, ssl.SSLSocket) and hasattr(socket, "SO_RCVLOWAT")
        self._readable_bytes = 1
        sock.setblocking(False)

    def fileno(self) -> int:
        """Return the socket's descriptor, for selectors."""
        return self._socket.fileno()

    @property
    def is_waiting(self) -> bool:
        """Whether a request is in flight."""
        return self._awaited is not None

    def send(self, api: Api, body: bytes, *, largest_bytes: int, timeout_s: float) -> None:
        """Send a request, in the version negotiated with this broker. largest_bytes: the limit of its response."""
        self.send_in(self.versions.of(api), api, body, largest_bytes=largest_bytes, timeout_s=timeout_s)

    def send_in(self, version: int, api: Api, body: bytes, *, largest_bytes: int, timeout_s: float) -> None:
        """As send, in the given version."""
        assert self._awaited is None
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self.send_bytes(frame_request(api, version, self._correlation_id, self._client_id, body), timeout_s)
        self._awaited = _Awaited(api, self._correlation_id, largest_bytes, bytearray(HEAD_BYTES))

    def receive(self) -> memoryview | None:
        """Receive available bytes; return the body of the response once it is whole, else None. Never waits."""
        awaited = self._awaited
        assert awaited is not None
        if awaited.body is None:
            if not self._fill(awaited, memoryview(awaited.head)):
                return None
            size = check_head(awaited.head, awaited.correlation_id, awaited.largest_bytes, awaited.api)
            awaited.body = buffer(size)
            awaited.filled = 0
        body = awaited.body
        if not self._fill(awaited, body):
            self._be_readable_with(min(len(body) - awaited.filled, _READABLE_BYTES))
            return None
        self._awaited = None
        self._be_readable_with(1)
        return body

    def be_readable(self) -> None:
        """Let the next byte make the socket readable, until receive() has read it.

        A response is useless before it is complete, so the socket counts as readable only when much of it has arrived:
        the consuming thread wakes less often, and the system doubles its buffer, into which the broker sends meanwhile.
        But a slow broker would seem silent for that time.
        """
        self._be_readable_with(1)

    def ask(
        self,
        api: Api,
        body: bytes,
        timeout_s: float,
        *,
        version: int | None = None,
        largest_bytes: int = SMALL_ANSWER_BYTES,
    ) -> memoryview:
        """Send a request and wait for its response."""
        deadline = time.monotonic() + timeout_s
        spoken = self.versions.of(api) if version is None else version
        self.send_in(spoken, api, body, largest_bytes=largest_bytes, timeout_s=timeout_s)
        while (answer := self.receive()) is None:
            self._wait(select.POLLIN, deadline, f"no answer to {api.name}")
        return answer

    def send_bytes(self, data: bytes, timeout_s: float) -> None:
        """Send bytes unchanged, without a frame of this protocol."""
        deadline = time.monotonic() + timeout_s
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT, deadline, "a request cannot be sent")
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, deadline, "a request cannot be sent")
            except OSError as error:
                raise self.lost(error) from error

    def read_bytes(self, count: int, timeout_s: float) -> bytes:
        """Wait for this many bytes, without a frame."""
        deadline = time.monotonic() + timeout_s
        into = bytearray(count)
        state = _Awaited(Api.SASL_HANDSHAKE, 0, count, into)
        while not self._fill(state, memoryview(into)):
            self._wait(select.POLLIN, deadline, "no answer")
        return bytes(into)

    def close(self) -> None:
        """Close the connection; twice is harmless. A call from another thread ends a wait."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def lost(self, error: OSError | None) -> BrokersUnavailableError:
        """Return the error for a lost connection."""
        reason = "it closed the connection" if error is None else str(error.strerror or error)
        return BrokersUnavailableError(f"{self.address.in_words}: {reason}")

    def _fill(self, awaited: _Awaited, into: memoryview) -> bool:
        """Read until into is full; return False if no more bytes are available now."""
        size = len(into)
        try:
            while awaited.filled < size:
                count = self._socket.recv_into(into[awaited.filled :], min(size - awaited.filled, _AT_ONCE))
                if count == 0:
                    raise self.lost(None)
                awaited.filled += count
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            raise self.lost(error) from error
        return True

    def _be_readable_with(self, count: int) -> None:
        if self._can_wait_for_more and count != self._readable_bytes:
            self._readable_bytes = count
            with contextlib.suppress(OSError):  # closed meanwhile, which shows elsewhere
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def _wait(self, events: int, deadline: float, what: str) -> None:
        left = deadline - time.monotonic()
        poller = select.poll()
        try:
            poller.register(self._socket, events)
        except (ValueError, OSError) as error:  # closed by another thread
            raise self.lost(None) from error
        if left <= 0 or not poller.poll(left * 1000):
            raise BrokersUnavailableError(f"{self.address.in_words}: {what} in time")
