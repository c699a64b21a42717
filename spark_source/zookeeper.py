"""A connection to ZooKeeper for as long as a plan or a task needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from legacy_consumer.config import ClusterConfig
from zk_layout.kazoo_store import KazooStore
from zk_layout.store import ZkStore


@contextmanager
def connected(config: ClusterConfig) -> Iterator[ZkStore]:
    """A started store whose session, threads and sockets end with the block, also by an error.

    Raises: ConnectTimeoutError after zookeeper.connection.timeout.ms, AuthenticationError, MissingChrootError.
    """
    store = KazooStore(config.zk_settings())
    try:
        store.start()
        yield store
    finally:
        store.close()
