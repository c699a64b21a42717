"""A connection to ZooKeeper for the time of a plan or a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from legacy_consumer.config import ClusterConfig
from zk_layout.kazoo_store import KazooStore
from zk_layout.store import ZkStore


@contextmanager
def connected(config: ClusterConfig) -> Iterator[ZkStore]:
    """Start a store; its session, threads and sockets end with the block, also after an error.

    Raises: ConnectTimeoutError after zookeeper.connection.timeout.ms, AuthenticationError, MissingChrootError.
    """
    store = KazooStore(config.zk_settings())
    try:
        store.start()
        yield store
    finally:
        store.close()
