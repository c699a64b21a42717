"""A cluster without its ZooKeeper: the znodes that fetchers read, made from the brokers' metadata.

Fetchers read /brokers/ids, the registrations below it, and the topics with the states of their partitions, all
through a ZkStore. This store answers these reads from the brokers' metadata, which it refreshes when they are older
than a second. All other code uses it like ZooKeeper. It is read-only.

No request creates a topic. A broker returns the addresses of the listener that got the request, so they match the
configured security protocol.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Sequence
from typing import Protocol

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.config.addresses import parse_address
from legacy_consumer.config.broker_hosts import BrokerHosts
from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, ConsumerClosedError, KafkaError
from legacy_consumer.fetching.cluster_metadata import ClusterMetadata, PartitionMetadata
from legacy_consumer.fetching.fetchers import loading, speaks_for_itself
from zk_layout.codecs import encode_topic
from zk_layout.errors import ConfigError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment
from zk_layout.paths import BrokerIdPath, BrokerIdsPath, PartitionStatePath, TopicPath
from zk_layout.store import Watcher, Znode

_FRESH_S = 1.0
_FIRST_WITH_ENDPOINTS = 2


class MetadataAsker(Protocol):
    """Asks one broker for metadata. Only one thread at a time may use it."""

    def ask(self, server: tuple[str, int], topics: Collection[str]) -> ClusterMetadata:
        """Return this broker's metadata of these topics, maybe of others too; no topic is created.

        Raises: BrokersUnavailableError, BrokerRefusedError.
        """
        ...

    def close(self) -> None:
        """Close the connection; twice is harmless."""
        ...


def parse_servers(text: object) -> tuple[tuple[str, int], ...]:
    """Parse `host:port[,host:port...]` into (host, port) pairs. Raises: ConfigError."""
    found: list[tuple[str, int]] = []
    for one in text.split(",") if isinstance(text, str) else [""]:
        address = parse_address(one.strip())
        if address is None:
            raise ConfigError("bootstrap.servers", text, "must be host:port[,host:port...]")
        found.append(address)
    return tuple(found)


def open_broker_store(config: ConsumerConfig, servers: Collection[tuple[str, int]]) -> BrokerStore:
    """Return the store of the cluster to which these brokers belong; it sends no request before the first read."""
    asker: MetadataAsker
    if speaks_for_itself(config):
        from legacy_consumer.fetching.columnar.metadata import MetadataAsker as ColumnarMetadataAsker

        asker = ColumnarMetadataAsker(config)
    else:
        with loading:
            from legacy_consumer.fetching.librdkafka import LibrdkafkaMetadataAsker

        asker = LibrdkafkaMetadataAsker(config)
    return BrokerStore(servers, asker, config.security_protocol, BrokerHosts(config.broker_hosts))


class BrokerStore(MemoryStore):
    """Implements ZkStore for readers, from any thread.

    hosts: the allowed addresses of brokers that other brokers name; servers, which the user named, are always allowed.
    """

    def __init__(
        self, servers: Collection[tuple[str, int]], asker: MetadataAsker, security_protocol: str, hosts: BrokerHosts
    ) -> None:
        super().__init__(MemoryZooKeeper())
        self._servers = tuple(servers)
        self._asker = asker
        self._protocol = security_protocol
        self._hosts = hosts
        self._asking = threading.Lock()
        self._others: list[tuple[str, int]] = []
        """The brokers' last known addresses; the broker that answered is the first."""
        self._brokers_told = float("-inf")
        self._topics_told: dict[str, float] = {}
        self._refused: dict[str, KafkaError] = {}
        self._is_over = False

    def start(self) -> None:
        """Send the first request. Raises: BrokersUnavailableError, BrokerRefusedError."""
        super().start()
        self._refresh([BrokerIdsPath().path])

    def close(self) -> None:
        """Close the connection; twice is harmless."""
        self._is_over = True
        self._asker.close()  # ends a request of another thread
        super().close()

    def get_data(self, path: str, watcher: Watcher | None = None) -> Znode:
        """See ZkStore. Raises: BrokersUnavailableError, BrokerRefusedError; FetchError for a refused topic."""
        self._refresh([path])
        place = TopicPath.parse(path)
        refused = self._refused.get(place.topic) if place is not None else None
        if refused is not None:
            raise refused.with_traceback(None)
        return super().get_data(path, watcher)

    def get_children(self, path: str, watcher: Watcher | None = None) -> tuple[str, ...]:
        """See ZkStore. Raises: as get_data."""
        self._refresh([path])
        return super().get_children(path, watcher)

    def get_data_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Znode | None]:
        """See ZkStore; None also for a topic that brokers refuse. Raises: as get_data, except FetchError."""
        self._refresh(paths)
        return super().get_data_many(paths, watcher)

    def _refresh(self, paths: Sequence[str]) -> None:
        places = [TopicPath.parse(path) or PartitionStatePath.parse(path) for path in paths]
        topics = {place.topic for place in places if place is not None}
        with self._asking:
            try:
                if not self._is_over:
                    self._ask_what_is_due(topics)
            finally:
                if self._is_over:
                    # the request may have connected again after close()
                    self._asker.close()

    def _ask_what_is_due(self, topics: Collection[str]) -> None:
        oldest = time.monotonic() - _FRESH_S
        due = {topic for topic in topics if self._topics_told.get(topic, oldest) <= oldest}
        if not due and self._brokers_told > oldest:
            return
        found = self._ask(due)
        self._note_brokers(found)
        for topic in sorted(due):
            self._note_topic(topic, found)

    def _ask(self, topics: Collection[str]) -> ClusterMetadata:
        errors: list[BrokersUnavailableError] = []
        for server in dict.fromkeys([*self._others, *self._servers]):
            if self._is_over:
                raise ConsumerClosedError
            try:
                found = self._asker.ask(server, topics)
                found.check()
            except BrokersUnavailableError as error:
                errors.append(error)
            else:
                others = [other for other in found.brokers.values() if other != server and self._hosts.has(*other)]
                self._others = [server, *others]
                return found
        for refusal in errors:
            if isinstance(refusal, BrokerRefusedError):
                raise refusal
        raise BrokersUnavailableError(
            f"no broker tells of its cluster: {errors[0]}; see bootstrap.servers and security.protocol"
        )

    def _note_brokers(self, found: ClusterMetadata) -> None:
        parent = BrokerIdsPath().path
        self.ensure_path(parent)
        for name in super().get_children(parent):
            if int(name) not in found.brokers:
                self.delete(f"{parent}/{name}")
        for broker_id, (host, port) in found.brokers.items():
            self._put(BrokerIdPath(broker_id).path, self._registration(host, port, found.registration_version))
        self._brokers_told = time.monotonic()

    def _registration(self, host: str, port: int, version: int) -> bytes:
        document: dict[str, object] = {"version": version, "jmx_port": -1, "timestamp": "0", "host": host, "port": port}
        if version >= _FIRST_WITH_ENDPOINTS:
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            document["endpoints"] = [f"{self._protocol}://{where}"]
        return json.dumps(document).encode()

    def _note_topic(self, topic: str, found: ClusterMetadata) -> None:
        partitions = {tp: known for tp, known in found.partitions.items() if tp.topic == topic}
        self._refused.pop(topic, None)
        if topic in found.refused and not partitions:
            self._refused[topic] = found.refused[topic]
        path = TopicPath(topic).path
        if partitions:
            self._put(
                path, encode_topic(TopicAssignment({tp.partition: known.replicas for tp, known in partitions.items()}))
            )
        elif self.exists(path):
            for number in super().get_children(f"{path}/partitions"):
                self.delete(f"{path}/partitions/{number}/state")
                self.delete(f"{path}/partitions/{number}")
            self.delete(f"{path}/partitions")
            self.delete(path)
        for tp, known in partitions.items():
            self._put(PartitionStatePath(*tp).path, _state(known))
        self._topics_told[topic] = time.monotonic()

    def _put(self, path: str, data: bytes) -> None:
        # one change, not a deletion and a creation: other threads read meanwhile
        if self.exists(path) is None:
            self.create(path, data, make_parents=True)
        else:
            self.set_data(path, data)


def _state(known: PartitionMetadata) -> bytes:
    # only ZooKeeper has the controller's epochs
    document = {"controller_epoch": -1, "leader_epoch": -1, "version": 1}
    return json.dumps({**document, "leader": known.leader, "isr": list(known.in_sync)}).encode()
