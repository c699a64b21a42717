"""Opens a connection: TCP, TLS, the versions of requests, SASL. This waits, so Opening does it on its own thread."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable

from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, MalformedResponseError
from legacy_consumer.fetching.columnar.connection import Connection
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.protocol import error_codes
from legacy_consumer.fetching.columnar.protocol.api_versions import (
    VERSION,
    decode_api_versions,
    versions_by_registration,
)
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.sasl import (
    decode_authenticate,
    decode_handshake,
    encode_authenticate,
    encode_handshake,
)
from legacy_consumer.fetching.columnar.scram import ScramClient
from legacy_consumer.fetching.columnar.security import SaslLogin, Security
from zk_layout.loggers import safe_logger
from zk_layout.running_threads import OwnThread

logger = safe_logger(__name__)

_LARGEST_ANSWER = 64 * 1024
"""The most bytes of an answer while the connection is opened, since any server may listen at the address."""
_LONGEST_REASON = 200
"""The most characters of such a broker's text in an error, which is logged with each attempt."""


def open_connection(
    address: BrokerAddress,
    security: Security,
    *,
    client_id: str,
    timeout_s: float,
    receive_buffer_bytes: int,
    opened: Callable[[socket.socket], None] | None = None,
) -> Connection:
    """Connect and log in within timeout_s. opened: gets the connected socket, so that another thread can shut it down.

    Raises: BrokersUnavailableError; BrokerRefusedError if the broker refuses this client, or this client does not trust
    the broker.
    """
    deadline = time.monotonic() + timeout_s
    sock = _connect(address, deadline, receive_buffer_bytes)
    try:
        if opened is not None:
            opened(sock)
        if security.tls is not None:
            sock = _secure(sock, address, security, deadline)
        connection = Connection(address, sock, client_id)
        versions = versions_by_registration(address.registration_version)
        if versions is None:
            versions = decode_api_versions(_ask(connection, Api.API_VERSIONS, b"", deadline, version=VERSION))
        connection.versions = versions
        if security.sasl is not None:
            _log_in(connection, security.sasl, deadline)
    except BaseException as error:
        sock.close()
        if isinstance(error, BrokersUnavailableError) or not isinstance(error, Exception):
            raise
        # any other failure concerns only that broker
        raise BrokersUnavailableError(f"{address.in_words}: {error}") from error
    return connection


def _ask(connection: Connection, api: Api, body: bytes, deadline: float, *, version: int | None = None) -> memoryview:
    return connection.ask(api, body, _left(deadline), version=version, largest_bytes=_LARGEST_ANSWER)


def _left(deadline: float) -> float:
    return max(0.01, deadline - time.monotonic())


def _connect(address: BrokerAddress, deadline: float, receive_buffer_bytes: int) -> socket.socket:
    """Connect to the first of the host's addresses that answers; each gets an equal part of the time that is left."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError, OverflowError) as error:  # a name that cannot be encoded, an impossible port
        raise _unreachable(address, error) from error
    failure: OSError | None = None
    for remaining, (family, kind, protocol, _, where) in zip(range(len(found), 0, -1), found, strict=True):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left(deadline) / remaining)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            sock.connect(where)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise _unreachable(address, failure) from failure


def _unreachable(address: BrokerAddress, error: Exception | None) -> BrokersUnavailableError:
    reason = "it has no address" if error is None else str(getattr(error, "strerror", None) or error)
    return BrokersUnavailableError(f"{address.in_words} cannot be reached: {reason}")


def _secure(sock: socket.socket, address: BrokerAddress, security: Security, deadline: float) -> socket.socket:
    assert security.tls is not None
    sock.settimeout(_left(deadline))
    try:
        return security.tls.wrap_socket(sock, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        raise BrokerRefusedError(str(address), f"certificate verify failed: {error.verify_message}") from error
    except ssl.SSLEOFError as error:
        raise BrokersUnavailableError(f"{address.in_words}: it broke off during TLS") from error
    except ssl.SSLError as error:
        raise BrokerRefusedError(str(address), f"TLS failed: {error.reason or error}") from error
    except (OSError, ValueError) as error:  # ValueError: no certificate can have such a host name
        reason = getattr(error, "strerror", None) or error
        raise BrokersUnavailableError(f"{address.in_words}: TLS broke off: {reason}") from error


# SASL


def _log_in(connection: Connection, login: SaslLogin, deadline: float) -> None:
    version = connection.versions.of(Api.SASL_HANDSHAKE)
    answer = decode_handshake(
        _ask(connection, Api.SASL_HANDSHAKE, encode_handshake(login.mechanism), deadline, version=version)
    )
    where = str(connection.address)
    if answer.error == 33:
        offered = ", ".join(answer.mechanisms)[:_LONGEST_REASON]
        raise BrokerRefusedError(
            where, f"they do not have sasl.mechanism={login.mechanism}; supported mechanisms: {offered}"
        )
    if answer.error != error_codes.NONE:
        raise BrokerRefusedError(where, f"SASL handshake: {error_codes.error_name(answer.error)}")
    # all brokers with handshake 1 have SaslAuthenticate; one that does not report it must not get it all the same
    wrapped = version >= 1 and Api.SASL_AUTHENTICATE in connection.versions.chosen
    exchange = _Exchange(connection, login.mechanism, deadline, wrapped=wrapped)
    if login.mechanism == "PLAIN":
        exchange.say(f"\0{login.user}\0{login.password}".encode())
        return
    scram = ScramClient(login.mechanism, login.user, login.password)
    try:
        challenge = exchange.say(scram.first())
        scram.verify(exchange.say(scram.final(challenge)))
    except (ValueError, MalformedResponseError) as error:
        raise exchange.refused(str(error)) from error


class _Exchange:
    """Sends SASL messages. wrapped: in SaslAuthenticate requests; otherwise without a header."""

    def __init__(self, connection: Connection, mechanism: str, deadline: float, *, wrapped: bool) -> None:
        self._connection = connection
        self._mechanism = mechanism
        self._deadline = deadline
        self._wrapped = wrapped

    def say(self, message: bytes) -> bytes:
        """Send a message and return the broker's answer. Raises: BrokerRefusedError."""
        connection = self._connection
        if self._wrapped:
            answer = decode_authenticate(
                _ask(connection, Api.SASL_AUTHENTICATE, encode_authenticate(message), self._deadline)
            )
            if answer.error != error_codes.NONE:
                reason = answer.reason or error_codes.error_name(answer.error)
                raise self.refused(reason)
            return answer.message
        left = _left(self._deadline)
        connection.send_bytes(len(message).to_bytes(4, "big") + message, left)
        try:
            size = int.from_bytes(connection.read_bytes(4, left), "big", signed=True)
            if not 0 <= size <= _LARGEST_ANSWER:
                raise MalformedResponseError("SASL", f"a message of {size} bytes")
            return connection.read_bytes(size, left)
        except BrokersUnavailableError as error:
            # brokers before 1.0 refuse credentials by closing the connection
            reason = f"{error.reason}; before Kafka 1.0 that is the answer to credentials that are not known"
            raise self.refused(reason) from error

    def refused(self, reason: str) -> BrokerRefusedError:
        """Return the error for refused credentials."""
        return BrokerRefusedError(
            str(self._connection.address),
            f"{self._mechanism} authentication failed, see the credentials: {reason[:_LONGEST_REASON]}",
        )


class Opening:
    """Opens a connection on its own thread; call result() once is_done."""

    def __init__(
        self, open_it: Callable[[Callable[[socket.socket], None]], Connection], on_done: Callable[[], None]
    ) -> None:
        self._open_it = open_it
        self._on_done = on_done
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._closed = False
        self._connection: Connection | None = None
        self._error: Exception | None = None
        self.is_done = False
        self._thread = OwnThread(target=self._run, name="open-broker-connection")
        self._thread.start()

    def result(self) -> Connection:
        """Return the connection. Raises: the error of opening it."""
        if self._error is not None:
            raise self._error
        assert self._connection is not None
        return self._connection

    def close(self, wait_s: float) -> None:
        """Stop, and close the connection; wait up to wait_s for the thread.

        The thread ends at once, or when connecting times out.
        """
        with self._lock:
            self._closed = True
            sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(wait_s)
        if self._connection is not None:
            self._connection.close()

    def _note(self, sock: socket.socket) -> None:
        with self._lock:
            self._socket = sock
            if self._closed:
                raise BrokersUnavailableError("closed while connecting")

    def _run(self) -> None:
        try:
            connection = self._open_it(self._note)
        except Exception as error:  # noqa: BLE001  # result() raises it in the waiting thread
            self._error = error
        else:
            with self._lock:
                closed = self._closed
                self._connection = connection
            if closed:
                connection.close()
        self.is_done = True
        self._on_done()
