"""ZkStore over kazoo, which only the kazoo_* files of this folder import.

These files add what kazoo lacks:

- Every wait has a bound. The store gives kazoo a request only when there is a connection, and a write that the store
  has given up becomes empty if kazoo still sends it later.
- Watchers and session listeners run on kazoo's connection thread, in the order in which the server's messages arrive:
  a read that the server answers after a change returns after the watcher of that change was called.
- Many reads go in one request if the server supports that: see multi_read.
- Connecting and closing can be interrupted, see sockets.

kazoo_session.py has the connection and the session, this file the requests.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any

from zk_layout.errors import (
    ConnectionLostError,
    MissingChrootError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotPermittedError,
    SessionExpiredError,
    UnimplementedRequestError,
    ZooKeeperError,
)
from zk_layout.kazoo_acls import Acls
from zk_layout.kazoo_requests import ReadMany, Watch, WatchMany, Write
from zk_layout.kazoo_session import KazooSession
from zk_layout.kazoo_translation import entries_of, failure_of
from zk_layout.loggers import safe_logger
from zk_layout.many_reads import ReadsMany
from zk_layout.multi_read import ReadKind
from zk_layout.multi_write import decode_failure, decode_set, encode_acl, encode_multi
from zk_layout.settings import ZkSettings
from zk_layout.store import (
    Acl,
    AclEntries,
    Children,
    CreateOp,
    DeleteOp,
    Op,
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

logger = safe_logger(__name__)

MAX_MULTI_BYTES = 1_000_000
"""The server's jute.maxbuffer is 1,048,575 bytes by default, for a request and for the transaction made from it."""

_PIPELINE_WINDOW = 64  # requests in flight: enough to keep a server busy; kazoo's wake-up pipe holds some hundred
_WATCHES_PER_REQUEST = 1000  # of at most some hundred bytes each, well below the limit of a request
_CLOSES_WITHIN_S = 2.0


class KazooStore(ReadsMany):
    """ZooKeeper through kazoo. See zk_layout.store for what the methods promise.

    Raises: ConfigError for settings that can never work. Nothing is connected before start().
    """

    def __init__(self, settings: ZkSettings) -> None:
        super().__init__(settings.connect.partition("/")[0])
        self._session = KazooSession(settings)
        self._chroot = settings.chroot
        self._acls = Acls(self._acl_of, secure=settings.secure_acl)

    # ------------------------------------------------------------------ session

    @property
    def session_id(self) -> int:
        """The session in use; 0 while there is none."""
        return self._session.session_id

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that the server granted, in ms; before start() the requested one."""
        return self._session.timeout_ms

    def silence_s(self, session_id: int) -> float:
        """Seconds since this session sent the last request that the server has answered."""
        return self._session.silence_s(session_id)

    @property
    def max_multi_bytes(self) -> int:
        """The largest multi, as estimated by multi_size."""
        return MAX_MULTI_BYTES

    def start(self) -> None:
        """Connect; twice is harmless. After an error the store is as new and may be started again."""
        self._session.start(self._find_root)

    def _find_root(self, deadline: float) -> None:
        # kazoo sends this behind the credentials, so that a refusal shows here
        sent = self._session.send(methodcaller("exists_async", "/"), deadline)
        if self._session.take(sent, "/", deadline) is None:
            raise MissingChrootError(self._chroot)

    def close(self) -> None:
        """End the session; twice is harmless. No listener and no watcher is called by this or after it."""
        self._session.close()

    def add_session_listener(self, listener: SessionListener) -> None:
        """From now on call listener with every change of the session."""
        self._session.add_listener(listener)

    def remove_session_listener(self, listener: SessionListener) -> None:
        """No longer call listener; unknown ones are ignored."""
        self._session.remove_listener(listener)

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
        stopping = self._session.stopping
        for start in range(0, len(paths), _WATCHES_PER_REQUEST):
            watches = {
                self._full(path): Watch("data", path, watcher, stopping)
                for path in paths[start : start + _WATCHES_PER_REQUEST]
            }
            self._ask_other(WatchMany(watches, since), paths[start])

    def multi_read(self, kind: ReadKind, paths: Sequence[str]) -> bytes:
        """Read all in one request; return the undecoded reply."""
        losses = self._session.losses
        try:
            reply: bytes = self._ask_other(ReadMany(kind, [self._full(path) for path in paths]), paths[0])
        except UnimplementedRequestError:
            # the server closes the connection then, and a request that is sent before that may be lost with it
            self._session.wait_for_loss(losses, _CLOSES_WITHIN_S)
            raise
        return reply

    def probe_multi_read(self) -> bool | None:
        """Return whether the server knows multi_read, tried on a connection of its own; None if that failed."""
        self._session.send(lambda client: client, self._deadline())  # the server answers, so the probe may, too
        settings = self._session.settings
        limit_ms = min(settings.connection_timeout_ms, settings.operation_timeout_ms)
        probe = KazooSession(replace(settings, connect=self.hosts, connection_timeout_ms=limit_ms))
        found: list[bool] = []

        def ask(deadline: float) -> None:
            # a lost connection ends the probe, too, without a result
            with contextlib.suppress(ConnectionLostError, SessionExpiredError):
                try:
                    probe.take(probe.send_other(ReadMany(ReadKind.DATA, ["/"]), deadline), "/", deadline)
                except UnimplementedRequestError:
                    found.append(False)
                else:
                    found.append(True)

        try:
            probe.start(ask)
        except ZooKeeperError as error:
            logger.debug("could not find out whether %s reads many znodes at once: %s", self.hosts, error)
        finally:
            probe.close()
        return found[0] if found else None

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
        self._written_one(write, self._session.send_other(write, deadline), op, deadline)
        return write.zxid

    def ensure_path(self, path: str, *, acl: Acl | AclEntries = Acl.SECURE) -> None:
        """Create a persistent znode without data, and its parents; existing ones are left as they are."""
        prefixes = with_parents(path)
        # look first, because ZooKeeper refuses a create below a protected parent even if the znode exists
        found = self._pipeline("exists_async", prefixes)
        deadline = self._deadline()
        ops = [CreateOp(prefix, None, acl=acl) for prefix, stat in zip(prefixes, found, strict=True) if stat is None]
        writes = [self._write([op], None) for op in ops]
        # all are sent before the first answer, because the server carries them out in order
        sent = [self._session.send_other(write, deadline) for write in writes]
        for op, write, result in zip(ops, writes, sent, strict=True):
            with contextlib.suppress(NodeExistsError):
                self._written_one(write, result, op, deadline)

    def set_data(self, path: str, data: bytes, version: int = -1) -> Stat:
        """Write the data."""
        return decode_set(self._write_one(SetOp(path, data, version)))

    def delete(self, path: str, version: int = -1) -> None:
        """Delete the znode."""
        self._write_one(DeleteOp(path, version))

    def multi(self, ops: Sequence[Op], *, session_id: int | None = None) -> int:
        """Carry out all operations or none."""
        if not ops:
            return 0
        write = self._write(ops, session_id)
        # the estimate is at most four times the real size, and costs as much as encoding: made only for a big request
        if 4 * len(write.body) > MAX_MULTI_BYTES and (size := sum(map(multi_size, ops))) > MAX_MULTI_BYTES:
            msg = f"a multi of {size} bytes: the limit is {MAX_MULTI_BYTES}"
            raise ValueError(msg)
        if session_id is not None and session_id != self.session_id and not self._session.is_closed:
            raise SessionExpiredError(_other_session(session_id))
        deadline = self._deadline()
        # a write for one session does not wait for a connection: by then the caller's readings may be out of date
        sent = self._session.send_other(write, deadline if session_id is None else time.monotonic())
        self._written(write, sent, ops, deadline)
        return write.zxid

    def _write(self, ops: Sequence[Op], session_id: int | None) -> Write:
        kept = self._acls.kept(ops) if self._session.settings.keep_acl else None
        return Write(encode_multi(ops, self._chroot, self._acls.encoded, kept), session_id)

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
        return self._written_one(write, self._session.send_other(write, deadline), op, deadline)

    def _written_one(self, write: Write, result: Any, op: Op, deadline: float) -> bytes:
        try:
            return self._written(write, result, [op], deadline)
        except MultiFailedError as failed:
            raise failed.cause from failed.__cause__

    def _written(self, write: Write, result: Any, ops: Sequence[Op], deadline: float) -> bytes:
        """Return the reply to a write that was carried out. Raises: MultiFailedError, SessionExpiredError."""
        reply: bytes
        try:
            (reply,) = self._session.take(result, ops[0].path, deadline)
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

    def _data_watch(self, path: str, watcher: Watcher | None) -> Watch | None:
        return None if watcher is None else Watch("data", path, hold(watcher), self._session.stopping)

    def _child_watch(self, path: str, watcher: Watcher | None) -> Watch | None:
        return None if watcher is None else Watch("children", path, hold(watcher), self._session.stopping)

    def _deadline(self) -> float:
        return time.monotonic() + self._session.settings.operation_timeout_ms / 1000

    def _ask(self, method: str, path: str, *arguments: Any) -> Any:
        """Call a method of kazoo's client about a znode, and return the reply. Raises: ValueError, as full_path."""
        self._full(path)
        deadline = self._deadline()
        return self._session.take(self._session.send(methodcaller(method, path, *arguments), deadline), path, deadline)

    def _ask_other(self, request: Any, path: str) -> Any:
        deadline = self._deadline()
        return self._session.take(self._session.send_other(request, deadline), path, deadline)

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
                replies.append(self._session.take(*in_flight.popleft()))
            except as_none:
                replies.append(None)

        for path in paths:
            self._full(path)  # raises ValueError for a relative one
            if len(in_flight) == _PIPELINE_WINDOW:
                take_oldest()
            watch = () if watcher is None else (self._data_watch(path, watcher),)
            deadline = self._deadline()
            in_flight.append((self._session.send(methodcaller(method, path, *watch), deadline), path, deadline))
        while in_flight:
            take_oldest()
        return replies


def _other_session(session_id: int) -> str:
    return f"session 0x{session_id:x} is over, nothing was written"
