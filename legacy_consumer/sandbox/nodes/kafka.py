"""One Kafka broker of a cluster that spreads over machines or containers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from legacy_consumer.config.addresses import parse_address
from legacy_consumer.sandbox.servers.jars import kafka_jars
from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.jvm import java_command, write_logging_files, write_properties
from zk_layout.errors import ConfigError

_MAIN = "kafka.Kafka"
_WITHOUT_LISTENERS = "0.8.2.2"
_PROPERTIES = {
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "30000",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "controlled.shutdown.enable": "true",
    # otherwise brokers accept no id above 1000
    "broker.id.generation.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "unclean.leader.election.enable": "false",
    # the cleaner's default buffer is a third of a small heap
    "log.cleaner.dedupe.buffer.size": "4194304",
    # messages may be years old by their own timestamps
    "log.retention.hours": "2147483647",
}


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """A broker of one of KAFKA_VERSIONS. advertised: the host:port under which clients and other brokers reach it.

    data: folder for its logs, kept over restarts. properties: lines of server.properties, over our own.
    """

    broker_id: int
    zookeeper: str
    advertised: str
    data: Path
    version: str = "1.1.1"
    heap: str = "384m"
    properties: Mapping[str, str] = field(default_factory=dict)

    def prepare(self) -> list[str]:
        """Write the configuration into the data folder; the command that becomes the broker.

        Raises: ConfigError, JavaMissingError, JarsUnavailableError.
        """
        address = parse_address(self.advertised)
        if address is None:
            raise ConfigError("advertised", self.advertised, "must be HOST:PORT, as clients reach the broker")
        java, jars = find_java(), kafka_jars(self.version)
        try:
            (self.data / "kafka").mkdir(parents=True, exist_ok=True)
            write_logging_files(self.data, "WARN")
            write_properties(self.data / "server.properties", self._all_properties(*address))
        except OSError as error:
            raise ConfigError("data", os.fspath(self.data), f"cannot be written: {error.strerror}") from error
        return java_command(
            java,
            jars,
            _MAIN,
            [os.fspath(self.data / "server.properties")],
            folder=self.data,
            flags=(f"-Xmx{self.heap}",),
        )

    def _all_properties(self, host: str, port: int) -> dict[str, str]:
        own = {
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self.zookeeper,
            "log.dirs": os.fspath(self.data / "kafka"),
        }
        if self.version == _WITHOUT_LISTENERS:
            own |= {"port": str(port), "advertised.host.name": host, "advertised.port": str(port)}
        else:
            own |= {
                "listeners": f"PLAINTEXT://0.0.0.0:{port}",
                "advertised.listeners": f"PLAINTEXT://{self.advertised}",
            }
        return {**_PROPERTIES, **own, **self.properties}
