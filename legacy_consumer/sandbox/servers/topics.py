"""Creates, enlarges and deletes topics the way Kafka's own tools did until 2.x: by writing znodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from zk_layout.codecs import decode_partition_state, decode_topic, encode_topic, encode_topic_config
from zk_layout.errors import ConfigError, MultiFailedError
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import TopicAssignment, TopicConfig
from zk_layout.paths import BrokerIdPath, DeleteTopicPath, PartitionStatePath, TopicConfigPath, TopicPath
from zk_layout.settings import ZkSettings
from zk_layout.store import CreateOp, ZkStore

_LEGAL_NAME = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")
_CONNECTION_TIMEOUT_MS = 15_000
_MOST_REPLICAS = 30_000
"""The most replicas of one topic: its znode names them all, and holds 1 MB."""


class TopicZnodes:
    """The embedded cluster's access to ZooKeeper, for the length of one connection."""

    def __init__(self, store: ZkStore, chroot: str) -> None:
        self._store = store
        self._chroot = chroot

    def is_registered(self, broker_id: int) -> bool:
        """Return whether the broker's ephemeral znode is there."""
        return self._store.exists(self._chroot + BrokerIdPath(broker_id).path) is not None

    def topic_is_gone(self, topic: str) -> bool:
        """Return whether nothing is left of a deleted topic, so that one of that name can be created."""
        paths = (TopicPath(topic), TopicConfigPath(topic), DeleteTopicPath(topic))
        return not any(self._store.exists_many([self._chroot + path.path for path in paths]))

    def create_topic(self, topic: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        """Write a topic's configuration and its replicas; the controller does the rest.

        Raises: NodeExistsError if there is such a topic, or one that is being deleted.
        """
        replicas = TopicAssignment({partition: tuple(brokers) for partition, brokers in assignment.items()})
        try:
            self._store.multi(
                [
                    CreateOp(self._chroot + TopicConfigPath(topic).path, encode_topic_config(TopicConfig(config))),
                    CreateOp(self._chroot + TopicPath(topic).path, encode_topic(replicas)),
                ]
            )
        except MultiFailedError as error:
            raise error.cause from error

    def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Add partitions with their replicas, leaving the others as they are. Raises: NoNodeError, BadVersionError."""
        path = self._chroot + TopicPath(topic).path
        znode = self._store.get_data(path)
        before = decode_topic(path, znode.data)
        after = TopicAssignment(
            {**before.partitions, **{partition: tuple(brokers) for partition, brokers in added.items()}},
            before.version,
            before.topic_id,
            before.adding_replicas,
            before.removing_replicas,
        )
        self._store.set_data(path, encode_topic(after), znode.stat.version)

    def partitions(self, topic: str) -> Mapping[int, tuple[int, ...]]:
        """{partition: replica broker ids}. Raises: NoNodeError."""
        path = self._chroot + TopicPath(topic).path
        return decode_topic(path, self._store.get_data(path).data).partitions

    def delete_topic(self, topic: str) -> None:
        """Ask the controller to delete the topic. Raises: NodeExistsError if it is asked already."""
        self._store.create(self._chroot + DeleteTopicPath(topic).path, None)

    def leaders(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Return {partition: leader's broker id} of the partitions that have a leader."""
        paths = [self._chroot + PartitionStatePath(topic, partition).path for partition in partitions]
        states = {
            partition: decode_partition_state(path, znode.data).leader
            for partition, path, znode in zip(partitions, paths, self._store.get_data_many(paths), strict=True)
            if znode is not None
        }
        return {partition: leader for partition, leader in states.items() if leader >= 0}


@contextmanager
def topic_znodes(connect: str, chroot: str) -> Iterator[TopicZnodes]:
    """Connect for a moment: a lasting connection would change the counts of tests and benchmarks.

    The connection has no chroot, since a broker creates the chroot later.
    Raises: ConnectTimeoutError.
    """
    store = KazooStore(ZkSettings(connect=connect, connection_timeout_ms=_CONNECTION_TIMEOUT_MS))
    store.start()
    try:
        yield TopicZnodes(store, chroot)
    finally:
        store.close()


def spread_replicas(partitions: range, brokers: Sequence[int], replication_factor: int) -> dict[int, tuple[int, ...]]:
    """{partition: broker ids}, the preferred leader first, leaders and followers going round.

    Raises: ConfigError if there are fewer brokers than replicas, or more replicas than a znode can hold.
    """
    if not 1 <= replication_factor <= len(brokers):
        raise ConfigError(
            "replication factor", replication_factor, f"must be 1 to {len(brokers)}, the number of brokers"
        )
    most = _MOST_REPLICAS // replication_factor
    if partitions.stop > most:
        raise ConfigError("partitions", partitions.stop, f"must be at most {most}: a znode holds no more replicas")
    return {
        partition: tuple(brokers[(partition + replica) % len(brokers)] for replica in range(replication_factor))
        for partition in partitions
    }


def check_topic_name(topic: str) -> None:
    """Raises: ConfigError for a name that brokers refuse."""
    if not _LEGAL_NAME.fullmatch(topic):
        raise ConfigError("topic", topic, "a topic's name has 1 to 249 of the characters a-z A-Z 0-9 . _ -")
