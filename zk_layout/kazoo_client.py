"""What kazoo is given to work with, so that it does what kazoo_store promises: sockets that can be given up, watchers
that are called in order, writes that decide at the moment of sending, and an end that does not wait for a server.
"""

# ruff: noqa: SLF001 - kazoo's public API has no way to send other requests, to bound a stop, or to see the session id
from __future__ import annotations

import contextlib
import logging
import math
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import (
    CHANGED_EVENT,
    CHILD_EVENT,
    CLOSE_RESPONSE,
    CREATED_EVENT,
    DELETED_EVENT,
    ConnectionDropped,
    ConnectionHandler,
)
from kazoo.protocol.serialization import Connect, GetChildren2
from kazoo.protocol.states import EVENT_TYPE_MAP, EventType, KeeperState, WatchedEvent

from zk_layout.multi_read import MULTI_READ, ReadKind, encode_multi_read
from zk_layout.multi_write import MULTI_WRITE, NOTHING
from zk_layout.short_calls import ShortCalls
from zk_layout.sockets import open_socket
from zk_layout.store import Watcher, WatchEvent, WatchKind

logger = logging.getLogger(__name__)

_RECEIVE_BYTES = 1 << 16
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_INT = struct.Struct(">i")
_REQUEST = struct.Struct(">iii")  # the length of what follows, the number of the request, its type
_XID_AND_TYPE = 8
_LAST_XID = 2**31 - 1
_TURN_S = 0.01  # how long to wait for one's turn to send
_LONG_INT = struct.Struct(">qi")
_EVENT = struct.Struct(">iii")  # what happened, the state of the session, the length of the path
_WATCHED_BY = {
    CREATED_EVENT: slice(0, 1),
    CHANGED_EVENT: slice(0, 1),
    DELETED_EVENT: slice(0, 2),
    CHILD_EVENT: slice(1, 2),
}
"""Which of kazoo's two maps of watchers, data and children, hear of it."""
_NOTHING = slice(0)

_CLOSE_GRACE_S = 2.0  # how long a server may take to confirm the end of the session


class StoreClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client, out of which Ctrl-C can come."""

    def _session_callback(self, state: Any) -> None:
        if state not in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            # before kazoo fails what is pending: nothing may be added to that afterwards
            self._connection.refuse_others()
        super()._session_callback(state)

    def _call(self, request: Any, async_object: Any) -> bool | None:
        """Queue a request and wake the connection's thread; False if the session is over.

        kazoo's own takes whatever a signal handler raises while it writes the waking byte for a closed connection:
        the signal is lost, and a sound connection is reported as lost.
        """
        over = _OVER.get(self._state)
        if over is not None:
            async_object.set_exception(over())
            return False
        if self._connection.send_here(request, async_object):
            return None
        writer = self._connection._write_sock
        try:
            self._queue.append((request, async_object))
            if writer is None:
                raise OSError
            writer.send(b"\0")
        except OSError:
            async_object.set_exception(kazoo_errors.ConnectionClosedError())
        except BaseException:
            # a byte too many is ignored; without one for each request, all later ones would wait for their successor
            with contextlib.suppress(OSError):
                writer.send(b"\0")
            raise
        return None


_OVER = {
    KeeperState.AUTH_FAILED: kazoo_errors.AuthFailedError,
    KeeperState.CLOSED: kazoo_errors.ConnectionClosedError,
    KeeperState.EXPIRED_SESSION: kazoo_errors.SessionExpiredError,
}


class StoreHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads and sockets, with connections that can be given up and callbacks in order."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self.stopping = threading.Event()
        self.last_failure: OSError | None = None
        self.hosts = 1
        self._tls = tls
        self._reading = select.poll()
        self._polled: list[int] = []

    def start(self) -> None:
        """Without kazoo's two threads for callbacks: these are called on the connection's, and replies have none."""
        self._running = True

    def stop(self) -> None:
        """See start."""
        self._running = False

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float = 10.0, **_: Any
    ) -> socket.socket:
        """A connected socket, unless this is stopping by then."""
        try:
            # a silent host must not use up the session's whole timeout while others would answer
            return open_socket(address, hostname or address[0], timeout / self.hosts, self._tls, self.stopping)
        except OSError as error:
            self.last_failure = error
            raise

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """The pipe that wakes kazoo's thread."""
        reader, writer = super().create_socket_pair()
        # a byte is in this pipe for each queued request, and kazoo's send blocks when it is full
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        return reader, writer

    def select(self, rlist: Any, wlist: Any, _: Any, timeout: float | None = None) -> Any:
        """What select.select returns."""
        # bytes that TLS has decrypted already do not show in the socket underneath
        decrypted = [sock for sock in rlist if isinstance(sock, ssl.SSLSocket) and sock.pending()]
        if decrypted:
            timeout = 0
        # kazoo makes an epoll object for each of its several waits per request; this is what a request costs most
        poll = self._poll_for_writing(wlist) if wlist else self._poll_for_reading(rlist)
        ready = {fd for fd, _ in poll.poll(None if timeout is None else timeout * 1000)}
        readable = [sock for sock in rlist if sock.fileno() in ready or sock in decrypted]
        return readable, [sock for sock in wlist if sock.fileno() in ready], []

    @staticmethod
    def _poll_for_writing(wlist: Any) -> Any:
        poll = select.poll()
        for sock in wlist:
            poll.register(sock, select.POLLOUT)
        return poll

    def _poll_for_reading(self, rlist: Any) -> Any:
        """Nobody but kazoo's thread waits to read, nearly always for the same."""
        descriptors = [sock.fileno() for sock in rlist]
        if descriptors != self._polled:
            self._polled, self._reading = descriptors, select.poll()
            for descriptor in descriptors:
                self._reading.register(descriptor, select.POLLIN)
        return self._reading

    def dispatch_callback(self, callback: Any) -> None:
        """Call it here and now, on the connection's thread: so callbacks keep the order of the server's messages."""
        self.call(callback.func, *callback.args)

    @staticmethod
    def call(function: Any, *arguments: Any) -> None:
        """Call a watcher; what it raises is its own affair."""
        try:
            function(*arguments)
        except Exception:
            logger.exception("a watcher failed")


class Reply:
    """What becomes of one request, for the one thread that waits for it; kazoo fills it in.

    kazoo's own holds a condition and a list of callbacks, which cost as much as all else of handing a request over.
    """

    __slots__ = ("_pending", "exception", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: BaseException | None = None
        self._pending = threading.Lock()
        self._pending.acquire()

    def set(self, value: Any = None) -> None:
        """It was answered."""
        self.value = value
        self._arrive()

    def set_exception(self, exception: BaseException) -> None:
        """It was refused, or the connection was lost."""
        self.exception = exception
        self._arrive()

    def _arrive(self) -> None:
        # of two that give up the same request the second finds it done
        with contextlib.suppress(RuntimeError):
            self._pending.release()

    def wait(self, timeout_s: float) -> bool:
        """Whether it has arrived, after waiting for it as long as that."""
        arrived = self._pending.acquire(timeout=timeout_s)
        if arrived:
            self._arrive()
        return arrived


class StoreConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, remembering what it is told about the session, and when it last heard of it.

    A question proves that the session lived when it was sent, not when its answer is read, which may have waited in the
    socket. One question at a time is remembered: answers come in the order of the questions.

    It reads and writes first and waits only if that would block, and takes what has come at once: kazoo's own makes
    nine system calls of a question and its answer, this one five. With many members in a process each call is one more
    turn to wait for. For the same reason who asks sends the question itself where it can, see send_here; that saves
    waking this thread for it.
    """

    granted_timeout_ms = 0
    heard: tuple[int, float] = (0, -math.inf)
    """The session, and when the last question that was answered in it was sent, by time.monotonic()."""
    _asked: tuple[int | None, float] | None = None
    _xid: int

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._received = bytearray()
        self._calls = ShortCalls()
        self._sending = threading.Lock()
        """Held from the choice of a request's number to the end of its sending: answers come in that order."""
        self._takes_others = False
        self._patience_s = 0.0

    def send_here(self, request: Any, result: Any) -> bool:
        """Send a request on the thread that asks; False if this thread or this moment does not allow it.

        Not on the main thread, into which a signal handler may raise between two steps of this; not over TLS, whose
        sockets are for one thread at a time; not what enters watches as it goes out, for watches are entered and taken
        out by kazoo's thread alone; and not past requests that wait in kazoo's queue.
        """
        if threading.current_thread() is threading.main_thread() or isinstance(request, WatchMany):
            return False
        if not self._sending.acquire(timeout=_TURN_S):
            return False
        try:
            if not self._takes_others or self.client._queue:
                return False
            body = request.serialize()
            self._xid = xid = (self._xid % _LAST_XID) + 1
            # before it is sent: the answer may be read before this thread runs again
            self.client._pending.append((request, result, xid))
            try:
                self._note_question(xid)
                self.logger.debug("Sending request(xid=%s): %s", xid, request)
                self._write(_REQUEST.pack(len(body) + _XID_AND_TYPE, xid, request.type) + body, self._patience_s)
            except BaseException as error:
                # part of it may have gone out; kazoo's thread finds the connection dead and fails all that is pending
                self._takes_others = False
                self._cut()
                if not isinstance(error, (ConnectionDropped, self.handler.timeout_exception)):
                    raise
            return True
        finally:
            self._sending.release()

    def refuse_others(self) -> None:
        """Only kazoo's own thread sends from now on."""
        if not self._takes_others:
            return
        self._takes_others = False
        if not self._sending.acquire(blocking=False):
            # whoever sends may wait for a server that is gone
            self._cut()
            self._sending.acquire()
        self._sending.release()

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[int, int]:
        read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
        self._patience_s = connect_timeout_ms / 1000
        # not earlier: while it makes itself known, kazoo takes the next message for the answer to its own
        self._takes_others = not isinstance(self._socket, ssl.SSLSocket)
        return read_timeout_ms, connect_timeout_ms

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        # who sends at the moment may have to wait for a server that waits for us to read
        if self._sending.acquire(timeout=_TURN_S):
            try:
                super()._send_request(read_timeout, connect_timeout)
            finally:
                self._sending.release()

    def _send_ping(self, connect_timeout: float) -> None:
        # a request that is being sent tells the server as much as a ping
        if self._sending.acquire(timeout=_TURN_S):
            try:
                super()._send_ping(connect_timeout)
            finally:
                self._sending.release()

    def _read(self, length: int, timeout: float) -> bytes:
        received = self._received
        if len(received) < length:
            self._receive(length, timeout)
        part = bytes(received[:length])
        del received[:length]
        return part

    def _receive(self, length: int, timeout: float) -> None:
        received = self._received
        while self._calls.receive(self._socket, received):
            if len(received) >= length:
                return
        with self._socket_error_handling():
            while len(received) < length:
                try:
                    chunk = self._socket.recv(_RECEIVE_BYTES)
                except _WOULD_BLOCK:
                    if not self.handler.select([self._socket], [], [], timeout)[0]:
                        raise self.handler.timeout_exception("no answer in time") from None
                    continue
                if not chunk:
                    raise ConnectionDropped("the server closed the connection")
                received += chunk

    def _write(self, message: bytes, timeout: float) -> None:
        sent = self._calls.send(self._socket, message)
        if sent == len(message):
            return
        left = memoryview(message)[sent:]
        with self._socket_error_handling():
            while left:
                try:
                    sent = self._socket.send(left)
                except _WOULD_BLOCK:
                    if not self.handler.select([], [self._socket], [], timeout)[1]:
                        raise self.handler.timeout_exception("the server takes no more") from None
                    continue
                left = left[sent:]

    def _read_socket(self, read_timeout: float) -> Any:
        """All that came with the first: the socket does not show any more what was taken from it."""
        try:
            while True:
                response = super()._read_socket(read_timeout)
                if response == CLOSE_RESPONSE or not self._holds_a_message():
                    return response
        except Exception:
            # kazoo closes the socket next
            self.refuse_others()
            raise

    def _holds_a_message(self) -> bool:
        received = self._received
        return len(received) >= _INT.size and len(received) - _INT.size >= _INT.unpack_from(received)[0]

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        """kazoo's own makes four records of an event; who gives up what he watches himself gets one for each znode."""
        code, _, length = _EVENT.unpack_from(buffer, offset)
        offset += _EVENT.size
        path = buffer[offset : offset + length].decode()
        client = self.client
        watchers: list[Any] = []
        for known in (client._data_watchers, client._child_watchers)[_WATCHED_BY.get(code, _NOTHING)]:
            watchers += known.pop(path, ())
        if not watchers or client._stopped.is_set():
            return
        event = WatchedEvent(EVENT_TYPE_MAP[code], client._state, client.unchroot(path))
        for watch in watchers:
            self.handler.call(watch, event)

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        self._note_question(xid)
        super()._submit(request, timeout, xid)

    def _note_question(self, xid: int | None) -> None:
        if self._asked is None:
            self._asked = (xid, time.monotonic())

    def _read_header(self, timeout: float) -> Any:
        read = super()._read_header(timeout)
        asked = self._asked
        if asked is not None and read[0].xid == asked[0]:
            self._asked = None
            self.heard = (self.heard[0], asked[1])
        return read

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        connecting = isinstance(request, Connect)
        if connecting:
            # what was asked on the connection before will not be answered
            self._asked = None
            self._received.clear()
        began = time.monotonic()
        reply = super()._invoke(timeout, request, xid)
        if connecting:
            self._asked = None
            if reply[0].time_out > 0:
                self.granted_timeout_ms = reply[0].time_out
                self.heard = (reply[0].session_id, began)
        return reply

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        try:
            super()._authenticate_with_sasl(host, timeout)
        except kazoo_errors.SASLException as error:
            # kazoo's thread would end with it, and nobody would know why
            raise kazoo_errors.AuthFailedError(str(error)) from error


class Secret(str):
    """A credential that kazoo's debug log does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


@dataclass(frozen=True, slots=True)
class Watch:
    """What kazoo calls; equal for the same watcher of the same thing, so that kazoo's sets keep it once."""

    kind: str
    path: str
    watcher: Watcher
    stopping: threading.Event = field(compare=False)

    def __call__(self, event: WatchedEvent) -> None:
        """The watch fired."""
        if not self.stopping.is_set():
            self.watcher(WatchEvent(_WATCH_KINDS[event.type], self.path))


_WATCH_KINDS = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
    EventType.NONE: WatchKind.LOST,
}


class Write:
    """A multi that decides at the moment of sending whether it may still be sent; if not, it goes out empty.

    body: as encode_multi makes it. session_id: the only session in which it may go out, or None. Every write is one,
    for this reason. The reply is decoded by the asking thread, not by the one that keeps the session.
    """

    type: ClassVar[int] = MULTI_WRITE

    def __init__(self, body: bytes, session_id: int | None) -> None:
        self.body = body
        self.session_id = session_id
        self.client: Any = None
        self.given_up = False
        self.refused = False

    def serialize(self) -> bytes:
        """Called by kazoo as it sends."""
        other_session = self.session_id is not None and self.client._session_id != self.session_id
        self.refused = self.given_up or other_session
        return NOTHING if self.refused else self.body

    @staticmethod
    def deserialize(reply: bytes, offset: int) -> list[bytes]:
        """The undecoded reply, in a list: kazoo takes the chroot off the texts of one."""
        return [reply[offset:]]

    def __repr__(self) -> str:
        return f"multi of {len(self.body)} bytes"


class ReadMany:
    """kazoo lacks this request. The reply is decoded by the asking thread, not by the one that keeps the session."""

    type: ClassVar[int] = MULTI_READ

    def __init__(self, kind: ReadKind, paths: Sequence[str]) -> None:
        self._kind = kind
        self._paths = paths

    def serialize(self) -> bytes:
        """Called by kazoo as it sends."""
        return encode_multi_read(self._kind, self._paths)

    @staticmethod
    def deserialize(reply: bytes, offset: int) -> bytes:
        """The undecoded reply."""
        return reply[offset:]

    def __repr__(self) -> str:
        return f"read of {len(self._paths)} znodes"


class ListChildren(GetChildren2):  # type: ignore[misc]  # kazoo has no types
    """kazoo's, with the reply left to the asking thread: the members of a process all get the same one."""

    __slots__ = ()

    @classmethod
    def deserialize(cls, reply: bytes, offset: int) -> bytes:
        """The undecoded reply."""
        return reply[offset:]


class WatchMany:
    """The request by which a client sets its watches again on a new connection; kazoo lacks it.

    The server fires at once for what has changed since a zxid; this one is beyond all, so that only what is missing
    fires. It does so before it replies: the watchers must be known when the request goes out.
    """

    type: ClassVar[int] = 101
    _BEYOND_ALL_ZXID: ClassVar[int] = 2**63 - 1

    def __init__(self, client: Any, watches: Mapping[str, Watch]) -> None:
        self._client = client
        self._watches = watches

    def serialize(self) -> bytes:
        """Called by kazoo as it sends: the zxid, then the paths to watch for data, for existence, for children."""
        texts = [path.encode() for path in self._watches]
        for path, watch in self._watches.items():
            self._client._data_watchers[path].add(watch)
        return b"".join(
            (
                _LONG_INT.pack(self._BEYOND_ALL_ZXID, len(texts)),
                *(_INT.pack(len(text)) + text for text in texts),
                _INT.pack(0),
                _INT.pack(0),
            )
        )

    @staticmethod
    def deserialize(reply: bytes, offset: int) -> None:
        """The reply is empty."""

    def __repr__(self) -> str:
        return f"watches of {len(self._watches)} znodes"


def stop_client(client: Any) -> None:
    """End kazoo's threads and sockets, in any state of the connection, soon."""
    client.handler.stopping.set()
    cutter = threading.Thread(target=_cut_late, args=(client, _CLOSE_GRACE_S if client.connected else 0.0), daemon=True)
    cutter.start()
    try:
        client.stop()
    except kazoo_errors.KazooException:
        logger.warning("kazoo did not stop", exc_info=True)
    cutter.join()
    client.close()


def _cut_late(client: Any, grace_s: float) -> None:
    """kazoo waits for the server as long as the session may last; take its socket away instead."""
    stopped = client._connection.connection_stopped
    wait_s = grace_s
    while not stopped.wait(wait_s):
        sock = client._connection._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        wait_s = 0.05
