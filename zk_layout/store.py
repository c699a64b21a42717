"""The seam to ZooKeeper: the requests that this project needs, and no others.

kazoo_store.KazooStore is the real one, memory_store the one for tests; one contract suite runs over both.

Threads: every method may be called from any thread but a callback's. Watchers and session listeners run on a thread
of the store; they must only enqueue. Watches are one-shot, as ZooKeeper's are: a watcher fires once, with the first
change after the read that set it, and before any read of this store can see that change. When the connection is lost
the store fires every watcher with WatchKind.LOST, once: what was watched must be read again. One watcher set twice
on the same (data and exists are the same, children are another) is one watch. close() fires nothing. A watcher that is
a bound method is held weakly: its watches end with its object.

Paths are absolute inside the chroot; any other is a ValueError. Data is bytes; an absent value reads as None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias


class Acl(Enum):
    """The ACL of a new znode; the store knows what SECURE means here."""

    OPEN = "open"
    """world:anyone may do everything: registrations, in every version of Kafka."""
    SECURE = "secure"
    """The ACL that zookeeper.set.acl asks for; the same as OPEN without it."""


class AclEntry(NamedTuple):
    """The permissions of one identity: the sum of 1 read, 2 write, 4 create, 8 delete, 16 administer.

    The server tells the id of a digest only to clients that may administer the znode; the others see "user:x".
    """

    permissions: int
    scheme: str
    id: str

    @property
    def lets_everybody_write(self) -> bool:
        """Whether anybody may change, create or delete."""
        return self.scheme == "world" and bool(self.permissions & 0b1110)

    @property
    def is_told(self) -> bool:
        """Whether the server showed the whole entry."""
        return not (self.scheme == "digest" and self.id.endswith(":x"))


AclEntries: TypeAlias = tuple[AclEntry, ...]
"""A whole ACL."""

EVERYBODY: AclEntries = (AclEntry(0b11111, "world", "anyone"),)


class Stat(NamedTuple):
    """The facts that ZooKeeper keeps about a znode. Times in ms since 1970, by the server's clock.

    A tuple, like Znode, because a hundred thousand of them are decoded for one look at a cluster.
    """

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    ephemeral_owner: int
    """The session that owns an ephemeral znode; 0 for the others, as servers answer for containers and TTL znodes too.

    Source: ZooKeeper, DataNode.getClientEphemeralOwner.
    """
    data_length: int
    num_children: int
    child_changes: int = 0
    """How many creations and deletions of children there were; of 32 bits, so it may turn negative."""


def stat_of(fields: tuple[int, ...]) -> Stat:
    """Build a Stat from the fields that a server sends, in the server's order."""
    czxid, mzxid, ctime, mtime, version, child_changes, _, owner, size, children, _ = fields
    return Stat(czxid, mzxid, ctime, mtime, version, owner, size, children, child_changes)


class Znode(NamedTuple):
    """The data of a znode and its Stat, read together."""

    data: bytes | None
    stat: Stat


class WatchKind(Enum):
    """The change of a watched path."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"
    LOST = "lost"
    """The watch is gone because the connection is; read again."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """The event that the store passes to a watcher."""

    kind: WatchKind
    path: str


class Children(NamedTuple):
    """The names of a znode's children, sorted, and how many creations and deletions of children it has seen.

    changes: of 32 bits, so it may turn negative. If two lists of the same life of the znode (czxid) differ in as many
    names as there were changes between them, no child went and came back in between.
    """

    names: tuple[str, ...]
    changes: int
    czxid: int


class SessionKind(Enum):
    """The state of a session."""

    CONNECTED = "connected"
    """Connected, the first time or again; session_id says whether it is still the same session."""
    SUSPENDED = "suspended"
    """No connection; the session may or may not live."""
    EXPIRED = "expired"
    """The server said that the session is gone. The store begins a new one by itself."""
    AUTH_FAILED = "auth failed"
    """The credentials were refused; final."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """The event that the store passes to a session listener; session_id is 0 unless CONNECTED."""

    kind: SessionKind
    session_id: int


Watcher: TypeAlias = Callable[[WatchEvent], None]
SessionListener: TypeAlias = Callable[[SessionEvent], None]


# Operations are not frozen, though no code changes one: a commit makes a thousand, and a frozen one takes six times as
# long to make.


@dataclass(slots=True)
class CreateOp:
    """Part of a multi: create a znode whose parent exists."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    acl: Acl | AclEntries = Acl.SECURE


@dataclass(slots=True)
class SetOp:
    """Part of a multi: write data if the znode has the version (-1 = any)."""

    path: str
    data: bytes
    version: int = -1


@dataclass(slots=True)
class DeleteOp:
    """Part of a multi: delete the znode if it has the version (-1 = any)."""

    path: str
    version: int = -1


@dataclass(slots=True)
class CheckOp:
    """Part of a multi: refuse all unless the znode exists and has the version (-1 = any)."""

    path: str
    version: int = -1


Op: TypeAlias = CreateOp | SetOp | DeleteOp | CheckOp


class ZkStore(Protocol):
    """ZooKeeper, as far as consumer groups need it. See the module for threads, watches and paths.

    Every method may raise ConnectionLostError (a write may then have been done), SessionExpiredError and
    NotPermittedError.
    """

    @property
    def session_id(self) -> int:
        """The session in use, as znodes show it in ephemeral_owner; 0 while there is none."""
        ...

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that the server granted."""
        ...

    def silence_s(self, session_id: int) -> float:
        """Return the seconds since this session sent the last request that the server has answered. Sends nothing.

        The session lived at that moment, and the server does not expire it until session_timeout_ms have passed since.
        Infinite for any session but the one in use. Without other requests than heartbeats the value grows up to a
        third of the session timeout and the time of an answer. Any thread may call this, a callback's too.
        """
        ...

    def start(self) -> None:
        """Connect; twice is harmless. Raises: ConnectTimeoutError, AuthenticationError, MissingChrootError."""
        ...

    def close(self) -> None:
        """End the session, which removes its ephemeral znodes; twice is harmless."""
        ...

    def add_session_listener(self, listener: SessionListener) -> None:
        """From now on call listener with every change of the session."""
        ...

    def remove_session_listener(self, listener: SessionListener) -> None:
        """No longer call listener; unknown ones are ignored."""
        ...

    def get_data(self, path: str, watcher: Watcher | None = None) -> Znode:
        """Read data and Stat, and watch the data. Raises: NoNodeError (then nothing is watched)."""
        ...

    def get_children(self, path: str, watcher: Watcher | None = None) -> tuple[str, ...]:
        """The names of the children, sorted; and watch them. Raises: NoNodeError (then nothing is watched)."""
        ...

    def list_children(self, path: str, watcher: Watcher | None = None) -> Children:
        """As get_children, with the count of their changes."""
        ...

    def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        """The Stat, or None; the watch is set either way and fires on creation, change and deletion."""
        ...

    def get_data_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Znode | None]:
        """Read many znodes in as few requests as the server allows; None where there is no znode.

        With a watcher each path is watched, the missing ones too, and the reads are pipelined. Order as asked.
        """
        ...

    def get_children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """The children of many znodes, sorted, in as few requests as the server allows; None = no such znode."""
        ...

    def exists_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Stat | None]:
        """As exists, for many paths; pipelined when watched."""
        ...

    def read_acls(self, paths: Sequence[str]) -> list[AclEntries | None]:
        """The ACL of each znode, pipelined; None where there is no znode, or where these credentials may not see it."""
        ...

    def watch_data_many(self, paths: Sequence[str], watcher: Watcher, since: int) -> None:
        """Watch the data of many existing znodes without reading them, in as few requests as they fit in.

        since: a zxid. The watcher fires at once for each that does not exist, or was written after it.
        """
        ...

    def create(
        self,
        path: str,
        data: bytes | None,
        *,
        ephemeral: bool = False,
        make_parents: bool = False,
        acl: Acl | AclEntries = Acl.SECURE,
    ) -> int:
        """Create a znode; make_parents creates missing persistent parents, without data, before it.

        Returns: the transaction (zxid) that created it.
        Raises: NodeExistsError; NoNodeError if the parent is missing.
        """
        ...

    def ensure_path(self, path: str, *, acl: Acl | AclEntries = Acl.SECURE) -> None:
        """Create a persistent znode without data, and its parents; existing ones are left as they are."""
        ...

    def set_data(self, path: str, data: bytes, version: int = -1) -> Stat:
        """Write the data. Raises: NoNodeError, BadVersionError."""
        ...

    def delete(self, path: str, version: int = -1) -> None:
        """Delete the znode. Raises: NoNodeError, BadVersionError, NotEmptyError."""
        ...

    def multi(self, ops: Sequence[Op], *, session_id: int | None = None) -> int:
        """Carry out all operations or none.

        Returns: the zxid of the transaction, which is the mzxid of all that it created or set; 0 without operations.
        A znode that was created has version 0 then, and one that was set in a version has the next one.
        session_id: refuse with SessionExpiredError when the store has another session by now, so that what was
        decided in a dead session cannot be written in its successor.
        Raises: MultiFailedError naming the operation that failed; ValueError if the request would be larger than
        max_multi_bytes.
        """
        ...

    @property
    def max_multi_bytes(self) -> int:
        """The largest multi that the server takes, as estimated by multi_size."""
        ...


def full_path(chroot: str, path: str) -> str:
    """The path on the server. Raises: ValueError if the path is not absolute."""
    if not path.startswith("/"):
        msg = f"{path!r} is no absolute path"
        raise ValueError(msg)
    return (chroot + path.rstrip("/")) or "/"


def with_parents(path: str) -> list[str]:
    """The paths of a znode's parents, the uppermost first, then its own; none for "/". Raises: as full_path."""
    names = [name for name in full_path("", path).split("/") if name]
    return ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]


def multi_size(op: Op) -> int:
    """Upper estimate of an operation's bytes in a request, to cut big plans below max_multi_bytes.

    9 bytes of header, the path with its length (with 64 to spare for a chroot), the data with its length, flags and
    one ACL entry.
    """
    data = getattr(op, "data", None)
    return 9 + 4 + 64 + len(op.path.encode()) + 4 + len(data or b"") + 4 + 48
