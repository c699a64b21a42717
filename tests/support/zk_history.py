"""All writes of a ZooKeeper server, in order, from its transaction log.

A watch tells only that a znode changed, and a read returns only the present data. The log has each transaction, with
its zxid, its time and its session. The server writes to it before it answers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILE_HEADER_BYTES = 16
_CREATIONS = {1, 15, 19, 21}
"""create, create2, createContainer, createTTL: path, data, ACLs; in the first two an "is ephemeral" follows."""
_WITH_EPHEMERALS = {1, 15}
_DELETE, _SET_DATA, _MULTI, _CLOSE_SESSION, _ERROR = 2, 5, 14, -11, -1
_DELETE_CONTAINER = 20


@dataclass(frozen=True, slots=True)
class Change:
    """The creation, change or deletion of one znode. data: None = deleted. at: seconds since 1970, server's clock."""

    zxid: int
    at: float
    session: int
    path: str
    data: bytes | None


class ZkHistory:
    """The changes of the server with this dataLogDir."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "version-2"

    def below(self, path: str) -> dict[str, list[Change]]:
        """Return {path: its changes in order} of every znode that ever was below a path."""
        found: dict[str, list[Change]] = {}
        for change in self.changes():
            if change.path.startswith(f"{path}/"):
                found.setdefault(change.path, []).append(change)
        return found

    def changes(self) -> Iterator[Change]:
        """Yield all changes, in order; the end of a session deletes its ephemeral znodes."""
        ephemerals: dict[int, set[str]] = {}
        for file in sorted(self._folder.glob("log.*"), key=lambda file: int(file.suffix[1:], 16)):
            for session, zxid, at, kind, body in _transactions(file.read_bytes()):
                if kind == _CLOSE_SESSION:
                    for path in sorted(ephemerals.pop(session, ())):
                        yield Change(zxid, at, session, path, None)
                    continue
                for what, record in _parts(kind, body):
                    change = _change(zxid, at, session, what, record)
                    if change is None:
                        continue
                    for own in ephemerals.values():
                        own.discard(change.path)
                    if what in _WITH_EPHEMERALS and record.is_ephemeral():
                        ephemerals.setdefault(session, set()).add(change.path)
                    yield change


class _Record:
    """Reads the fields of a jute record one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(f"!{layout}", self._data, self._at)
        self._at += struct.calcsize(f"!{layout}")
        return values

    def buffer(self) -> bytes:
        (length,) = self.take("i")
        start, self._at = self._at, self._at + max(0, length)
        return self._data[start : self._at]

    def text(self) -> str:
        return self.buffer().decode()

    def is_ephemeral(self) -> bool:
        """Read on after the path and the data of a creation. Returns: whether the znode is ephemeral."""
        for _ in range(max(0, self.take("i")[0])):
            self.take("i")
            self.buffer(), self.buffer()
        return self.take("?") == (True,)


def _transactions(log: bytes) -> Iterator[tuple[int, int, float, int, bytes]]:
    """Yield (session, zxid, time, type, record). Zeros fill the file up, and its last entry may be incomplete."""
    at = _FILE_HEADER_BYTES
    while at + 12 <= len(log):
        _, length = struct.unpack_from("!qi", log, at)
        end = at + 12 + length
        if length == 0 or end >= len(log) or log[end] != ord("B"):
            return
        session, _, zxid, ms, kind = struct.unpack_from("!qiqqi", log, at + 12)
        yield session, zxid, ms / 1000, kind, log[at + 12 + 32 : end]
        at = end + 1


def _parts(kind: int, body: bytes) -> Iterator[tuple[int, _Record]]:
    """Yield the transaction, or the parts of a multi; none of a failed multi, which has an error in it."""
    record = _Record(body)
    if kind != _MULTI:
        yield kind, record
        return
    (count,) = record.take("i")
    parts = [(record.take("i")[0], _Record(record.buffer())) for _ in range(count)]
    if all(part != _ERROR for part, _ in parts):
        yield from parts


def _change(zxid: int, at: float, session: int, kind: int, record: _Record) -> Change | None:
    if kind in _CREATIONS or kind == _SET_DATA:
        return Change(zxid, at, session, record.text(), record.buffer())
    if kind in (_DELETE, _DELETE_CONTAINER):
        return Change(zxid, at, session, record.text(), None)
    return None
