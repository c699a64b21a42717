"""One Kafka broker process on loopback, and the properties that each version is started with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers.jvm import java_command, write_logging_files, write_properties
from legacy_consumer.sandbox.servers.ports import LOOPBACK, accepts_connections
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from legacy_consumer.sandbox.servers.restartable import RestartableServer
from legacy_consumer.sandbox.servers.topics import TopicZnodes, topic_znodes
from legacy_consumer.sandbox.servers.waiting import wait_for
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

START_TIMEOUT_S = 90.0

_MAIN = "kafka.Kafka"
_WITHOUT_LISTENERS = "0.8.2.2"
_FLAGS = (
    "-Xmx384m",
    # on two cores the better compiler takes more than it gives in the life of such a broker: without it, it starts with
    # a third less work, and does its first million messages with a third less, too
    "-XX:TieredStopAtLevel=1",
)
_PLAINTEXT = "PLAINTEXT"

# Brokers ignore properties of other versions, so one list serves all.
_PROPERTIES = {
    # a broker that was killed is missed soon, yet one that is starved for a moment on a busy machine is not
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "30000",
    "delete.topic.enable": "true",
    # for ever: messages may be years old by their own timestamps. 0.8.2.2 does not know -1
    "log.retention.hours": "2147483647",
    # the cleaner's default buffer is a third of the heap
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.io.threads": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.retry.backoff.ms": "500",
}


class KafkaBroker(RestartableServer):
    """One broker with its id, data folder and ports, which it keeps over kill(), stop() and start().

    Upon stop() it hands its partitions over to the others.

    Made by EmbeddedKafka. ports: {security protocol: port}, the first being the one that others bootstrap from.
    """

    def __init__(
        self,
        broker_id: int,
        version: str,
        workspace: Workspace,
        java: Path,
        jars: Sequence[Path],
        ports: Mapping[str, int],
        zookeeper: str,
        chroot: str,
        properties: Mapping[str, str],
        flags: Sequence[str] = (),
    ) -> None:
        super().__init__(f"broker-{broker_id}")
        self.broker_id = broker_id
        self.version = version
        self.ports = dict(ports)
        self._workspace = workspace
        self._java = java
        self._jars = jars
        self._zookeeper = zookeeper
        self._chroot = chroot
        self._properties = properties
        self._flags = (*_FLAGS, *flags)

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return next(iter(self.ports.values()))

    @property
    def address(self) -> str:
        """The host:port of the first listener."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def data_folder(self) -> Path:
        """Where its logs of messages are."""
        return self._workspace.folder / self.name / "data"

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it again, and wait until it is registered in ZooKeeper and accepts. Harmless when it runs.

        After kill() that waits for the end of the old session first: a broker does not start while ZooKeeper still
        lists its predecessor.
        Raises: ServerStartError; after it the process is gone.
        """
        with topic_znodes(self._zookeeper, self._chroot) as znodes:
            if not self.is_running:
                self._await_old_session(znodes, timeout_s)
                self.launch()
            self.await_ready(znodes, timeout_s)

    def launch(self) -> None:
        """Start the process without waiting; harmless when it runs."""
        with self._lock:
            if self.is_running:
                return
            folder = self._workspace.folder / self.name
            folder.mkdir(exist_ok=True)
            write_logging_files(folder)
            write_properties(folder / "server.properties", self._all_properties())
            command = java_command(
                self._java,
                self._jars,
                _MAIN,
                [os.fspath(folder / "server.properties")],
                folder=folder,
                flags=self._flags,
            )
            self._process = ServerProcess(self.name, command, self._workspace, folder / "server.log")

    def await_ready(self, znodes: TopicZnodes, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until it is registered and accepts. Raises: ServerStartError; after it the process is gone."""
        process = self._started()
        try:
            process.wait_until(
                lambda: (
                    znodes.is_registered(self.broker_id)
                    and all(accepts_connections(port) for port in self.ports.values())
                ),
                timeout_s,
                "it was not registered in ZooKeeper and accepting connections",
            )
        except BaseException:
            self.kill()
            raise

    def _await_old_session(self, znodes: TopicZnodes, timeout_s: float) -> None:
        wait_for(
            lambda: not znodes.is_registered(self.broker_id),
            timeout_s,
            lambda: ServerStartError(self.name, f"ZooKeeper still lists the killed broker after {timeout_s:g} s", ""),
        )

    def _all_properties(self) -> dict[str, str]:
        properties = {
            **_PROPERTIES,
            "broker.id": str(self.broker_id),
            "log.dirs": os.fspath(self.data_folder),
            "zookeeper.connect": f"{self._zookeeper}{self._chroot}",
        }
        if self.version == _WITHOUT_LISTENERS:
            properties.update({"host.name": LOOPBACK, "advertised.host.name": LOOPBACK, "port": str(self.port)})
        else:
            listeners = ",".join(f"{protocol}://{LOOPBACK}:{port}" for protocol, port in self.ports.items())
            properties.update({"listeners": listeners, "advertised.listeners": listeners})
            if _PLAINTEXT not in self.ports:
                properties["security.inter.broker.protocol"] = next(iter(self.ports))
        return {**properties, **self._properties}
