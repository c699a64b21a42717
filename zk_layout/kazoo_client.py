"""kazoo's client, connection and handler, extended where kazoo's public API cannot do what KazooStore promises.

The kazoo_* files use kazoo's public API, except for the names below. Because of these names the requirement in
pyproject.toml has an upper bound, and the contract suite runs on the oldest and the newest kazoo that it allows. These
are private:

    _authenticate_with_sasl  an error of pure-sasl would end kazoo's thread without a report
    _call                    takes requests that kazoo lacks; and kazoo's own version swallows Ctrl-C
    _connection              gives the client a StoreConnection instead of the connection that it makes itself
    _data_watchers           gets the watches that one request sets, when the request goes out
    _invoke                  shows the timeout that the server granted, and the last confirmation of the session
    _queue                   where _call puts a request
    _running                 ends the threads of a start that an exception struck
    _read_header             shows which request was answered, heartbeats included: the lease of a session
    _submit                  shows when that request was sent

These have no underscore, and a new release may change them all the same. The last two are held by kazoo's connection;
the others are overridden here, and kazoo calls them:

    async_result             makes a Reply
    create_connection        a silent host must not use up the session's whole timeout; and the socket can be cut
    create_socket_pair       its pipe is made larger, and _call writes the waking byte into it
    dispatch_callback        calls on the connection's thread, in the order of the server's messages
    select                   sees bytes that TLS has decrypted, and makes no epoll object for each wait
    set                      of a Reply: wakes the thread that waits for the answer
    set_exception            the same
    wait                     of a Reply: an exception that strikes a thread in a lock of kazoo's would leave it taken
    start                    of a handler: an exception in it would leave threads
    spawn                    kazoo's threads become threads that the library knows as its own
    retry_sleeper            handed from kazoo's connection to StoreConnection, with the logger
    sasl_options             the same

These are imported though kazoo's documentation does not list them as public, or are fields of requests and replies:

    AsyncResult              the base of Reply
    ConnectionHandler        the base of StoreConnection
    Connect                  tells _invoke that the request begins a connection
    last_zxid_seen           of a Connect: is cleared when the session may be over, see _invoke
    time_out                 of its reply: the session timeout that the server granted, 0 if the session is over
    session_id               of its reply: the session that the server confirmed
    xid                      of the header of a reply: the request that it answers

All of kazoo.exceptions counts as public: users have to catch the exceptions, though the documentation lists only some.

A request that kazoo lacks is an object with `type`, `serialize` and `deserialize`, as kazoo's own requests are.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState

from zk_layout.loggers import safe_logger
from zk_layout.running_threads import OwnThread
from zk_layout.signals import Flag, Signal
from zk_layout.sockets import open_socket

logger = safe_logger(__name__)

_CLOSE_GRACE_S = 2.0  # how long a server may take to confirm the end of the session


class Reply(AsyncResult):  # type: ignore[misc]  # kazoo has no types
    """The answer to a request. The thread that waits for it takes no lock of kazoo's: see signals.py."""

    def __init__(self, handler: StoreHandler) -> None:
        super().__init__(handler)
        self._told = Signal()

    def set(self, value: Any = None) -> None:
        """Store the answer, and wake the thread that waits."""
        super().set(value)
        self._told.notify()

    def set_exception(self, exception: BaseException) -> None:
        """Store the error, and wake the thread that waits."""
        super().set_exception(exception)
        self._told.notify()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the answer, at most timeout seconds; True if it is there."""
        return self._told.wait_for(self.ready, timeout)


class StoreHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads and sockets, with connections that can be cut and callbacks in order."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self.stopping = Flag()
        self.last_failure: OSError | None = None
        self.hosts = 1
        self.waker: socket.socket | None = None
        self._tls = tls
        self._server: socket.socket | None = None
        self._connection_thread: threading.Thread | None = None

    def async_result(self) -> Reply:
        """Return an object that will hold the answer to a request."""
        return Reply(self)

    def start(self) -> None:
        """Start kazoo's threads, all or none."""
        try:
            super().start()
        except BaseException:
            # kazoo's stop() does nothing before start() has ended, though a thread may have begun
            self._running = True
            self.stop()
            raise

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float = 10.0, **_: Any
    ) -> socket.socket:
        """Return a connected socket, or raise if the handler is stopping."""
        self._connection_thread = threading.current_thread()
        try:
            # a silent host must not use up the session's whole timeout while others would answer
            self._server = open_socket(address, hostname or address[0], timeout / self.hosts, self._tls, self.stopping)
        except OSError as error:
            self.last_failure = error
            raise
        return self._server

    def cut(self) -> None:
        """Shut down the socket of kazoo's connection."""
        if self._server is not None:
            with contextlib.suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> OwnThread:
        """Start and return a thread."""
        thread = OwnThread(target=func, args=args, kwargs=kwargs)
        thread.start()
        return thread

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """Return the pipe that wakes kazoo's thread."""
        reader, writer = super().create_socket_pair()
        # a byte is in this pipe for each queued request, and kazoo's send blocks when it is full
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.waker = writer
        return reader, writer

    def select(self, rlist: Any, wlist: Any, _: Any, timeout: float | None = None) -> Any:
        """Return the result of select.select, plus TLS sockets that hold decrypted bytes to read."""
        # bytes that TLS has decrypted already do not show in the socket underneath
        decrypted = [sock for sock in rlist if isinstance(sock, ssl.SSLSocket) and sock.pending()]
        if decrypted:
            timeout = 0
        # kazoo's own select makes an epoll object for each wait: with that, many reads take more than twice as long
        poll = select.poll()
        for sock in rlist:
            poll.register(sock, select.POLLIN)
        for sock in wlist:
            poll.register(sock, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(None if timeout is None else timeout * 1000)}
        readable = [sock for sock in rlist if sock.fileno() in ready or sock in decrypted]
        return readable, [sock for sock in wlist if sock.fileno() in ready], []

    def dispatch_callback(self, callback: Any) -> None:
        """Call the callback now, on the connection's thread: callbacks keep the order of the server's messages."""
        try:
            callback.func(*callback.args)
        except Exception:
            logger.exception("a watcher failed")

    def is_called_back(self) -> bool:
        """Return whether this is the connection's thread, which must not wait for a reply: it would wait for itself."""
        return threading.current_thread() is self._connection_thread


class StoreClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client, which also sends requests that kazoo lacks, and does not swallow Ctrl-C."""

    _connection: Any

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        made = self._connection
        self._connection = self.session = StoreConnection(self, made.retry_sleeper, made.logger, made.sasl_options)

    def send(self, request: Any) -> Any:
        """Send a request that kazoo lacks; return its result as kazoo does for its own requests."""
        result = self.handler.async_result()
        self._call(request, result)
        return result

    def _call(self, request: Any, async_object: Any) -> bool | None:
        """Queue a request and wake the connection's thread; False if the session is over.

        kazoo's own version takes an exception of a signal handler, raised while it writes the waking byte, for a closed
        connection: the signal is lost, and kazoo reports a sound connection as lost.
        """
        over = _OVER.get(self.client_state)
        if over is not None:
            async_object.set_exception(over())
            return False
        waker = self.handler.waker
        try:
            self._queue.append((request, async_object))
            waker.send(b"\0")
        except OSError:
            async_object.set_exception(kazoo_errors.ConnectionClosedError())
        except BaseException:
            # kazoo ignores a byte too many; with one too few, each later request would wait for the next one
            with contextlib.suppress(OSError):
                waker.send(b"\0")
            raise
        return None


_OVER = {
    KeeperState.AUTH_FAILED: kazoo_errors.AuthFailedError,
    KeeperState.CLOSED: kazoo_errors.ConnectionClosedError,
    KeeperState.EXPIRED_SESSION: kazoo_errors.SessionExpiredError,
}


class StoreConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, which also records the granted timeout and the last confirmation of the session.

    An answered request proves that the session lived when the request was sent, not when the answer is read, which may
    have waited in the socket. The connection remembers one request at a time: answers come in the order of requests.
    """

    granted_timeout_ms: int | None = None
    heard: tuple[int, float] = (0, -math.inf)
    """The session, and the time.monotonic() at which its last answered request was sent."""
    _asked: tuple[int | None, float] | None = None

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if self._asked is None:
            self._asked = (xid, time.monotonic())
        super()._submit(request, timeout, xid)

    def _read_header(self, timeout: float) -> Any:
        read = super()._read_header(timeout)
        asked = self._asked
        if asked is not None and read[0].xid == asked[0]:
            self._asked = None
            self.heard = (self.heard[0], asked[1])
        return read

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        connecting = isinstance(request, Connect)
        began = time.monotonic()
        if connecting:
            # the server will not answer the requests of the connection before
            self._asked = None
            if began - self.heard[1] > (self.granted_timeout_ms or 0) / 1000:
                # The session may be over. A server that lost its data, or has them from a backup, would refuse this
                # client for ever: a server accepts no client that has seen a later zxid than its own.
                request = request._replace(last_zxid_seen=0)
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
            raise kazoo_errors.AuthFailedError(str(error)) from error


class Secret(str):
    """A credential that kazoo's debug log does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


def stop_client(client: Any) -> None:
    """End kazoo's threads and sockets soon, in any state of the connection.

    kazoo waits for the server for up to the session timeout, or 10 s. This function cuts its socket after a moment,
    except in an atexit handler, from Python 3.12 on: no thread begins there that could cut it.
    """
    client.handler.stopping.set()
    stopped = Flag()

    def cut_late(grace_s: float) -> None:
        while not stopped.wait(grace_s):
            client.handler.cut()
            grace_s = 0.05

    cutter = threading.Thread(target=cut_late, args=(_CLOSE_GRACE_S if client.connected else 0.0,), daemon=True)
    try:
        cutter.start()
    except RuntimeError:
        if not client.connected:
            client.handler.cut()
    try:
        client.stop()
    except kazoo_errors.KazooException:
        logger.warning("kazoo did not stop", exc_info=True)
    except AttributeError:
        logger.debug("an exception struck before kazoo had made the pipe that wakes its thread", exc_info=True)
    finally:
        stopped.set()
    if cutter.ident is not None:
        cutter.join()
    client.close()
