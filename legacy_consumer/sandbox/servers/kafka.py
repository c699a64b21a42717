"""Real Kafka brokers on loopback."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from legacy_consumer.errors import BrokersUnavailableError, ServerStartError
from legacy_consumer.sandbox.servers.broker import START_TIMEOUT_S, KafkaBroker
from legacy_consumer.sandbox.servers.ensemble import EmbeddedEnsemble
from legacy_consumer.sandbox.servers.jars import kafka_jars
from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.jvm import java_command, write_logging_files
from legacy_consumer.sandbox.servers.metadata import served_partitions
from legacy_consumer.sandbox.servers.ports import claim_port
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from legacy_consumer.sandbox.servers.restartable import Embedded
from legacy_consumer.sandbox.servers.topics import TopicZnodes, check_topic_name, spread_replicas, topic_znodes
from legacy_consumer.sandbox.servers.waiting import wait_for
from legacy_consumer.sandbox.servers.zookeeper import START_TRIES, EmbeddedZooKeeper
from zk_layout.errors import ConfigError
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

TOPIC_TIMEOUT_S = 60.0

_PLAINTEXT = "PLAINTEXT"
_MOST_REPLICAS = 3


class EmbeddedKafka(Embedded):
    """Kafka brokers on loopback, for as long as the with block, start() to close(), or this process lasts.

    version: one of KAFKA_VERSIONS; their jars are fetched once. brokers: how many, with the ids 0, 1, ...
    zookeeper: an embedded one that is started already, or a host:port list; None starts one of its own.
    ports: one for each broker's first listener, 0 = any free one. chroot: such as /kafka; the brokers create it.
    properties: lines of server.properties for all brokers, over our own; properties unknown to a version do no harm.
    listeners: security protocols, each of which gets a port of its own; others bootstrap from the first.
    flags: more options for the brokers' JVM, over ours, which are for short lives; to measure, ALL_COMPILERS.
    """

    def __init__(
        self,
        version: str = "1.1.1",
        brokers: int = 1,
        zookeeper: EmbeddedZooKeeper | EmbeddedEnsemble | str | None = None,
        ports: Sequence[int] | None = None,
        properties: Mapping[str, str] | None = None,
        chroot: str = "",
        *,
        listeners: Sequence[str] = (_PLAINTEXT,),
        flags: Sequence[str] = (),
        java: str | os.PathLike[str] | None = None,
    ) -> None:
        if brokers < 1:
            raise ConfigError("brokers", brokers, "must be at least 1")
        if ports is not None and len(ports) != brokers:
            raise ConfigError("ports", list(ports), f"give one for each of the {brokers} brokers")
        if not listeners:
            raise ConfigError("listeners", "", "name at least one security protocol, such as PLAINTEXT")
        self.version = version
        self._size = brokers
        self._given_zookeeper = zookeeper
        self._own_zookeeper: EmbeddedZooKeeper | None = None
        self._wanted_ports = tuple(ports) if ports is not None else (0,) * brokers
        replicas = str(min(_MOST_REPLICAS, brokers))
        self._properties = {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **(properties or {}),
        }
        self._chroot = "".join(f"/{part}" for part in chroot.split("/") if part)
        self._listeners = tuple(listeners)
        self._flags = tuple(flags)
        self._wanted_java = java
        self._workspace = Workspace(f"kafka-{version}")
        self._brokers: list[KafkaBroker] = []
        self._java: Path | None = None
        self._jars: list[Path] = []

    @property
    def brokers(self) -> list[KafkaBroker]:
        """The brokers, by id; the list is empty before start() and after close()."""
        return list(self._brokers)

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker's first listener, for bootstrap.servers."""
        return ",".join(broker.address for broker in self._brokers)

    @property
    def zookeeper_connect(self) -> str:
        """For zookeeper.connect, with the chroot."""
        return f"{self._zookeeper_hosts}{self._chroot}"

    @property
    def jars(self) -> list[Path]:
        """The jars of this version, for programs of its JVM clients and tools. Fetched when they are not there."""
        return self._jars or kafka_jars(self.version)

    def java_command(self, main: str, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
        """The command that runs one of Kafka's own programs, or a single .java source file, with this version's jars.

        Its log goes to standard error, from WARN on, so that standard output is the program's alone.
        """
        folder = self._workspace.folder / "tools"
        if not folder.exists():
            folder.mkdir()
            write_logging_files(folder, level="WARN", target="System.err")
        java = self._java or find_java(self._wanted_java)
        return java_command(java, self.jars, main, arguments, folder=folder, flags=flags)

    def start_java(self, name: str, main: str, *arguments: str, flags: Sequence[str] = ()) -> ServerProcess:
        """Start such a program in the background; it ends with the cluster, its output is in log_text()."""
        command = self.java_command(main, *arguments, flags=flags)
        return ServerProcess(name, command, self._workspace, self._workspace.folder / f"{name}.log")

    def start(self) -> None:
        """Start everything and wait until every broker is registered and accepts. Harmless twice.

        Raises: JavaMissingError, JarsUnavailableError, PortInUseError, ServerStartError, ConnectTimeoutError for a
        given ZooKeeper that does not answer. After any, nothing is left.
        """
        if self._brokers:
            return
        self._java = find_java(self._wanted_java)
        self._jars = kafka_jars(self.version)
        started = time.monotonic()
        try:
            taken: set[int] = set()
            ports = [
                {self._listeners[0]: claim_port(f"broker-{broker_id}", wanted, taken)}
                for broker_id, wanted in enumerate(self._wanted_ports)
            ]
            for of_broker in ports:
                of_broker.update({protocol: claim_port("broker", 0, taken) for protocol in self._listeners[1:]})
            if self._given_zookeeper is None:
                self._own_zookeeper = EmbeddedZooKeeper(java=self._wanted_java)
                self._own_zookeeper.start()
            self._workspace.open()
            self._brokers = [self._new_broker(broker_id, of_broker) for broker_id, of_broker in enumerate(ports)]
            with topic_znodes(self._zookeeper_hosts, self._chroot) as znodes:
                for broker in self._brokers:
                    if znodes.is_registered(broker.broker_id):
                        raise ServerStartError(
                            broker.name,
                            f"ZooKeeper at {self.zookeeper_connect} already lists a broker with this id: "
                            "give another chroot",
                            "",
                        )
                    broker.launch()
                for index in range(self._size):
                    self._await_broker(index, znodes, taken)
        except BaseException:
            self.close()
            raise
        logger.info(
            "Kafka %s: %s broker(s) serving at %s after %.0f ms",
            self.version, self._size, self.bootstrap_servers, 1000 * (time.monotonic() - started),
        )  # fmt: skip

    def close(self) -> None:
        """End the brokers, and the ZooKeeper if it is its own, and remove their data; twice is harmless."""
        brokers, self._brokers = self._brokers, []
        for broker in brokers:  # the data goes with them, so there is nothing to shut down in order
            broker.send_kill()
        for broker in brokers:
            broker.kill()
        self._workspace.close()
        zookeeper, self._own_zookeeper = self._own_zookeeper, None
        if zookeeper is not None:
            zookeeper.close()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        timeout_s: float = TOPIC_TIMEOUT_S,
    ) -> None:
        """Create a topic and wait until every partition has a leader and every running broker knows it.

        Raises: ConfigError, NodeExistsError, BrokersUnavailableError when no leader is elected in time.
        """
        check_topic_name(name)
        if partitions < 1:
            raise ConfigError("partitions", partitions, "must be at least 1")
        assignment = spread_replicas(range(partitions), range(self._size), replication_factor)
        with topic_znodes(self._zookeeper_hosts, self._chroot) as znodes:
            znodes.create_topic(name, assignment, config or {})
            self._await_topic(znodes, name, range(partitions), timeout_s)

    def add_partitions(self, name: str, partitions: int, timeout_s: float = TOPIC_TIMEOUT_S) -> None:
        """Enlarge a topic to this many partitions and wait as create_topic does.

        Raises: NoNodeError, ConfigError if it has that many, BrokersUnavailableError.
        """
        with topic_znodes(self._zookeeper_hosts, self._chroot) as znodes:
            present = znodes.partitions(name)
            if partitions <= len(present):
                raise ConfigError("partitions", partitions, f"{name} has {len(present)} already, and can only grow")
            added = spread_replicas(range(len(present), partitions), range(self._size), len(present[0]))
            znodes.add_partitions(name, added)
            self._await_topic(znodes, name, range(partitions), timeout_s)

    def delete_topic(self, name: str, timeout_s: float = TOPIC_TIMEOUT_S) -> None:
        """Delete a topic and wait until the controller has done it, which takes all brokers that have replicas.

        Raises: NoNodeError, BrokersUnavailableError.
        """
        with topic_znodes(self._zookeeper_hosts, self._chroot) as znodes:
            znodes.partitions(name)
            znodes.delete_topic(name)
            wait_for(
                lambda: znodes.topic_is_gone(name),
                timeout_s,
                lambda: BrokersUnavailableError(f"topic {name} was not deleted within {timeout_s:g} s"),
            )

    @property
    def _zookeeper_hosts(self) -> str:
        zookeeper = self._given_zookeeper if self._given_zookeeper is not None else self._own_zookeeper
        if zookeeper is None:
            raise ServerStartError(f"Kafka {self.version}", "it is not started", "")
        return zookeeper if isinstance(zookeeper, str) else zookeeper.connect

    def _new_broker(self, broker_id: int, ports: Mapping[str, int]) -> KafkaBroker:
        assert self._java is not None
        return KafkaBroker(
            broker_id,
            self.version,
            self._workspace,
            self._java,
            self._jars,
            ports,
            self._zookeeper_hosts,
            self._chroot,
            self._properties,
            self._flags,
        )

    def _await_broker(self, index: int, znodes: TopicZnodes, taken: set[int]) -> None:
        for tries_left in reversed(range(START_TRIES)):
            broker = self._brokers[index]
            try:
                broker.await_ready(znodes, START_TIMEOUT_S)
            except ServerStartError:
                if self._wanted_ports[index] or not tries_left or not broker.lost_its_port():
                    raise
            else:
                return
            logger.info("%s: a port of %s was taken while it started, choosing others", broker.name, broker.ports)
            ports = {protocol: claim_port(broker.name, 0, taken) for protocol in self._listeners}
            self._brokers[index] = self._new_broker(broker.broker_id, ports)
            self._brokers[index].launch()

    def _await_topic(self, znodes: TopicZnodes, topic: str, partitions: range, timeout_s: float) -> None:
        wanted = set(partitions)

        def is_served() -> bool:
            return len(znodes.leaders(topic, partitions)) == len(wanted) and all(
                served_partitions(broker.ports[_PLAINTEXT], topic) >= wanted
                for broker in self._brokers
                if broker.is_running and _PLAINTEXT in broker.ports  # others cannot be asked without credentials
            )

        wait_for(
            is_served,
            timeout_s,
            lambda: BrokersUnavailableError(
                f"topic {topic} has no leader for each of its {len(partitions)} partitions after {timeout_s:g} s"
            ),
        )
