"""Finds topics that no test created. With Kafka's defaults, a broker creates a topic when a client asks about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.sandbox.servers.ports import accepts_connections
from zk_layout.errors import ConnectTimeoutError, MissingChrootError, NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

_OF_BROKERS = {"__consumer_offsets", "__transaction_state"}
"""A question for a coordinator creates these topics with any setting of the broker; test_brokers_asked checks them."""


_created: dict[str, set[str]] = defaultdict(set)
"""{zookeeper.connect: topics that tests created}."""


def note_topic(kafka: EmbeddedKafka, topic: str) -> None:
    """Note a topic that a test creates without EmbeddedKafka.create_topic."""
    _created[kafka.zookeeper_connect].add(topic)


@contextmanager
def no_topic_but_those_of_tests() -> Iterator[None]:
    """In the with block, check each cluster at its close(): it has only topics that a test created.

    A topic that EmbeddedKafka.delete_topic deleted must not exist again. Raises: AssertionError, from close().
    """
    create, delete, close = EmbeddedKafka.create_topic, EmbeddedKafka.delete_topic, EmbeddedKafka.close

    def create_and_note(
        self: EmbeddedKafka,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        note_topic(self, name)
        create(self, name, partitions, replication_factor, config, timeout_s)

    def delete_and_note(self: EmbeddedKafka, name: str, timeout_s: float = 60.0) -> None:
        delete(self, name, timeout_s)
        _created[self.zookeeper_connect].discard(name)

    def look_and_close(self: EmbeddedKafka) -> None:
        connect = self.zookeeper_connect if self.brokers else ""
        try:
            uncalled = topics_there(connect) - _created[connect] - _OF_BROKERS
        finally:
            close(self)
        assert not uncalled, f"brokers of Kafka {self.version} have topics that no test created: {sorted(uncalled)}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedKafka, "create_topic", create_and_note)
        patch.setattr(EmbeddedKafka, "delete_topic", delete_and_note)
        patch.setattr(EmbeddedKafka, "close", look_and_close)
        yield


def topics_there(connect: str) -> set[str]:
    """Return the topics; none if no server listens any more, or if none answers, as without a quorum."""
    hosts = connect.partition("/")[0]
    if not any(accepts_connections(int(host.rpartition(":")[2])) for host in hosts.split(",") if host):
        return set()
    store = KazooStore(ZkSettings(connect, connection_timeout_ms=5_000))
    try:
        store.start()
        return set(store.get_children("/brokers/topics"))
    except (NoNodeError, MissingChrootError, ConnectTimeoutError):
        return set()
    finally:
        store.close()
