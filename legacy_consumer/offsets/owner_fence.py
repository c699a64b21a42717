"""A part of a multi that lets it through only while partitions have no owner."""

from __future__ import annotations

from collections.abc import Iterable

from zk_layout.model import TopicPartition
from zk_layout.paths import OwnerPath, OwnersPath, TopicOwnersPath
from zk_layout.store import CreateOp, DeleteOp, Op


class NoOwnerFence:
    """Creates each owner znode and deletes it again, which fails if there is one.

    ZooKeeper creates nothing in a folder that does not exist. Then the folder itself is created and deleted: it fails
    if somebody has made the folder meanwhile, to claim a partition of it.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._missing: set[str] = set()
        """The topics whose folder of owner znodes does not exist."""
        self._all_missing = False
        """Whether the folder of those folders does not exist."""
        self._fenced: list[TopicPartition] = []

    def ops(self, partitions: Iterable[TopicPartition]) -> list[Op]:
        """The operations for the front of the multi."""
        fenced: dict[str, TopicPartition] = {}
        for tp in partitions:
            fenced.setdefault(self._path(tp), tp)
        self._fenced = [*fenced.values(), *reversed(fenced.values())]
        return [*(CreateOp(path, b"") for path in fenced), *(DeleteOp(path) for path in reversed(fenced))]

    def partition_at(self, index: int) -> TopicPartition:
        """Return the partition, or one of those, for which ops has this operation."""
        return self._fenced[index]

    def found(self, tp: TopicPartition) -> bool:
        """Note that what ops creates for this partition exists; returns whether that is its owner znode."""
        if self._all_missing:
            self._all_missing = False
        elif tp.topic in self._missing:
            self._missing.discard(tp.topic)
        else:
            return True
        return False

    def missed(self, tp: TopicPartition) -> bool:
        """Note that the folder does not exist in which ops creates something for this partition.

        Returns: whether that is the folder of the group.
        """
        if self._all_missing:
            return True
        self._all_missing = tp.topic in self._missing
        self._missing.add(tp.topic)
        return False

    def _path(self, tp: TopicPartition) -> str:
        if self._all_missing:
            return OwnersPath(self._group).path
        if tp.topic in self._missing:
            return TopicOwnersPath(self._group, tp.topic).path
        return OwnerPath(self._group, *tp).path
