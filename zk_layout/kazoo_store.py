"""ZkStore over kazoo, which only the kazoo_* files of this room import.

What kazoo leaves to its users, and this file does:

- Every wait has a bound. kazoo queues requests while there is no connection; so this store hands a request over only
  when there is one, and a write that was given up becomes empty if kazoo still sends it later.
- Watchers and session listeners run on kazoo's connection thread, in the order in which the server's messages arrive:
  a read that the server answers after a change returns after the watcher of that change was called.
- Many reads go in one request if the server supports that: see multi_read.
- Connecting and closing can be interrupted, see sockets.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from operator import methodcaller
from typing import Any

from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from zk_layout.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionLostError,
    ConnectTimeoutError,
    MissingChrootError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotPermittedError,
    SessionExpiredError,
    UnimplementedRequestError,
    ZooKeeperError,
)
from zk_layout.kazoo_client import Secret, StoreClient, StoreHandler, stop_client
from zk_layout.kazoo_requests import ReadMany, Watch, WatchMany, Write
from zk_layout.kazoo_translation import OR_NO_SASL, encode_acl, entries_of, failure_of, translated
from zk_layout.many_reads import ReadsMany
from zk_layout.multi_read import NO_NODE, ReadFailure, ReadKind, decode_multi_read
from zk_layout.multi_write import decode_failure, decode_set, encode_multi
from zk_layout.paths import acl_models
from zk_layout.running_threads import OwnThread
from zk_layout.settings import ZkSettings
from zk_layout.signals import Flag, Signal
from zk_layout.sockets import make_tls_context
from zk_layout.store import (
    EVERYBODY,
    Acl,
    AclEntries,
    Children,
    CreateOp,
    DeleteOp,
    Op,
    SessionEvent,
    SessionKind,
    SessionListener,
    SetOp,
    Stat,
    Watcher,
    Znode,
    full_path,
    multi_size,
    stat_of,
    with_parents,
)
from zk_layout.weak_watchers import hold

logger = logging.getLogger(__name__)

MAX_MULTI_BYTES = 1_000_000
"""The server's jute.maxbuffer is 1,048,575 bytes by default, for a request and for the transaction made from it."""

_PIPELINE_WINDOW = 64  # requests in flight: enough to keep a server busy; kazoo's wake-up pipe holds some hundred
_WATCHES_PER_REQUEST = 1000  # of at most some hundred bytes each, well below the limit of a request
_REVIVE_PAUSE_S = 1.0
_TRIES_OF_MULTI_READ = 2
_CLOSES_WITHIN_S = 2.0

_CLOSED = "this ZooKeeper store is closed"
_NOT_STARTED = "this ZooKeeper store was not started"


class _EncodedAcls(dict[Acl | AclEntries, bytes]):
    """ACLs encoded for requests; each is encoded when it is first needed."""

    def __missing__(self, entries: AclEntries) -> bytes:
        return encode_acl(entries)


class KazooStore(ReadsMany):
    """ZooKeeper through kazoo. See zk_layout.store for what the methods promise.

    Raises: ConfigError for settings that can never work. Nothing is connected before start().
    """

    def __init__(self, settings: ZkSettings) -> None:
        if settings.sasl is not None and find_spec("puresasl") is None:
            raise ConfigError(
                "sasl mechanism", settings.sasl.mechanism, "needs pure-sasl: install legacy-consumer[sasl]"
            )
        self._settings = settings
        self._chroot = settings.chroot
        self._tls = None if settings.tls is None else make_tls_context(settings.tls)
        secure = CREATOR_ALL_ACL + READ_ACL_UNSAFE if settings.secure_acl else OPEN_ACL_UNSAFE
        self._acls = _EncodedAcls({Acl.OPEN: encode_acl(EVERYBODY), Acl.SECURE: encode_acl(entries_of(secure))})
        self._lifecycle = threading.Lock()
        self._changed = Signal()
        self._listening = threading.Lock()
        self._listeners: tuple[SessionListener, ...] = ()
        self._client: Any = None
        self._session_id = 0
        self._losses = 0
        """How often a connection was lost."""
        self._is_starting = False
        """Listeners hear nothing then of a connection that a server closes because it lacks reads of many znodes."""
        self._closed = False
        self._refused: AuthenticationError | None = None

    # ------------------------------------------------------------------ session

    @property
    def session_id(self) -> int:
        """The session in use; 0 while there is none."""
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that the server granted, in ms; before start() the requested one."""
        client = self._client
        return (client and client.session.granted_timeout_ms) or self._settings.session_timeout_ms

    def silence_s(self, session_id: int) -> float:
        """Seconds since this session sent the last request that the server has answered."""
        client = self._client
        if client is None:
            return math.inf
        session, heard_at = client.session.heard
        return time.monotonic() - heard_at if session == session_id else math.inf

    @property
    def max_multi_bytes(self) -> int:
        """The largest multi, as estimated by multi_size."""
        return MAX_MULTI_BYTES

    def start(self) -> None:
        """Connect; twice is harmless. After an error the store is as new and may be started again."""
        deadline = time.monotonic() + self._settings.connection_timeout_ms / 1000
        with self._lifecycle:
            if self._closed:
                raise ConnectionLostError(_CLOSED)
            if self._client is not None:
                return
            self._refused = None
            self._client = client = self._new_client()
            self._is_starting = True
            try:
                client.start_async()
                if not self._finds_root(deadline):
                    raise MissingChrootError(self._chroot)
            except BaseException:
                self._client = None
                self._session_id = 0
                stop_client(client)
                raise
            finally:
                self._is_starting = False

    def _finds_root(self, deadline: float) -> bool:
        """Return whether the znode / is there, and find out by the same request whether the server serves many reads.

        A server that lacks them says so and closes the connection. One that closes it twice without an answer is taken
        for such a server.
        """
        self.serves_multi_read = False
        lost = 0
        while True:
            try:
                # goes out behind the credentials, so that a refusal shows here
                return self._root_is_there(deadline, by_multi_read=lost < _TRIES_OF_MULTI_READ)
            except (ConnectionLostError, SessionExpiredError):
                lost += 1
                if self._closed:
                    raise
                if time.monotonic() < deadline:
                    continue
                failure = self._client.handler.last_failure
                if isinstance(failure, ssl.SSLError):
                    raise AuthenticationError(f"TLS with {self._settings.connect} failed: {failure}") from failure
                settings = self._settings
                late = ConnectTimeoutError(settings.connect, settings.connection_timeout_ms, settings.sasl is not None)
                raise late from failure

    def _root_is_there(self, deadline: float, *, by_multi_read: bool) -> bool:
        if by_multi_read:
            with contextlib.suppress(UnimplementedRequestError):
                reply = self._multi_read(ReadKind.DATA, ["/"], deadline)
                self.serves_multi_read = True
                return decode_multi_read(reply) != [ReadFailure(NO_NODE)]
        return self._take(self._send(methodcaller("exists_async", "/"), deadline), "/", deadline) is not None

    def close(self) -> None:
        """End the session; twice is harmless. No listener and no watcher is called by this or after it."""
        self._closed = True
        client = self._client
        if client is not None:
            client.handler.stopping.set()
        self._changed.notify()
        with self._lifecycle:
            client, self._client = self._client, None
            self._session_id = 0
            if client is not None:
                stop_client(client)

    def add_session_listener(self, listener: SessionListener) -> None:
        """From now on call listener with every change of the session."""
        with self._listening:
            self._listeners = (*self._listeners, listener)

    def remove_session_listener(self, listener: SessionListener) -> None:
        """No longer call listener; unknown ones are ignored."""
        with self._listening:
            self._listeners = tuple(known for known in self._listeners if known != listener)

    def _new_client(self) -> Any:
        settings = self._settings
        handler = StoreHandler(self._tls)
        try:
            client = StoreClient(
                hosts=settings.connect,
                timeout=settings.session_timeout_ms / 1000,
                handler=handler,
                auth_data=[(scheme, Secret(credential)) for scheme, credential in settings.auth],
                connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
                sasl_options=self._sasl_options(),
            )
        except ValueError as error:
            raise ConfigError("zookeeper.connect", settings.connect, str(error)) from error
        handler.hosts = len(client.hosts)
        client.add_listener(functools.partial(self._on_state, client))
        return client

    def _sasl_options(self) -> dict[str, str] | None:
        sasl = self._settings.sasl
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
        session_id, is_broken = self._session_id, False
        if state == KazooState.CONNECTED:
            session_id, _ = client.client_id
            kind = SessionKind.CONNECTED
        elif state == KazooState.SUSPENDED:
            self._losses += 1
            kind = SessionKind.SUSPENDED
        else:
            session_id = 0
            kind = SessionKind.EXPIRED
            if client.client_state == KeeperState.AUTH_FAILED:
                kind = SessionKind.AUTH_FAILED
                self._refused = AuthenticationError(f"{self._settings.connect} refused the credentials{OR_NO_SASL}")
            elif client.client_state == KeeperState.CLOSED:
                is_broken = True
                # kazoo's thread ends on a reply it cannot make sense of; the server will let the session expire
                logger.warning("the connection to %s broke down, starting a new session", self._settings.connect)
        is_known = state != KazooState.LOST and session_id == self._session_id
        self._session_id = session_id
        listeners = self._listeners
        self._changed.notify()
        if is_known and self._is_starting:
            return
        event = SessionEvent(kind, session_id if kind is SessionKind.CONNECTED else 0)
        logger.info("session 0x%x at %s: %s", session_id, self._settings.connect, kind.value)
        for listener in listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a session listener failed on %s", event)
        if is_broken:
            # last: if no thread can begin, the listeners have heard of the end all the same
            OwnThread(target=self._revive, args=(client,)).start()

    def _revive(self, client: Any) -> None:
        client.handler.stopping.wait(_REVIVE_PAUSE_S)
        with self._lifecycle:
            if self._client is client and not self._closed:
                client.start_async()

    # ------------------------------------------------------------------ reads

    def get_data(self, path: str, watcher: Watcher | None = None) -> Znode:
        """Read data and Stat, and watch the data."""
        data, stat = self._ask("get_async", path, self._data_watch(path, watcher))
        return Znode(data, stat_of(stat))

    def get_children(self, path: str, watcher: Watcher | None = None) -> tuple[str, ...]:
        """The names of the children, sorted; and watch them."""
        return tuple(sorted(self._ask("get_children_async", path, self._child_watch(path, watcher))))

    def list_children(self, path: str, watcher: Watcher | None = None) -> Children:
        """As get_children, with the count of their changes."""
        names, stat = self._ask("get_children_async", path, self._child_watch(path, watcher), True)
        return Children(tuple(sorted(names)), stat.cversion, stat.czxid)

    def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        """The Stat, or None; the watch is set either way."""
        found = self._ask("exists_async", path, self._data_watch(path, watcher))
        return None if found is None else stat_of(found)

    def pipeline_data(self, paths: Iterable[str], watcher: Watcher | None) -> list[Znode | None]:
        """One request each; None and no watch where there is no znode."""
        read = self._pipeline("get_async", paths, watcher)
        return [None if reply is None else Znode(reply[0], stat_of(reply[1])) for reply in read]

    def pipeline_children(self, paths: Iterable[str]) -> list[tuple[str, ...] | None]:
        """One request each, sorted; None where there is no znode."""
        return [
            None if names is None else tuple(sorted(names)) for names in self._pipeline("get_children_async", paths)
        ]

    def pipeline_stats(self, paths: Iterable[str], watcher: Watcher | None) -> list[Stat | None]:
        """One request each; None where there is no znode, watched either way."""
        return [None if stat is None else stat_of(stat) for stat in self._pipeline("exists_async", paths, watcher)]

    def watch_data_many(self, paths: Sequence[str], watcher: Watcher, since: int) -> None:
        """Watch many existing znodes without reading them."""
        stopping = self._stopping()
        for start in range(0, len(paths), _WATCHES_PER_REQUEST):
            watches = {
                self._full(path): Watch("data", path, watcher, stopping)
                for path in paths[start : start + _WATCHES_PER_REQUEST]
            }
            self._ask_other(WatchMany(watches, since), paths[start])

    def multi_read(self, kind: ReadKind, paths: Sequence[str]) -> bytes:
        """One request for all."""
        return self._multi_read(kind, paths, self._deadline())

    def _multi_read(self, kind: ReadKind, paths: Sequence[str], deadline: float) -> bytes:
        losses = self._losses
        try:
            sent = self._send_other(ReadMany(kind, [self._full(path) for path in paths]), deadline)
            reply: bytes = self._take(sent, paths[0], deadline)
        except UnimplementedRequestError:
            logger.info(
                "%s lacks reads of many znodes in one request, they are read one by one", self._settings.connect
            )
            # the server closes the connection, and what is sent until then may be lost with it
            self._changed.wait_for(lambda: self._losses != losses or self._closed, _CLOSES_WITHIN_S)
            raise
        return reply

    def read_acls(self, paths: Sequence[str]) -> list[AclEntries | None]:
        """The ACL of each znode, pipelined; None without a znode, or if these credentials may not read it."""
        replies = self._pipeline("get_acls_async", paths, as_none=(NoNodeError, NotPermittedError))
        return [None if reply is None else entries_of(reply[0]) for reply in replies]

    # ------------------------------------------------------------------ writes

    def create(
        self,
        path: str,
        data: bytes | None,
        *,
        ephemeral: bool = False,
        make_parents: bool = False,
        acl: Acl | AclEntries = Acl.SECURE,
    ) -> int:
        """Create a znode; make_parents creates missing persistent parents, without data, before it."""
        op = CreateOp(path, data, ephemeral, acl)
        try:
            return self._create(op)
        except NoNodeError:
            if not make_parents:
                raise
        self.ensure_path(path.rpartition("/")[0] or "/", acl=acl)
        return self._create(op)

    def _create(self, op: CreateOp) -> int:
        deadline = self._deadline()
        write = self._write([op], None)
        self._written_one(write, self._send_other(write, deadline), op, deadline)
        return write.zxid

    def ensure_path(self, path: str, *, acl: Acl | AclEntries = Acl.SECURE) -> None:
        """Create a persistent znode without data, and its parents; existing ones are left as they are."""
        prefixes = with_parents(path)
        # looking first, because create is refused on a protected parent even if the znode is there already
        found = self._pipeline("exists_async", prefixes)
        deadline = self._deadline()
        ops = [CreateOp(prefix, None, acl=acl) for prefix, stat in zip(prefixes, found, strict=True) if stat is None]
        writes = [self._write([op], None) for op in ops]
        # all on their way before the first is answered: the server carries them out in order
        sent = [self._send_other(write, deadline) for write in writes]
        for op, write, result in zip(ops, writes, sent, strict=True):
            with contextlib.suppress(NodeExistsError):
                self._written_one(write, result, op, deadline)

    def set_data(self, path: str, data: bytes, version: int = -1) -> Stat:
        """Write."""
        return decode_set(self._write_one(SetOp(path, data, version)))

    def delete(self, path: str, version: int = -1) -> None:
        """Delete."""
        self._write_one(DeleteOp(path, version))

    def multi(self, ops: Sequence[Op], *, session_id: int | None = None) -> int:
        """Carry out all operations or none."""
        if not ops:
            return 0
        write = self._write(ops, session_id)
        # the estimate is at most four times the truth, and costs as much as encoding: only for what may be too big
        if 4 * len(write.body) > MAX_MULTI_BYTES and (size := sum(map(multi_size, ops))) > MAX_MULTI_BYTES:
            msg = f"a multi of {size} bytes: the limit is {MAX_MULTI_BYTES}"
            raise ValueError(msg)
        if session_id is not None and session_id != self._session_id and not self._closed:
            raise SessionExpiredError(_other_session(session_id))
        deadline = self._deadline()
        # without a connection at once: what the caller has seen may be long over when there is one again
        sent = self._send_other(write, deadline if session_id is None else time.monotonic())
        self._written(write, sent, ops, deadline)
        return write.zxid

    def _write(self, ops: Sequence[Op], session_id: int | None) -> Write:
        kept = self._kept_acls(ops) if self._settings.keep_acl else None
        return Write(encode_multi(ops, self._chroot, self._acls, kept), session_id)

    def _kept_acls(self, ops: Sequence[Op]) -> dict[str, bytes]:
        """{path: ACL} for new znodes: the ACL of the znode that it replaces, else of a znode beside it or above it.

        That one may be made by the same multi.
        """
        kept: dict[str, bytes] = {}
        made: dict[str, bytes] = {}
        found: dict[tuple[str, ...], bytes] = {}
        again = {op.path for op in ops if isinstance(op, DeleteOp)}
        for op in ops:
            if not isinstance(op, CreateOp):
                continue
            if op.path in again and (stood := self._acl_of(op.path)) is not None:
                kept[op.path] = stood
            elif op.acl is Acl.SECURE and not self._settings.secure_acl:
                models = acl_models(op.path)
                if models not in found:
                    found[models] = next(acl for path in models if (acl := made.get(path) or self._acl_of(path)))
                kept[op.path] = found[models]
            made[op.path] = kept.get(op.path) or self._acls[op.acl]
        return kept

    def _acl_of(self, path: str) -> bytes | None:
        """Return an ACL, None without a znode. Raises: NotPermittedError if the server hides a part of it."""
        try:
            entries = entries_of(self._ask("get_acls_async", path)[0])
        except NoNodeError:
            return None
        if not all(entry.is_told for entry in entries):
            raise NotPermittedError(path)
        return encode_acl(entries)

    def _write_one(self, op: Op) -> bytes:
        deadline = self._deadline()
        write = self._write([op], None)
        return self._written_one(write, self._send_other(write, deadline), op, deadline)

    def _written_one(self, write: Write, result: Any, op: Op, deadline: float) -> bytes:
        try:
            return self._written(write, result, [op], deadline)
        except MultiFailedError as failed:
            raise failed.cause from failed.__cause__

    def _written(self, write: Write, result: Any, ops: Sequence[Op], deadline: float) -> bytes:
        """Return the reply to a write that was carried out. Raises: MultiFailedError, SessionExpiredError."""
        reply: bytes
        try:
            (reply,) = self._take(result, ops[0].path, deadline)
        except ConnectionLostError:
            write.given_up = True
            raise
        if write.refused:
            raise SessionExpiredError(_other_session(write.session_id or 0))
        failed = decode_failure(reply)
        if failed is not None:
            path = ops[failed.index].path
            raise MultiFailedError(failed.index, path, failure_of(failed.code, path))
        return reply

    # ------------------------------------------------------------------ requests

    def _full(self, path: str) -> str:
        return full_path(self._chroot, path)

    def _stopping(self) -> Flag:
        client = self._client
        return Flag() if client is None else client.handler.stopping

    def _data_watch(self, path: str, watcher: Watcher | None) -> Watch | None:
        return None if watcher is None else Watch("data", path, hold(watcher), self._stopping())

    def _child_watch(self, path: str, watcher: Watcher | None) -> Watch | None:
        return None if watcher is None else Watch("children", path, hold(watcher), self._stopping())

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.operation_timeout_ms / 1000

    def _ask(self, method: str, path: str, *arguments: Any) -> Any:
        """Call a method of kazoo's client about a znode, and return the reply. Raises: ValueError, as full_path."""
        self._full(path)
        deadline = self._deadline()
        return self._take(self._send(methodcaller(method, path, *arguments), deadline), path, deadline)

    def _ask_other(self, request: Any, path: str) -> Any:
        deadline = self._deadline()
        return self._take(self._send_other(request, deadline), path, deadline)

    def _pipeline(
        self,
        method: str,
        paths: Iterable[str],
        watcher: Watcher | None = None,
        as_none: tuple[type[ZooKeeperError], ...] = (NoNodeError,),
    ) -> list[Any]:
        """Return the replies in order, None for a missing znode; each request has the same bound."""
        replies: list[Any] = []
        in_flight: deque[tuple[Any, str, float]] = deque()

        def take_oldest() -> None:
            try:
                replies.append(self._take(*in_flight.popleft()))
            except as_none:
                replies.append(None)

        for path in paths:
            self._full(path)  # raises ValueError for a relative one
            if len(in_flight) == _PIPELINE_WINDOW:
                take_oldest()
            watch = () if watcher is None else (self._data_watch(path, watcher),)
            deadline = self._deadline()
            in_flight.append((self._send(methodcaller(method, path, *watch), deadline), path, deadline))
        while in_flight:
            take_oldest()
        return replies

    def _send(self, ask: Callable[[Any], Any], deadline: float) -> Any:
        """Wait for a connection and hand a request to kazoo."""
        return ask(self._connected_client(deadline))

    def _send_other(self, request: Any, deadline: float) -> Any:
        """As _send, for a request that kazoo lacks."""
        request.client = client = self._connected_client(deadline)
        return client.send(request)

    def _connected_client(self, deadline: float) -> Any:
        client = self._client
        if client is not None and client.connected and not self._closed:
            if client.handler.is_called_back():
                msg = "a watcher or session listener must not call the store: it would wait for itself"
                raise RuntimeError(msg)
            return client
        self._changed.wait_for(
            lambda: self._closed or self._refused or client is None or client.connected,
            max(0.0, deadline - time.monotonic()),
        )
        if self._closed or client is None:
            raise ConnectionLostError(_CLOSED if self._closed else _NOT_STARTED)
        if self._refused is not None:
            raise AuthenticationError(*self._refused.args)
        if not client.connected:
            raise ConnectionLostError(f"no connection to ZooKeeper at {self._settings.connect}")
        return client

    def _take(self, result: Any, path: str, deadline: float) -> Any:
        if not result.wait(max(0.0, deadline - time.monotonic())):
            raise ConnectionLostError(f"{self._settings.connect} did not answer in time about {path}")
        if result.exception is None:
            return result.value
        raise translated(result.exception, path) from result.exception


def _other_session(session_id: int) -> str:
    return f"session 0x{session_id:x} is over, nothing was written"
