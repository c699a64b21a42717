"""Counts the reads from ZooKeeper, and limits their pace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings
from zk_layout.store import Children, Stat, Watcher, Znode


class CountedReads:
    """The number of znodes read so far, and of the batches that read them."""

    def __init__(self) -> None:
        self.znodes = 0
        self.batches = 0

    def note(self, znodes: int) -> None:
        """Count one batch of this many reads."""
        self.znodes += znodes
        self.batches += 1


class CountingKazooStore(KazooStore):
    """A KazooStore whose reads are counted in `reads`."""

    def __init__(self, settings: ZkSettings, reads: CountedReads) -> None:
        super().__init__(settings)
        self.reads = reads

    def get_data(self, path: str, watcher: Watcher | None = None) -> Znode:
        """As KazooStore's."""
        self.reads.note(1)
        return super().get_data(path, watcher)

    def get_children(self, path: str, watcher: Watcher | None = None) -> tuple[str, ...]:
        """As KazooStore's."""
        self.reads.note(1)
        return super().get_children(path, watcher)

    def list_children(self, path: str, watcher: Watcher | None = None) -> Children:
        """As KazooStore's."""
        self.reads.note(1)
        return super().list_children(path, watcher)

    def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        """As KazooStore's."""
        self.reads.note(1)
        return super().exists(path, watcher)

    def get_data_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Znode | None]:
        """As KazooStore's."""
        self.reads.note(len(paths))
        return super().get_data_many(paths, watcher)

    def get_children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """As KazooStore's."""
        self.reads.note(len(paths))
        return super().get_children_many(paths)


class Pace:
    """The pace of reads: below `per_second` znodes a second on average. Call `keep` between two batches.

    now: seconds; wait: pauses for the given seconds, or less if the exporter is about to end.
    """

    def __init__(self, per_second: float, now: Callable[[], float], wait: Callable[[float], None]) -> None:
        self._per_second = per_second
        self._now = now
        self._wait = wait
        self._began = now()
        self._at_start = 0

    def begin(self, znodes: int) -> None:
        """Begin a refresh. The argument is the number of reads before it."""
        self._began, self._at_start = self._now(), znodes

    def keep(self, znodes: int) -> None:
        """Pause until this number of reads is within the limit."""
        due = self._began + (znodes - self._at_start) / self._per_second
        pause = due - self._now()
        if pause > 0:
            self._wait(pause)
