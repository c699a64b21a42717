"""The in-memory ZooKeeper of a simulated world: it records writes of owners, offsets, ids and requests in the history.

Before each request of an actor the world may let other actors act, or end the actor. So members are interleaved between
any two ZooKeeper operations, in one thread, by nested calls.
"""

from __future__ import annotations

from legacy_consumer.member.resets import decode_request, request_path
from zk_layout.codecs import decode_offset
from zk_layout.errors import (
    AuthenticationError,
    ConnectionLostError,
    MalformedZnodeError,
    MultiFailedError,
    NoNodeError,
    NotPermittedError,
)
from zk_layout.memory_store import Delivery, MemoryStore, MemoryZooKeeper
from zk_layout.memory_tree import MemoryTree
from zk_layout.model import TopicPartition
from zk_layout.store import CreateOp, DeleteOp, SessionEvent, SessionKind, SetOp

GROUP = "g"
IDS = f"/consumers/{GROUP}/ids"
OWNERS = f"/consumers/{GROUP}/owners"
OFFSETS = f"/consumers/{GROUP}/offsets"
REQUEST = request_path(GROUP)
SESSION_TIMEOUT_MS = 6000


class InjectedError(OSError):
    """An unexpected error, raised by the store, by the coordinator of offsets or by the user's code."""


class RecordingTree(MemoryTree):
    """A tree that records writes of owners, offsets, registrations and requests in the history."""

    def __init__(self, wall_ms, record):
        super().__init__(wall_ms)
        self._record = record
        self._known = {}
        self.session_is_ending = False
        self.forbidden = set()
        """Paths that an ACL forbids members to write."""
        self.closed = set()
        """Paths that an ACL forbids members to read."""
        self.hides = False
        """Whether members may not learn that a closed znode exists either, as in ZooKeeper 3.9."""
        self.is_member = lambda session_id: False
        self.forbids = lambda session_id, path: False
        """Returns whether an ACL forbids this session alone to write this path."""

    def check_open(self, path, session_id):
        """Raise NotPermittedError if this session may not read this path."""
        if path in self.closed and self.is_member(session_id):
            if path.startswith((f"{OWNERS}/", "/brokers/topics/")):
                self._record("denied", session_id, path)
            raise NotPermittedError(path)

    def write(self, ops, session_id):
        for index, op in enumerate(ops):
            if not isinstance(op, (CreateOp, SetOp)):
                continue
            if (op.path in self.forbidden and self.is_member(session_id)) or self.forbids(session_id, op.path):
                raise MultiFailedError(index, op.path, NotPermittedError(op.path))
        done = super().write(ops, session_id)
        for op in ops:
            kind, what = self._known.get(op.path) or self._learn(op.path)
            if kind == "other":
                continue
            if kind == "request":
                self._record("request", self.requested())
                continue
            if isinstance(op, CreateOp):
                if kind == "owner":
                    self._record("owner+", session_id, what, (op.data or b"").decode())
                elif kind == "offset":
                    self._record_offset(session_id, what, op)
                else:
                    self._record("id+", session_id, what)
            elif isinstance(op, SetOp):
                if kind == "offset":
                    self._record_offset(session_id, what, op)
            elif isinstance(op, DeleteOp) and kind in ("owner", "id"):
                self._record(kind + "-", session_id, what, "session ended" if self.session_is_ending else "deleted")
            elif isinstance(op, DeleteOp):
                self._record("offset-", session_id, what)
        return done

    def requested(self):
        """Return the partitions in the present request for a reset, if it is valid and ephemeral; else none."""
        try:
            znode = self.read(REQUEST)
            return decode_request(REQUEST, znode.data).partitions if znode.stat.ephemeral_owner else frozenset()
        except (NoNodeError, MalformedZnodeError):
            return frozenset()

    def _record_offset(self, session_id, tp, op):
        try:
            self._record("offset", session_id, tp, decode_offset(op.path, op.data))
        except MalformedZnodeError:
            self._record("garbled", session_id, tp)

    def _learn(self, path):
        parts = path.split("/")
        known = ("other", None)
        if path.startswith(f"/consumers/{GROUP}/") and len(parts) == 6 and parts[3] in ("owners", "offsets"):
            known = (parts[3][:-1], TopicPartition(parts[4], int(parts[5])))
        elif path.startswith(IDS + "/") and not parts[4].startswith("stranger"):
            known = ("id", parts[4])
        elif path == REQUEST:
            known = ("request", None)
        self._known[path] = known
        return known


COMMANDS_MULTI_BYTES = 1200
"""The least multi size in bytes for a command: a new group with its first offset, or a live reset with its request."""


class SimulatedStore(MemoryStore):
    """A client that may not read what an ACL closes, and whose credentials ZooKeeper may refuse."""

    def __init__(self, server, **settings):
        super().__init__(server, **settings)
        self.is_refused = False
        self.requested = frozenset()
        """The partitions of a reset in the request that this client read last."""
        self.least_multi_bytes = 0

    @property
    def has_told_of_refusal(self):
        """Whether this store has told its listeners that ZooKeeper refuses its credentials."""
        return self.is_refused and not _will_hear(self, SessionKind.AUTH_FAILED)

    @property
    def max_multi_bytes(self):
        return max(self.least_multi_bytes, super().max_multi_bytes)

    def refuse(self):
        """Refuse this store's credentials for good; it has no connection now."""
        self.is_refused = True
        self.queue.append(Delivery(SessionEvent(SessionKind.AUTH_FAILED, 0)))

    def exists(self, path, watcher=None):
        stat = super().exists(path, watcher)
        if path == REQUEST and stat is None:
            self.requested = frozenset()
        return stat

    def get_data(self, path, watcher=None):
        znode = super().get_data(path, watcher)
        if path == REQUEST:
            self.requested = self._server.tree.requested()
        return znode

    def _request(self, kind, carry_out):
        try:
            return super()._request(kind, carry_out)
        except ConnectionLostError:
            if self.is_refused:
                raise AuthenticationError("injected: ZooKeeper refuses the credentials") from None
            raise

    def _get_data(self, path, watcher=None):
        self._server.tree.check_open(path, self.server_session_id)
        return super()._get_data(path, watcher)

    def _list_children(self, path, watcher):
        self._server.tree.check_open(path, self.server_session_id)
        return super()._list_children(path, watcher)

    def _exists(self, path, watcher=None):
        stat = super()._exists(path, watcher)
        if stat is not None and self._server.tree.hides:
            self._server.tree.check_open(path, self.server_session_id)
        return stat


class SimulatedZooKeeper(MemoryZooKeeper):
    """A server of SimulatedStores.

    record: is called with the kind and the details of an event. before_request: see the module.
    """

    def __init__(
        self, *, clock, record, before_request, fault, max_multi_bytes, after_request=lambda _store, _kind: None
    ):
        super().__init__(
            wall_ms=clock.wall_ms,
            monotonic=clock.monotonic,
            auto_deliver=False,
            fault=fault,
            max_multi_bytes=max_multi_bytes,
        )
        self.tree = RecordingTree(clock.wall_ms, record)
        self._record = record
        self._before_request = before_request
        self._after_request = after_request
        self.actors = {}
        """{store: the name of the actor that uses it}."""
        self.note_lost = lambda store, *, is_over: None
        """Called after the connection was lost at a request; it may raise another error."""
        self.reason = "closed"
        """The reason that the history records for a session that ends now."""

    def connect(self, name):
        """Return a started store for the actor of this name."""
        store = SimulatedStore(self, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.actors[store] = name
        store.start()
        return store

    def request(self, store, kind, carry_out):
        self._before_request(store)
        is_over = _will_hear(store, SessionKind.EXPIRED)
        try:
            answer = super().request(store, kind, carry_out)
        except ConnectionLostError:
            self.note_lost(store, is_over=is_over)
            raise
        self._after_request(store, kind)
        return answer

    def is_alive(self, session_id):
        return session_id in self._sessions

    def _link(self, store):
        before = store.server_session_id
        super()._link(store)
        if store.server_session_id != before:
            self._record("session", self.actors[store], store.server_session_id)

    def _end_session(self, session_id):
        if session_id in self._sessions:
            self._record("ended", session_id, self.reason)
        self.tree.session_is_ending = True
        super()._end_session(session_id)
        self.tree.session_is_ending = False


def _will_hear(store, kind):
    """Return whether a session event of this kind is on its way to the store."""
    return any(isinstance(one.event, SessionEvent) and one.event.kind is kind for one in store.queue)
