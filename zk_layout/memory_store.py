"""An in-memory ZooKeeper and the stores that are connected to it: for tests and simulations, without threads.

What happens to a store (a watch fires, its connection breaks, its session expires) is first a Delivery in the queue
of that store, in the order in which a real server's messages would arrive. By default the queues are emptied at the end
of each request of any store. A simulation sets auto_deliver to False and picks the store whose next delivery comes: any
order between stores, never inside one. A store's own requests always empty its own queue first, since a reply cannot
overtake the events before it.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TypeAlias, TypeVar

from zk_layout.errors import (
    ConnectionLostError,
    ConnectTimeoutError,
    MissingChrootError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotPermittedError,
    SessionExpiredError,
    ZooKeeperError,
)
from zk_layout.loggers import safe_logger
from zk_layout.memory_tree import Change, MemoryTree, WatchOn
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
    WatchEvent,
    WatchKind,
    Znode,
    full_path,
    multi_size,
    with_parents,
)
from zk_layout.weak_watchers import HeldWatcher, hold, watcher_of

logger = safe_logger(__name__)

Result = TypeVar("Result")
Event = TypeVar("Event")


class Fault(Enum):
    """The ways to lose a request; in both the connection breaks and comes back, in the same session."""

    LOSE_REQUEST = "lose_request"
    """The server never sees it."""
    LOSE_REPLY = "lose_reply"
    """The server carries it out, and the reply is lost."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request ends in this error, although the connection stays.

    carried_out: the error comes after the request was carried out, as when a reply makes no sense to the client.
    """

    error: Exception
    carried_out: bool = False


FaultHook: TypeAlias = Callable[[int, str], Fault | Refusal | None]
"""Called with the session id and the kind of request, before it is carried out."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that will reach a store: for its watchers or its session listeners."""

    event: WatchEvent | SessionEvent
    watcher: HeldWatcher | None = None
    """The watcher that gets a WatchEvent; None for a SessionEvent."""


class MemoryZooKeeper:
    """The server: znodes, sessions, watches, and the pending deliveries of each store.

    wall_ms: milliseconds since 1970, for ctime and mtime. monotonic: seconds, for how long a store heard nothing.
    reachable: False lets start() of new stores time out.
    requests: how many of each kind were carried out. A batch of unwatched reads counts once, as "multi_read".
    """

    def __init__(
        self,
        *,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        auto_deliver: bool = True,
        fault: FaultHook | None = None,
        max_multi_bytes: int = 1_000_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.auto_deliver = auto_deliver
        self.monotonic = monotonic
        self.fault = fault
        self.max_multi_bytes = max_multi_bytes
        self.reachable = True
        self.requests: Counter[str] = Counter()
        self.tree = MemoryTree(wall_ms)
        self.lock = threading.RLock()
        self._stores: list[MemoryStore] = []
        self._sessions: set[int] = set()
        self._last_session_id = 0x1000000

    # ------------------------------------------------------------------ for simulations

    def pending(self) -> dict[MemoryStore, tuple[Delivery, ...]]:
        """Return the waiting deliveries by store, oldest first, without stores that are stalled or have none."""
        with self.lock:
            return {store: tuple(store.queue) for store in filter(MemoryStore.has_deliveries, self._stores)}

    def deliver_next(self, store: MemoryStore) -> bool:
        """Let the oldest delivery reach the store; False if there was none."""
        return store.deliver(limit=1) == 1

    def deliver_all(self) -> None:
        """Empty all queues, also queues that fill during the delivery."""
        while stores := list(self.pending()):
            for store in stores:
                store.deliver()

    def expire(self, session_id: int) -> None:
        """End the session: its ephemerals go now, and its store learns of it with a later delivery."""
        with self.lock:
            if session_id not in self._sessions:
                return
            self._end_session(session_id)
            for store in self._stores:
                self._end_session_of(store, session_id)
        self._settle()

    def _end_session_of(self, store: MemoryStore, session_id: int) -> None:
        if store.server_session_id == session_id and store.linked:
            self._unlink(store)
            if store.is_stalled:
                store.is_forsaken = True
            else:
                self._link(store)

    def stall(self, store: MemoryStore) -> None:
        """Freeze the process of a store: it sends no heartbeat and gets no delivery until wake()."""
        with self.lock:
            store.listen()
            store.is_stalled = True

    def wake(self, store: MemoryStore) -> None:
        """Undo stall(). The store keeps its old state until a delivery reaches it."""
        with self.lock:
            store.is_stalled = False
            if store.is_forsaken:
                store.is_forsaken = False
                self._link(store)

    def suspend(self, store: MemoryStore) -> None:
        """Cut the connection of a store; its session lives on until expire()."""
        with self.lock:
            if store.linked:
                self._unlink(store)
        self._settle()

    def resume(self, store: MemoryStore) -> None:
        """Give a suspended store its connection back, and a new session if its own has expired."""
        with self.lock:
            if store in self._stores and not store.linked:
                self._link(store)
        self._settle()

    # ------------------------------------------------------------------ for stores

    def attach(self, store: MemoryStore) -> None:
        """Connect a store that starts, in a new session."""
        with self.lock:
            self._stores.append(store)
            self._link(store)

    def detach(self, store: MemoryStore) -> None:
        """Detach a store that closes: if it has a connection its session ends, and it gets no more deliveries."""
        with self.lock:
            self._stores.remove(store)
            store.watches.clear()
            store.queue.clear()
            if store.linked:
                self._end_session(store.server_session_id)
            store.linked = False
        self._settle()

    def request(self, store: MemoryStore, kind: str, carry_out: Callable[[], Result]) -> Result:
        """Carry out one request of a store, or lose it.

        Raises: ConnectionLostError, and what carry_out raises.
        """
        try:
            with self.lock:
                # a request sent on a connection that is found broken is lost with it
                was_linked = store.linked and not store.is_cut_in_queue()
                fault = self.fault(store.server_session_id, kind) if self.fault and was_linked else None
                if not was_linked or fault is Fault.LOSE_REQUEST:
                    self._blip(store, fault)
                    raise ConnectionLostError("the connection to ZooKeeper was lost")
                self.requests[kind] += 1
                if isinstance(fault, Refusal):
                    if fault.carried_out:
                        carry_out()
                    raise fault.error
                try:
                    return carry_out()
                finally:
                    if fault is Fault.LOSE_REPLY:
                        self._blip(store, fault)
                        raise ConnectionLostError("the connection to ZooKeeper was lost")
        finally:
            store.deliver()
            self._settle()

    def publish(self, changes: Sequence[Change]) -> None:
        """Queue a delivery for each watch that a change fires."""
        for change in changes:
            for store in self._stores:
                watchers = store.watches.pop((change.on, change.path), {})
                for watcher in watchers:
                    path = store.unchroot(change.path)
                    store.queue.append(Delivery(WatchEvent(change.kind, path), watcher))

    def _settle(self) -> None:
        if self.auto_deliver:
            self.deliver_all()

    def _blip(self, store: MemoryStore, fault: Fault | Refusal | None) -> None:
        if fault is not None:
            self._unlink(store)
            self._link(store)

    def _unlink(self, store: MemoryStore) -> None:
        store.listen()
        store.linked = False
        store.queue.append(Delivery(SessionEvent(SessionKind.SUSPENDED, 0)))
        for (_, path), watchers in store.watches.items():
            for watcher in watchers:
                store.queue.append(Delivery(WatchEvent(WatchKind.LOST, store.unchroot(path)), watcher))
        store.watches.clear()

    def _link(self, store: MemoryStore) -> None:
        if store.server_session_id not in self._sessions:
            if store.server_session_id:
                store.queue.append(Delivery(SessionEvent(SessionKind.EXPIRED, 0)))
            self._last_session_id += 1
            store.server_session_id = self._last_session_id
            self._sessions.add(self._last_session_id)
        store.linked = True
        store.queue.append(Delivery(SessionEvent(SessionKind.CONNECTED, store.server_session_id)))

    def _end_session(self, session_id: int) -> None:
        self._sessions.discard(session_id)
        for path in self.tree.ephemerals(session_id):
            self.publish(self.tree.write([DeleteOp(path)], session_id)[1])


class MemoryStore:
    """A client of a MemoryZooKeeper. See zk_layout.store for what the methods promise.

    While it is suspended its requests fail at once, where the real store waits for its operation timeout first.
    """

    def __init__(self, server: MemoryZooKeeper, *, chroot: str = "", session_timeout_ms: int = 6000) -> None:
        self._server = server
        self._chroot = chroot.rstrip("/")
        self._session_timeout_ms = session_timeout_ms
        self._session_id = 0
        self._heard_at = -math.inf
        self._started = False
        self._closed = False
        self._listeners: tuple[SessionListener, ...] = ()
        self._delivering = threading.RLock()
        self.server_session_id = 0
        """The session as the server knows it; session_id follows when the event arrives."""
        self.linked = False
        self.is_stalled = False
        """Whether the store is frozen and sends no heartbeats; see MemoryZooKeeper.stall."""
        self.is_forsaken = False
        """Whether its session ended while it was frozen."""
        self.queue: deque[Delivery] = deque()
        self.watches: dict[tuple[WatchOn, str], dict[HeldWatcher, None]] = {}

    @property
    def session_id(self) -> int:
        """The session in use; 0 while there is none."""
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        """The requested session timeout, in ms, which the server grants."""
        return self._session_timeout_ms

    def silence_s(self, session_id: int) -> float:
        """Seconds since the last answered heartbeat; 0 while there is a connection."""
        with self._server.lock:
            self.listen()
            if not session_id or session_id != self._session_id:
                return math.inf
            return self._server.monotonic() - self._heard_at

    def listen(self) -> None:
        """Note an answered heartbeat, if there is a connection."""
        known = self._session_id == self.server_session_id
        if known and self.linked and not self.is_stalled and not self.is_cut_in_queue():
            self._heard_at = self._server.monotonic()

    @property
    def max_multi_bytes(self) -> int:
        """The server's limit."""
        return self._server.max_multi_bytes

    def start(self) -> None:
        """Connect; twice is harmless."""
        if self._closed:
            raise ConnectionLostError("this ZooKeeper store is closed")
        if self._started:
            return
        if not self._server.reachable:
            raise ConnectTimeoutError("memory", 0)
        with self._server.lock:
            if self._chroot and not self._peek(self._chroot):
                raise MissingChrootError(self._chroot)
            self._started = True
            self._server.attach(self)
        self.deliver()

    def close(self) -> None:
        """End the session; twice is harmless. No listener and no watcher is called by this or after it."""
        with self._server.lock:
            started = self._started and not self._closed
            self._closed = True
            self._session_id = 0
        if started:
            self._server.detach(self)

    def add_session_listener(self, listener: SessionListener) -> None:
        """From now on call listener with every change of the session."""
        self._listeners = (*self._listeners, listener)

    def remove_session_listener(self, listener: SessionListener) -> None:
        """No longer call listener; unknown ones are ignored."""
        self._listeners = tuple(known for known in self._listeners if known != listener)

    def deliver(self, limit: int | None = None) -> int:
        """Carry out deliveries, oldest first; return their number."""
        with self._delivering:
            return self._deliver(limit)

    def _deliver(self, limit: int | None) -> int:
        delivered = 0
        while not self.is_stalled and (limit is None or delivered < limit):
            with self._server.lock:
                if not self.queue:
                    break
                delivery = self.queue.popleft()
            self._arrive(delivery)
            delivered += 1
        return delivered

    def has_deliveries(self) -> bool:
        """Return whether deliveries wait, and the store is not stalled."""
        return bool(self.queue) and not self.is_stalled

    def _arrive(self, delivery: Delivery) -> None:
        event = delivery.event
        if isinstance(event, WatchEvent):
            assert delivery.watcher is not None
            watcher = watcher_of(delivery.watcher)
            if watcher is not None:
                _tell(watcher, event)
            return
        if event.kind is SessionKind.CONNECTED:
            self._session_id = event.session_id
        elif event.kind is not SessionKind.SUSPENDED:
            self._session_id = 0
        for listener in self._listeners:
            _tell(listener, event)

    def is_cut_in_queue(self) -> bool:
        """Return whether a loss of the connection is queued, so that the server does not get a request sent now."""
        return any(
            isinstance(delivery.event, SessionEvent) and delivery.event.kind is SessionKind.SUSPENDED
            for delivery in self.queue
        )

    # ------------------------------------------------------------------ reads

    def get_data(self, path: str, watcher: Watcher | None = None) -> Znode:
        """Read data and Stat, and watch the data."""
        return self._request("get_data", lambda: self._get_data(path, watcher))

    def get_children(self, path: str, watcher: Watcher | None = None) -> tuple[str, ...]:
        """The names of the children, sorted; and watch them."""
        return self._request("get_children", lambda: self._get_children(path, watcher))

    def list_children(self, path: str, watcher: Watcher | None = None) -> Children:
        """As get_children, with the count of their changes."""
        return self._request("get_children", lambda: self._list_children(path, watcher))

    def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        """The Stat, or None; the watch is set either way."""
        return self._request("exists", lambda: self._exists(path, watcher))

    def get_data_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Znode | None]:
        """Read many znodes; None where there is no znode, which is watched too."""
        if watcher is None:
            return self._request("multi_read", lambda: [_or_none(self._get_data, path) for path in paths])
        return [self._request("get_data", partial(self._watch_data, path, watcher)) for path in paths]

    def get_children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """The children of many znodes, sorted; None = no such znode."""
        return self._request("multi_read", lambda: [_or_none(self._get_children, path) for path in paths])

    def watch_data_many(self, paths: Sequence[str], watcher: Watcher, since: int) -> None:
        """Watch many existing znodes without reading them."""
        self._request("watch_many", lambda: self._watch_present(paths, watcher, since))

    def _watch_present(self, paths: Sequence[str], watcher: Watcher, since: int) -> None:
        for path in paths:
            full = self._full(path)
            stat = self._peek(full)
            if stat is None:
                self.queue.append(Delivery(WatchEvent(WatchKind.DELETED, path), watcher))
            elif stat.mzxid > since:
                self.queue.append(Delivery(WatchEvent(WatchKind.CHANGED, path), watcher))
            else:
                self._watch(WatchOn.DATA, full, watcher)

    def exists_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Stat | None]:
        """As exists, for many paths."""
        if watcher is None:
            return self._request("multi_read", lambda: [self._exists(path) for path in paths])
        return [self._request("exists", partial(self._exists, path, watcher)) for path in paths]

    def _get_data(self, path: str, watcher: Watcher | None = None) -> Znode:
        full = self._full(path)
        try:
            znode = self._server.tree.read(full)
        except NoNodeError:
            # with the caller's path, which does not have the chroot
            raise NoNodeError(path) from None
        self._watch(WatchOn.DATA, full, watcher)
        return znode

    def _watch_data(self, path: str, watcher: Watcher) -> Znode | None:
        try:
            return self._get_data(path, watcher)
        except NoNodeError:
            self._watch(WatchOn.DATA, self._full(path), watcher)
            return None

    def _get_children(self, path: str, watcher: Watcher | None = None) -> tuple[str, ...]:
        return self._list_children(path, watcher).names

    def _list_children(self, path: str, watcher: Watcher | None) -> Children:
        full = self._full(path)
        try:
            children = self._server.tree.children(full)
        except NoNodeError:
            raise NoNodeError(path) from None
        self._watch(WatchOn.CHILDREN, full, watcher)
        return children

    def _exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        full = self._full(path)
        self._watch(WatchOn.DATA, full, watcher)
        return self._peek(full)

    def _peek(self, full: str) -> Stat | None:
        try:
            return self._server.tree.read(full).stat
        except NoNodeError:
            return None

    def _watch(self, on: WatchOn, full: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            self.watches.setdefault((on, full), {})[hold(watcher)] = None

    def read_acls(self, paths: Sequence[str]) -> list[AclEntries | None]:
        """Return the given ACL; there are no credentials here, so SECURE is the same as OPEN."""
        found = [self._request("get_acl", partial(_or_none, self._server.tree.acl, self._full(p))) for p in paths]
        return [EVERYBODY if isinstance(acl, Acl) else acl for acl in found]

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
        return self._write_one("create", op)[0]

    def ensure_path(self, path: str, *, acl: Acl | AclEntries = Acl.SECURE) -> None:
        """Create a persistent znode without data, and its parents; existing ones are left as they are."""
        for prefix in with_parents(path):
            if self.exists(prefix) is None:
                try:
                    self._create(CreateOp(prefix, None, acl=acl))
                except NodeExistsError:
                    continue

    def set_data(self, path: str, data: bytes, version: int = -1) -> Stat:
        """Write the data."""
        _, [stat] = self._write_one("set_data", SetOp(path, data, version))
        assert stat is not None
        return stat

    def delete(self, path: str, version: int = -1) -> None:
        """Delete the znode."""
        self._write_one("delete", DeleteOp(path, version))

    def multi(self, ops: Sequence[Op], *, session_id: int | None = None) -> int:
        """Carry out all operations or none."""
        size = sum(map(multi_size, ops))
        if size > self.max_multi_bytes:
            msg = f"a multi of {size} bytes: the limit is {self.max_multi_bytes}"
            raise ValueError(msg)
        if session_id is not None and not self._closed and session_id != self._session_id:
            raise SessionExpiredError(_other_session(session_id))
        if not ops:
            return 0
        try:
            return self._request("multi", lambda: self._write(ops, session_id))[0]
        except NotPermittedError as error:
            # refused for one of its operations, as a server does
            raise MultiFailedError(len(ops) - 1, ops[-1].path, error) from None

    def _write_one(self, kind: str, op: Op) -> tuple[int, list[Stat | None]]:
        try:
            return self._request(kind, lambda: self._write([op]))
        except MultiFailedError as failed:
            raise failed.cause from None

    def _write(self, ops: Sequence[Op], session_id: int | None = None) -> tuple[int, list[Stat | None]]:
        """Return the zxid, and the Stat of each znode that was created or set."""
        if session_id is not None and session_id != self.server_session_id:
            raise SessionExpiredError(_other_session(session_id))
        rooted = [self._rooted(op) for op in ops]
        try:
            stats, changes = self._server.tree.write(rooted, self.server_session_id)
        except MultiFailedError as failed:
            path = ops[failed.index].path
            raise MultiFailedError(failed.index, path, _renamed(failed.cause, path)) from None
        self._server.publish(changes)
        return self._server.tree.zxid, stats

    # ------------------------------------------------------------------ requests

    def unchroot(self, full: str) -> str:
        """Return a server's path as this store names it, without the chroot."""
        return full[len(self._chroot) :] or "/"

    def _full(self, path: str) -> str:
        return full_path(self._chroot, path)

    def _rooted(self, op: Op) -> Op:
        full = self._full(op.path)
        return op if full == op.path else replace(op, path=full)

    def _request(self, kind: str, carry_out: Callable[[], Result]) -> Result:
        if self._closed:
            raise ConnectionLostError("this ZooKeeper store is closed")
        if not self._started:
            raise ConnectionLostError("this ZooKeeper store was not started")
        return self._server.request(self, kind, carry_out)


def _tell(callback: Callable[[Event], None], event: Event) -> None:
    try:
        callback(event)
    except Exception:
        logger.exception("a callback failed on %s", event)


def _other_session(session_id: int) -> str:
    return f"session 0x{session_id:x} is over, nothing was written"


def _or_none(read: Callable[[str], Result], path: str) -> Result | None:
    try:
        return read(path)
    except NoNodeError:
        return None


def _renamed(error: ZooKeeperError, path: str) -> ZooKeeperError:
    return type(error)(path) if hasattr(error, "path") else error
