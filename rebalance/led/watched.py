"""The data of watched znodes: each is read again only after its watch has fired.

A watch fires before any read of its store can see the change (zk_layout.store). So the data is valid as long as its
watch is silent, and a member that needs it again sends no request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from zk_layout.store import WatchEvent, WatchKind, ZkStore, Znode


class WatchedZnodes:
    """The watched znodes of one member. Used by the coordinator's thread alone; watches fire on threads of the store.

    on_change: called when one of them may have changed.
    """

    def __init__(self, store: ZkStore, on_change: Callable[[], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._fired: deque[str] = deque()
        self._seen: dict[str, Znode | None] = {}
        self._children: dict[str, tuple[str, ...]] = {}
        self.reads = 0
        """How often ZooKeeper has answered."""

    def read(self, paths: Sequence[str]) -> list[Znode | None]:
        """Return the znodes in the order of paths; None where there is no znode. Raises: ZooKeeper's errors."""
        self._forget_fired()
        missing = [path for path in paths if path not in self._seen]
        if missing:
            self._seen.update(zip(missing, self._store.get_data_many(missing, self._fire), strict=True))
            self.reads += 1
        return [self._seen[path] for path in paths]

    def children(self, path: str) -> tuple[str, ...]:
        """Return the children's names, sorted. Raises: NoNodeError, and then nothing is watched; ZooKeeper's errors."""
        self._forget_fired()
        if path not in self._children:
            self._children[path] = self._store.get_children(path, self._fire)
        return self._children[path]

    def forget(self) -> None:
        """Read everything again, because an error says that something is not as it was believed to be."""
        self._seen.clear()
        self._children.clear()

    def _forget_fired(self) -> None:
        while self._fired:
            path = self._fired.popleft()
            self._seen.pop(path, None)
            self._children.pop(path, None)

    def _fire(self, event: WatchEvent) -> None:
        self._fired.append(event.path)
        if event.kind is not WatchKind.LOST:
            self._on_change()
