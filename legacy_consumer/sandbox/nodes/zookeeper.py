"""One ZooKeeper server of an ensemble that spreads over machines or containers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.jvm import java_command, write_logging_files, write_properties
from legacy_consumer.sandbox.servers.zookeeper_jars import zookeeper_jars
from zk_layout.errors import ConfigError

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_PEER_PORTS = "2888:3888"
_PROPERTIES = {
    "tickTime": "1000",
    "initLimit": "20",
    "syncLimit": "10",
    "minSessionTimeout": "2000",
    "maxSessionTimeout": "120000",
    "maxClientCnxns": "0",
    "autopurge.snapRetainCount": "3",
    "autopurge.purgeInterval": "1",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,mntr",
    # a container has more addresses than the name that the others know
    "quorumListenOnAllIPs": "true",
    "clientPortAddress": "0.0.0.0",  # noqa: S104  (published ports are the container's affair)
}


@dataclass(frozen=True, slots=True)
class ZooKeeperNode:
    """A server of ZooKeeper 3.9: servers[server_id - 1] is its own name, and all have the same list.

    data: folder for snapshots and transactions, kept over restarts. properties: lines of zoo.cfg, over our own.
    """

    server_id: int
    servers: Sequence[str]
    data: Path
    client_port: int = 2181
    heap: str = "256m"
    properties: Mapping[str, str] = field(default_factory=dict)

    def prepare(self) -> list[str]:
        """Write the configuration into the data folder; the command that becomes the server.

        Raises: ConfigError, JavaMissingError, JarsUnavailableError.
        """
        if not self.servers:
            raise ConfigError("servers", "", "name at least one, such as localhost")
        if not 1 <= self.server_id <= len(self.servers):
            raise ConfigError("id", self.server_id, f"must be 1 to {len(self.servers)}, its place among the servers")
        java, jars = find_java(), zookeeper_jars("3.9")
        try:
            snapshots = self.data / "zookeeper"
            snapshots.mkdir(parents=True, exist_ok=True)
            (snapshots / "myid").write_text(f"{self.server_id}\n", encoding="ascii")
            write_logging_files(self.data, "WARN")
            write_properties(self.data / "zoo.cfg", self._all_properties(snapshots))
        except OSError as error:
            raise ConfigError("data", os.fspath(self.data), f"cannot be written: {error.strerror}") from error
        return java_command(
            java,
            jars,
            _MAIN,
            [os.fspath(self.data / "zoo.cfg")],
            folder=self.data,
            flags=(f"-Xmx{self.heap}", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true"),
        )

    def _all_properties(self, snapshots: Path) -> dict[str, str]:
        peers = {}
        if len(self.servers) > 1:
            peers = {
                f"server.{number}": name if ":" in name else f"{name}:{_PEER_PORTS}"
                for number, name in enumerate(self.servers, 1)
            }
        own = {"dataDir": os.fspath(snapshots), "clientPort": str(self.client_port)}
        return {**_PROPERTIES, **own, **peers, **self.properties}
