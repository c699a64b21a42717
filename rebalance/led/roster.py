"""The leader's readings of the members' znodes: each znode once for each write."""

from __future__ import annotations

from functools import partial

from rebalance.led.journal import readable
from rebalance.led.records import Joining, decode_joining, member_path, members_path
from rebalance.led.watched import WatchedZnodes
from zk_layout.errors import NoNodeError, NotPermittedError
from zk_layout.loggers import safe_logger
from zk_layout.store import Znode

logger = safe_logger(__name__)


class Roster:
    """The members' znodes, as one leader reads them.

    watched: the leader's watched znodes, to which the list of members and each member's znode are added. name: the
    leader's consumer id.
    """

    def __init__(self, watched: WatchedZnodes, group: str, name: str) -> None:
        self._watched = watched
        self._group = group
        self._name = name
        self._decoded: dict[str, tuple[Znode, Joining | None]] = {}
        """{path: the member's znode, and its data if it is readable}."""
        self._closed: set[str] = set()
        """The znodes that an ACL forbids to read."""

    def read(self) -> dict[str, Joining]:
        """Return {member id: its offer} of the members whose znodes can be read. Raises: ZooKeeper's errors."""
        try:
            names = self._watched.children(members_path(self._group))
        except NoNodeError:
            names = ()
        paths = [member_path(self._group, name) for name in names]
        before, self._decoded = self._decoded, {}
        joined: dict[str, Joining] = {}
        for name, path, znode in zip(names, paths, self._read(paths), strict=True):
            if znode is None or not znode.stat.ephemeral_owner:
                continue
            known, joining = before.get(path, (None, None))
            if znode is not known:
                joining = readable(self._name, partial(decode_joining, path, name, znode.data, znode.stat.mzxid))
            self._decoded[path] = znode, joining
            if joining is not None and joining.session_id == znode.stat.ephemeral_owner:
                joined[joining.member_id] = joining
        return joined

    def _read(self, paths: list[str]) -> list[Znode | None]:
        """Read all of them; None for a znode that an ACL forbids to read, too."""
        try:
            znodes = self._watched.read(paths)
            self._closed.clear()
        except NotPermittedError:
            znodes = [self._read_one(path) for path in paths]
        return znodes

    def _read_one(self, path: str) -> Znode | None:
        try:
            (znode,) = self._watched.read([path])
        except NotPermittedError as error:
            if path not in self._closed:
                logger.warning("%s: leaves out %s", self._name, error)
            self._closed.add(path)
            return None
        return znode
