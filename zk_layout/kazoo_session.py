"""One client of kazoo: its connection, its session, the session's listeners, and requests with a time limit.

kazoo queues requests while there is no connection. This class gives kazoo a request only when there is a connection, so
each wait has an end. Session listeners run on kazoo's connection thread.
"""

from __future__ import annotations

import functools
import math
import ssl
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

from kazoo.protocol.states import KazooState, KeeperState

from zk_layout.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionLostError,
    ConnectTimeoutError,
    SessionExpiredError,
)
from zk_layout.kazoo_client import Secret, StoreClient, StoreHandler, stop_client
from zk_layout.kazoo_translation import OR_NO_SASL, translated
from zk_layout.loggers import safe_logger
from zk_layout.running_threads import OwnThread
from zk_layout.settings import ZkSettings
from zk_layout.signals import Flag, Signal
from zk_layout.sockets import make_tls_context
from zk_layout.store import SessionEvent, SessionKind, SessionListener

logger = safe_logger(__name__)

_REVIVE_PAUSE_S = 1.0

_CLOSED = "this ZooKeeper store is closed"
_NOT_STARTED = "this ZooKeeper store was not started"

T = TypeVar("T")


class KazooSession:
    """Connects a client of kazoo, and keeps its session from start() to close(). Any thread may call.

    Raises: ConfigError for settings that can never work. Nothing is connected before start().
    """

    def __init__(self, settings: ZkSettings) -> None:
        if settings.sasl is not None and find_spec("puresasl") is None:
            raise ConfigError(
                "sasl mechanism", settings.sasl.mechanism, "needs pure-sasl: install legacy-consumer[sasl]"
            )
        self.settings = settings
        self._tls = None if settings.tls is None else make_tls_context(settings.tls)
        self._lifecycle = threading.Lock()
        self._changed = Signal()
        self._listening = threading.Lock()
        self._listeners: tuple[SessionListener, ...] = ()
        self.client: Any = None
        """kazoo's client; None unless started."""
        self._starting: Any = None
        """The client, while start() waits for its first answer."""
        self.session_id = 0
        """The session in use; 0 while there is none."""
        self.losses = 0
        """The number of lost connections after which the session went on."""
        self.is_closed = False
        self._refused: AuthenticationError | None = None

    @property
    def timeout_ms(self) -> int:
        """The session timeout that the server granted, in ms; before start() the requested one."""
        client = self.client
        return (client and client.session.granted_timeout_ms) or self.settings.session_timeout_ms

    @property
    def stopping(self) -> Flag:
        """The flag that is set once the client must end."""
        client = self.client
        return Flag() if client is None else client.handler.stopping

    def silence_s(self, session_id: int) -> float:
        """Seconds since this session sent the last request that the server has answered."""
        client = self.client
        if client is None:
            return math.inf
        session, heard_at = client.session.heard
        return time.monotonic() - heard_at if session == session_id else math.inf

    def start(self, check: Callable[[float], None]) -> None:
        """Connect; twice is harmless. After an error it may be called again.

        check(deadline) sends the first request, with this monotonic time as its limit. If the connection is lost,
        start() calls it again; start() raises its other errors.
        """
        deadline = time.monotonic() + self.settings.connection_timeout_ms / 1000
        with self._lifecycle:
            if self.is_closed:
                raise ConnectionLostError(_CLOSED)
            if self.client is not None:
                return
            self._start(check, deadline)

    def _start(self, check: Callable[[float], None], deadline: float) -> None:
        self._refused = None
        client = self._new_client()
        try:
            self._starting = self.client = client
            client.start_async()
            self._check(check, deadline)
            self._starting = None
        except BaseException:
            self._starting = self.client = None
            self.session_id = 0
            stop_client(client)
            raise

    def _check(self, check: Callable[[float], None], deadline: float) -> None:
        while True:
            try:
                return check(deadline)
            except (ConnectionLostError, SessionExpiredError):
                if self.is_closed:
                    raise
                if time.monotonic() < deadline:
                    continue
                failure = self.client.handler.last_failure
                if isinstance(failure, ssl.SSLError):
                    raise AuthenticationError(f"TLS with {self.settings.connect} failed: {failure}") from failure
                settings = self.settings
                late = ConnectTimeoutError(settings.connect, settings.connection_timeout_ms, settings.sasl is not None)
                raise late from failure

    def close(self) -> None:
        """End the session; twice is harmless. No listener and no watcher is called by this or after it."""
        self.is_closed = True
        client = self.client
        if client is not None:
            client.handler.stopping.set()
        self._changed.notify()
        if (starting := self._starting) is not None:
            # start() waits for an answer, and holds the lock
            starting.handler.cut()
        with self._lifecycle:
            client, self.client = self.client, None
            self.session_id = 0
            if client is not None:
                stop_client(client)

    def add_listener(self, listener: SessionListener) -> None:
        """From now on call listener with every change of the session."""
        with self._listening:
            self._listeners = (*self._listeners, listener)

    def remove_listener(self, listener: SessionListener) -> None:
        """No longer call listener; unknown ones are ignored."""
        with self._listening:
            self._listeners = tuple(known for known in self._listeners if known != listener)

    def send(self, ask: Callable[[Any], T], deadline: float) -> T:
        """Wait for a connection, and call ask with kazoo's client; ask sends a request."""
        return ask(self._connected_client(deadline))

    def send_other(self, request: Any, deadline: float) -> Any:
        """As send, for a request that kazoo lacks."""
        request.client = client = self._connected_client(deadline)
        return client.send(request)

    def take(self, result: Any, path: str, deadline: float) -> Any:
        """Wait for the answer to a request about this znode. Raises: ConnectionLostError; the server's error."""
        if not result.wait(max(0.0, deadline - time.monotonic())):
            raise ConnectionLostError(f"{self.settings.connect} did not answer in time about {path}")
        if result.exception is None:
            return result.value
        raise translated(result.exception, path) from result.exception

    def wait_for_loss(self, losses: int, timeout_s: float) -> None:
        """Wait until the number of losses differs from this one, or the session is closed, at most timeout_s."""
        self._changed.wait_for(lambda: self.losses != losses or self.is_closed, timeout_s)

    def _connected_client(self, deadline: float) -> Any:
        client = self.client
        if client is not None and client.connected and not self.is_closed:
            if client.handler.is_called_back():
                msg = "a watcher or session listener must not call the store: it would wait for itself"
                raise RuntimeError(msg)
            return client
        self._changed.wait_for(
            lambda: self.is_closed or self._refused or client is None or client.connected,
            max(0.0, deadline - time.monotonic()),
        )
        if self.is_closed or client is None:
            raise ConnectionLostError(_CLOSED if self.is_closed else _NOT_STARTED)
        if self._refused is not None:
            raise AuthenticationError(*self._refused.args)
        if not client.connected:
            raise ConnectionLostError(f"no connection to ZooKeeper at {self.settings.connect}")
        return client

    def _new_client(self) -> Any:
        settings = self.settings
        handler = StoreHandler(self._tls)
        try:
            client = StoreClient(
                hosts=settings.connect,
                timeout=settings.session_timeout_ms / 1000,
                handler=handler,
                auth_data=[(scheme, Secret(credential)) for scheme, credential in settings.auth],
                connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
                sasl_options=self._sasl_options(),
                logger=safe_logger("kazoo.client"),
            )
        except ValueError as error:
            raise ConfigError("zookeeper.connect", settings.connect, str(error)) from error
        handler.hosts = len(client.hosts)
        client.add_listener(functools.partial(self._on_state, client))
        return client

    def _sasl_options(self) -> dict[str, str] | None:
        sasl = self.settings.sasl
        if sasl is None:
            return None
        options = {
            "mechanism": sasl.mechanism,
            "service": sasl.service,
            "username": sasl.username,
            "password": sasl.password,
            "principal": sasl.principal,
        }
        return {key: value for key, value in options.items() if value is not None}

    def _on_state(self, client: Any, state: str) -> None:
        """Called by kazoo on its connection thread, in order."""
        if client.handler.stopping.is_set():
            return
        before = session_id = self.session_id
        is_broken = False
        if state == KazooState.CONNECTED:
            session_id, _ = client.client_id
            kind = SessionKind.CONNECTED
        elif state == KazooState.SUSPENDED:
            self.losses += 1
            kind = SessionKind.SUSPENDED
        else:
            session_id = 0
            kind = SessionKind.EXPIRED
            if client.client_state == KeeperState.AUTH_FAILED:
                kind = SessionKind.AUTH_FAILED
                self._refused = AuthenticationError(f"{self.settings.connect} refused the credentials{OR_NO_SASL}")
            elif client.client_state == KeeperState.CLOSED:
                is_broken = True
                # kazoo's thread ends on a reply that it cannot decode; the server will let the session expire
                logger.warning("the connection to %s broke down, starting a new session", self.settings.connect)
        self.session_id = session_id
        listeners = self._listeners
        self._changed.notify()
        event = SessionEvent(kind, session_id if kind is SessionKind.CONNECTED else 0)
        logger.info("session 0x%x at %s: %s", session_id or before, self.settings.connect, kind.value)
        for listener in listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a session listener failed on %s", event)
        if is_broken:
            # last, so that the listeners are called even if no thread can begin
            OwnThread(target=self._revive, args=(client,)).start()

    def _revive(self, client: Any) -> None:
        client.handler.stopping.wait(_REVIVE_PAUSE_S)
        with self._lifecycle:
            if self.client is client and not self.is_closed:
                client.start_async()
