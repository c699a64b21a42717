"""The znodes of an in-memory ZooKeeper: versions, ephemerals, all-or-nothing requests. No sessions, no threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from zk_layout.errors import (
    BadVersionError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ZooKeeperError,
)
from zk_layout.store import Acl, AclEntries, CheckOp, Children, CreateOp, DeleteOp, Op, SetOp, Stat, WatchKind, Znode


class WatchOn(Enum):
    """The two kinds of watches on a path; exists sets the one on data."""

    DATA = "data"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class Change:
    """A change that fires the watches of one kind on one path."""

    on: WatchOn
    path: str
    kind: WatchKind


class _Node(NamedTuple):
    # a tuple, because every write of a simulation makes new nodes, and a tuple is quick to make
    data: bytes | None
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    acl: Acl | AclEntries = Acl.OPEN
    version: int = 0
    ephemeral_owner: int = 0
    child_changes: int = 0

    def stat(self, num_children: int) -> Stat:
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            self.ephemeral_owner,
            len(self.data or b""),
            num_children,
            self.child_changes,
        )


class MemoryTree:
    """Znodes by path. Every request that writes takes the next zxid and the wall clock's time.

    wall_ms: milliseconds since 1970, for ctime and mtime.
    """

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self.zxid = 0
        self._wall_ms = wall_ms
        now = wall_ms()
        self._nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0, now, now)}
        self._children: dict[str, set[str]] = {"/": set()}
        self._undo: list[tuple[str, _Node | None]] = []

    def read(self, path: str) -> Znode:
        """Return a znode's data and Stat. Raises: NoNodeError."""
        node = self._node(path)
        return Znode(node.data, self._stat(path))

    def children(self, path: str) -> Children:
        """Return the names of a znode's children, sorted. Raises: NoNodeError."""
        node = self._node(path)
        return Children(tuple(sorted(self._children[path])), node.child_changes, node.czxid)

    def acl(self, path: str) -> Acl | AclEntries:
        """Return the ACL with which the znode was created. Raises: NoNodeError."""
        return self._node(path).acl

    def ephemerals(self, session_id: int) -> list[str]:
        """The paths that the session owns, sorted."""
        return sorted(path for path, node in self._nodes.items() if node.ephemeral_owner == session_id)

    def write(self, ops: Sequence[Op], session_id: int) -> tuple[list[Stat | None], list[Change]]:
        """Carry out all operations or none.

        Returns: the Stat of the znode after each CreateOp and SetOp, None for the others; and what changed, in order.
        Raises: MultiFailedError; nothing was changed then.
        """
        self._undo.clear()
        self.zxid += 1
        stats: list[Stat | None] = []
        changes: list[Change] = []
        for index, op in enumerate(ops):
            try:
                stats.append(self._apply(op, session_id, changes))
            except ZooKeeperError as cause:
                self._roll_back()
                raise MultiFailedError(index, op.path, cause) from cause
        return stats, changes

    def _roll_back(self) -> None:
        for path, node in reversed(self._undo):
            parent, name = _split(path)
            if node is None:
                del self._nodes[path], self._children[path]
                self._children[parent].discard(name)
                continue
            if path not in self._nodes:
                self._children[path] = set()
                self._children[parent].add(name)
            self._nodes[path] = node

    def _stat(self, path: str) -> Stat:
        return self._nodes[path].stat(len(self._children[path]))

    def _node(self, path: str) -> _Node:
        try:
            return self._nodes[path]
        except KeyError:
            raise NoNodeError(path) from None

    def _apply(self, op: Op, session_id: int, changes: list[Change]) -> Stat | None:
        match op:
            case CreateOp():
                return self._create(op, session_id, changes)
            case SetOp(path, data, version):
                node = self._at_version(path, version)
                self._undo.append((path, node))
                self._nodes[path] = node._replace(
                    data=data,
                    version=(node.version + 1 + 2**31) % 2**32 - 2**31,
                    mzxid=self.zxid,
                    mtime_ms=self._wall_ms(),
                )
                changes.append(Change(WatchOn.DATA, path, WatchKind.CHANGED))
                return self._stat(path)
            case DeleteOp(path, version):
                self._delete(path, version, changes)
            case CheckOp(path, version):
                self._at_version(path, version)
        return None

    def _at_version(self, path: str, version: int) -> _Node:
        node = self._node(path)
        if version not in (-1, node.version):
            raise BadVersionError(path)
        return node

    def _create(self, op: CreateOp, session_id: int, changes: list[Change]) -> Stat:
        parent_path, name = _split(op.path)
        try:
            parent = self._node(parent_path)
        except NoNodeError:
            raise NoNodeError(op.path) from None
        if op.path in self._nodes:
            raise NodeExistsError(op.path)
        if parent.ephemeral_owner:
            raise ZooKeeperError(f"{op.path}: an ephemeral znode cannot have children")
        now = self._wall_ms()
        owner = session_id if op.ephemeral else 0
        self._undo.append((op.path, None))
        self._nodes[op.path] = _Node(op.data, self.zxid, self.zxid, now, now, op.acl, 0, owner)
        self._children[op.path] = set()
        self._children[parent_path].add(name)
        self._count_change(parent_path)
        changes.append(Change(WatchOn.DATA, op.path, WatchKind.CREATED))
        changes.append(Change(WatchOn.CHILDREN, parent_path, WatchKind.CHILDREN))
        return self._stat(op.path)

    def _delete(self, path: str, version: int, changes: list[Change]) -> None:
        node = self._at_version(path, version)
        if path == "/":
            raise ZooKeeperError("/: the root cannot be deleted")
        if self._children[path]:
            raise NotEmptyError(path)
        parent_path, name = _split(path)
        self._undo.append((path, node))
        del self._nodes[path], self._children[path]
        self._children[parent_path].discard(name)
        self._count_change(parent_path)
        changes.append(Change(WatchOn.DATA, path, WatchKind.DELETED))
        changes.append(Change(WatchOn.CHILDREN, path, WatchKind.DELETED))
        changes.append(Change(WatchOn.CHILDREN, parent_path, WatchKind.CHILDREN))

    def _count_change(self, parent_path: str) -> None:
        parent = self._nodes[parent_path]
        self._undo.append((parent_path, parent))
        self._nodes[parent_path] = parent._replace(child_changes=parent.child_changes + 1)


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name
