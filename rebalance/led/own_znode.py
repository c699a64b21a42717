"""The znode with a member's strategies and owned partitions. Only the member writes it, so its data is not watched.

The member reads it only in doubt: in a new session, after an error, if the leader refuses the member, and if a
generation leaves the member out or names another write of the znode.
"""

from __future__ import annotations

from rebalance.led.permanent import delete_below
from rebalance.led.records import member_path
from rebalance.led.watched import WatchedZnodes
from zk_layout.errors import NodeExistsError
from zk_layout.loggers import safe_logger
from zk_layout.store import Stat, ZkStore

logger = safe_logger(__name__)


class OwnZnode:
    """The own znode of one member. Used by the coordinator's thread alone."""

    def __init__(self, store: ZkStore, watched: WatchedZnodes, group: str, consumer_id: str) -> None:
        self._store = store
        self._watched = watched
        self._path = member_path(group, consumer_id)
        self._stat: Stat | None = None
        self.is_doubted = True
        """Whether this member must read the znode before its next step."""

    def doubt(self) -> None:
        """Have the znode read again: another client may have deleted or replaced it."""
        self.is_doubted = True

    def compare(self, joined: int) -> bool:
        """Return whether the leader read what this member wrote last.

        joined: the transaction that wrote the data that the leader read. If it is later than this member's last write,
        another client wrote the data.
        """
        if self._stat is None:
            return False
        if joined > self._stat.mzxid:
            self.is_doubted = True
        return joined == self._stat.mzxid

    def stands(self, session_id: int) -> bool:
        """Return whether the znode is as this member wrote it last. Read only in doubt. Raises: ZooKeeper's errors."""
        if not self.is_doubted:
            return self._stat is not None
        (found,) = self._watched.read([self._path])
        before, self._stat = self._stat, None if found is None else found.stat
        is_anothers = self._stat is not None and self._stat.ephemeral_owner != session_id
        # of a session that will end, this member's former one or that of a member of its name; or of no session
        self.is_doubted = is_anothers
        return self._stat is not None and not is_anothers and self._stat == before

    def write(self, data: bytes, session_id: int) -> bool:
        """Write the znode; return whether that was possible.

        It is not if another session owns the znode, nor if a permanent znode stands there with too many below it.

        Raises: NoNodeError, BadVersionError; ZooKeeper's other errors.
        """
        if self._stat is not None and not self._stat.ephemeral_owner and not self._delete_permanent(self._stat):
            return False
        if self._stat is not None and self._stat.ephemeral_owner != session_id:
            return False
        if self._stat is not None:
            self._stat = self._store.set_data(self._path, data, self._stat.version)
            return True
        try:
            created = self._store.create(self._path, data, ephemeral=True, make_parents=True)
        except NodeExistsError:
            self.is_doubted = True
            return False
        stat = self._store.exists(self._path)
        if stat is None or stat.mzxid != created:
            self.is_doubted = True
            return False
        self._stat = stat
        return True

    def _delete_permanent(self, stat: Stat) -> bool:
        """Delete a znode of no session, which another client has created; return whether it is gone."""
        if not delete_below(self._store, self._path):
            return False
        self._store.delete(self._path, stat.version)
        self._stat = None
        logger.warning("%s was not ephemeral, so no member wrote it: I have deleted it", self._path)
        return True

    def delete(self, session_id: int) -> None:
        """Delete the znode if this session wrote it. Raises: ZooKeeper's errors."""
        mine, self._stat, self.is_doubted = self._stat, None, True
        if mine is None or mine.ephemeral_owner != session_id:
            return
        # Read just before: ZooKeeper has no operation that checks a znode's session, and each new znode has version 0.
        # Another session that takes the path within this round trip loses its znode.
        stat = self._store.exists(self._path)
        if stat is not None and stat.czxid == mine.czxid:
            self._store.delete(self._path, stat.version)
