"""The requests that KazooStore gives to kazoo beside kazoo's own, and the watches that kazoo calls for it.

kazoo serialises a request on its connection's thread, so a request can make a decision there, at the moment of sending.
The tables of kazoo_client.py list the names of kazoo that this file uses.
"""

# ruff: noqa: SLF001 - kazoo_client.py lists the private names of kazoo, and a test compares its list with this file

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kazoo.protocol.states import EventType, WatchedEvent

from zk_layout.multi_read import MULTI_READ, ReadKind, encode_multi_read
from zk_layout.multi_write import MULTI_WRITE, NOTHING
from zk_layout.signals import Flag
from zk_layout.store import WatchEvent, WatchKind
from zk_layout.weak_watchers import HeldWatcher, watcher_of

_INT = struct.Struct(">i")
_LONG_INT = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch that kazoo calls. Two watches of one watcher on the same path are equal, so kazoo's sets keep one."""

    kind: str
    path: str
    watcher: HeldWatcher
    stopping: Flag = field(compare=False)

    def __call__(self, event: WatchedEvent) -> None:
        """Call the watcher; kazoo calls this when the watch fires."""
        watcher = watcher_of(self.watcher)
        if watcher is not None and not self.stopping.is_set():
            watcher(WatchEvent(_WATCH_KINDS[event.type], self.path))


_WATCH_KINDS = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
    EventType.NONE: WatchKind.LOST,
}


class Write:
    """A multi that decides at the moment of sending whether it may still be sent; otherwise it is sent empty.

    body: the result of encode_multi. session_id: the only session in which it may be sent, or None. Every write is a
    multi for this reason. The asking thread decodes the reply, not the thread that keeps the session.
    """

    type: ClassVar[int] = MULTI_WRITE

    def __init__(self, body: bytes, session_id: int | None) -> None:
        self.body = body
        self.session_id = session_id
        self.client: Any = None
        self.given_up = False
        self.refused = False
        self.zxid = 0

    def serialize(self) -> bytes:
        """Called by kazoo as it sends."""
        session_id, _ = self.client.client_id or (None, b"")
        self.refused = self.given_up or self.session_id not in (None, session_id)
        return NOTHING if self.refused else self.body

    def deserialize(self, reply: bytes, offset: int) -> list[bytes]:
        """Return the undecoded reply in a list, because kazoo removes the chroot from texts in a reply."""
        # kazoo has just read this zxid from the header of this reply
        self.zxid = self.client.last_zxid
        return [reply[offset:]]

    def __repr__(self) -> str:
        return f"multi of {len(self.body)} bytes"


class ReadMany:
    """A multi of reads, which kazoo lacks. The asking thread decodes the reply, not the connection's thread."""

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


class WatchMany:
    """The request by which a client sets its watches again on a new connection; kazoo lacks it.

    The server fires at once the watches of znodes that are missing or have changed since a zxid, before it replies. So
    kazoo must know the watchers when it sends the request.
    """

    type: ClassVar[int] = 101

    def __init__(self, watches: Mapping[str, Watch], since: int) -> None:
        self.client: Any = None
        self._watches = watches
        self._since = since

    def serialize(self) -> bytes:
        """Called by kazoo as it sends: the zxid, then the paths to watch for data, for existence, for children."""
        texts = [path.encode() for path in self._watches]
        for path, watch in self._watches.items():
            self.client._data_watchers[path].add(watch)
        return b"".join(
            (
                _LONG_INT.pack(self._since, len(texts)),
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
