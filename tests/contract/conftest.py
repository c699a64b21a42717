"""One server of each version for the whole run; the stores of each test end with it."""

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
    """Gives the server of a version, started when it is first asked for."""
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
    """A started store."""
    made = backend.new_store()
    made.start()
    return made


@pytest.fixture
def other(backend: Backend) -> ZkStore:
    """Another client of the same server."""
    made = backend.new_store()
    made.start()
    return made


@pytest.fixture
def root(store: ZkStore) -> str:
    """A znode of this test alone."""
    path = f"/{uuid.uuid4().hex}"
    store.create(path, None)
    return path


@pytest.fixture
def kazoo(zookeeper: Callable[[str], EmbeddedZooKeeper]) -> Iterator[KazooBackend]:
    """The newest ZooKeeper, for what only the real store does."""
    made = KazooBackend(zookeeper("3.9").connect)
    yield made
    made.close()
