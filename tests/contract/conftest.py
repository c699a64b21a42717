"""One server of each version for the whole run; each test closes its own stores."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from legacy_consumer.embedded import EmbeddedZooKeeper
from tests.contract.backends import Backend, KazooBackend, MemoryBackend
from zk_layout.store import ZkStore

REAL = [
    pytest.param("3.9", marks=pytest.mark.zookeeper, id="zookeeper-3.9"),
    pytest.param("3.5", marks=pytest.mark.zookeeper, id="zookeeper-3.5.9"),
    pytest.param("3.4", marks=pytest.mark.zookeeper, id="zookeeper-3.4.10"),
]


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[Callable[[str], EmbeddedZooKeeper]]:
    """Return a function that returns the server of a version, and starts it at the first call."""
    with ExitStack() as running:
        servers: dict[str, EmbeddedZooKeeper] = {}

        def server(version: str) -> EmbeddedZooKeeper:
            if version not in servers:
                servers[version] = running.enter_context(EmbeddedZooKeeper(version=version))
            return servers[version]

        yield server


@pytest.fixture(params=["memory", *REAL])
def backend(request: pytest.FixtureRequest, zookeeper: Callable[[str], EmbeddedZooKeeper]) -> Iterator[Backend]:
    made: Backend = MemoryBackend() if request.param == "memory" else KazooBackend(zookeeper(request.param).connect)
    yield made
    made.close()


@pytest.fixture
def store(backend: Backend) -> ZkStore:
    """Return a started store."""
    made = backend.new_store()
    made.start()
    return made


@pytest.fixture
def other(backend: Backend) -> ZkStore:
    """Return a started store of another client of the same server."""
    made = backend.new_store()
    made.start()
    return made


@pytest.fixture
def root(store: ZkStore) -> str:
    """Create a znode for this test alone. Returns: its path."""
    path = f"/{uuid.uuid4().hex}"
    store.create(path, None)
    return path


@pytest.fixture
def kazoo(zookeeper: Callable[[str], EmbeddedZooKeeper]) -> Iterator[KazooBackend]:
    """Return the newest ZooKeeper, for tests of the real store only."""
    made = KazooBackend(zookeeper("3.9").connect)
    yield made
    made.close()
