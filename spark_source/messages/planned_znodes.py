"""The znodes that executors need, in the plan: the brokers, and the leaders of partitions.

Executors therefore need no ZooKeeper, and a task needs no session. If a leader has moved by the time a task runs, the
brokers report the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

from zk_layout.closed_znodes import read_each
from zk_layout.codecs import encode_topic
from zk_layout.errors import ConnectionLostError, NotPermittedError
from zk_layout.model import TopicAssignment, TopicPartition
from zk_layout.paths import BrokerIdPath, BrokerIdsPath, PartitionStatePath, TopicPath, broker_ids
from zk_layout.store import Stat, Watcher, ZkStore, Znode

Znodes = Mapping[str, bytes]
"""{path: data}. Pickled to the executors."""

_NO_STAT = Stat(0, 0, 0, 0, 0, 0, 0, 0)


def read_znodes(store: ZkStore, partitions: Sequence[TopicPartition]) -> dict[str, bytes]:
    """Return the brokers' registrations that no ACL hides, and the states of these partitions.

    Raises: NoNodeError, ZooKeeperError.
    """
    brokers = [BrokerIdPath(number).path for number in broker_ids(store.get_children(BrokerIdsPath().path))]
    paths = [*brokers, *(PartitionStatePath(*tp).path for tp in partitions)]
    found: dict[str, bytes] = {}
    for number, (path, znode) in enumerate(zip(paths, read_each(store, paths), strict=True)):
        if isinstance(znode, NotPermittedError):
            if number >= len(brokers):
                raise znode
        elif znode is not None and znode.data is not None:
            found[path] = znode.data
    return found


def by_task(znodes: Znodes, tasks: Iterable[Collection[TopicPartition]]) -> Iterator[dict[str, bytes]]:
    """Yield the znodes for each task: all brokers, and the states of the task's own partitions."""
    prefix = f"{BrokerIdsPath().path}/"
    brokers = {path: data for path, data in znodes.items() if path.startswith(prefix)}
    for partitions in tasks:
        states = (PartitionStatePath(*tp).path for tp in partitions)
        yield {**brokers, **{path: znodes[path] for path in states if path in znodes}}


class PlannedStore:
    """A ZkStore over the znodes of the plan, with the methods that a read needs.

    It returns each leader once, then raises ConnectionLostError: a second question for a leader means that the first
    answer was wrong, and the fetcher must then ask the brokers.
    """

    def __init__(self, znodes: Znodes, partitions: Collection[TopicPartition]) -> None:
        """partitions: the partitions of the task; a partition without a leader has no state among the znodes."""
        self._znodes = znodes
        self._told: set[str] = set()
        self._topics = _topics_of(partitions)

    def as_store(self) -> ZkStore:
        """Return this object as a ZkStore; a read calls none of the methods that it lacks."""
        return cast("ZkStore", self)

    def get_children(self, path: str, watcher: Watcher | None = None) -> tuple[str, ...]:  # noqa: ARG002
        """Return the ids of the brokers."""
        names = [known.removeprefix(f"{path}/") for known in self._znodes if known.startswith(f"{path}/")]
        return tuple(sorted(name for name in names if "/" not in name))

    def get_data_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Znode | None]:  # noqa: ARG002
        """Return registrations, topics with the partitions of the task, and each state once.

        Raises: ConnectionLostError for all else.
        """
        states = {path for path in paths if path.endswith("/state")}
        found = {**self._topics, **self._znodes}
        if states & self._told or any(path not in found for path in paths if path not in states):
            raise ConnectionLostError("tasks do not ask ZooKeeper")
        self._told |= states
        return [Znode(found[path], _NO_STAT) if path in found else None for path in paths]

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _topics_of(partitions: Collection[TopicPartition]) -> dict[str, bytes]:
    """Return the znodes of these topics, each with the given partitions."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return {
        TopicPath(topic).path: encode_topic(TopicAssignment(dict.fromkeys(own, ()), version=1))
        for topic, own in numbers.items()
    }
