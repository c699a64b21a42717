"""A real ZooKeeper ensemble on loopback."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.ports import LOOPBACK, claim_port, free_port
from legacy_consumer.sandbox.servers.process import Workspace
from legacy_consumer.sandbox.servers.restartable import Embedded
from legacy_consumer.sandbox.servers.waiting import wait_for
from legacy_consumer.sandbox.servers.zookeeper import START_TIMEOUT_S, START_TRIES, ZooKeeperNode
from legacy_consumer.sandbox.servers.zookeeper_jars import zookeeper_jars
from zk_layout.errors import ConfigError
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

ELECTION_TIMEOUT_S = 60.0


class EmbeddedEnsemble(Embedded):
    """Several ZooKeeper servers that elect a leader, each of which can be killed and started again.

    size: 3 survives the loss of one. ports: one for each server's clients, 0 = any free one.
    version, properties and java are as for EmbeddedZooKeeper.
    """

    def __init__(
        self,
        size: int = 3,
        version: str = "3.9",
        properties: Mapping[str, str] | None = None,
        java: str | os.PathLike[str] | None = None,
        *,
        ports: Sequence[int] | None = None,
    ) -> None:
        if size < 1:
            raise ConfigError("size", size, "must be at least 1")
        if ports is not None and len(ports) != size:
            raise ConfigError("ports", list(ports), f"give one for each of the {size} servers")
        self.version = version
        self._size = size
        self._properties = dict(properties or {})
        self._wanted_java = java
        self._wanted_ports = tuple(ports) if ports is not None else (0,) * size
        self._workspace = Workspace("ensemble")
        self._nodes: list[ZooKeeperNode] = []

    @property
    def nodes(self) -> list[ZooKeeperNode]:
        """The servers; the list is empty before start() and after close()."""
        return list(self._nodes)

    @property
    def connect(self) -> str:
        """The host:port of every server, running or not, for zookeeper.connect."""
        return ",".join(node.connect for node in self._nodes)

    def start(self) -> None:
        """Start all servers and wait until each serves. Harmless twice.

        Raises: JavaMissingError, JarsUnavailableError, ServerStartError. After any, nothing is left.
        """
        if self._nodes:
            return
        java = find_java(self._wanted_java)
        jars = zookeeper_jars(self.version)
        started = time.monotonic()
        try:
            self._start_nodes(java, jars)
        except BaseException:
            self.close()
            raise
        logger.info(
            "ZooKeeper %s: ensemble of %s serving at %s after %.0f ms",
            self.version, self._size, self.connect, 1000 * (time.monotonic() - started),
        )  # fmt: skip

    def leader(self, timeout_s: float = ELECTION_TIMEOUT_S) -> int:
        """The index in nodes of the server that leads; waits while an election is under way.

        Raises: ServerStartError if there is no leader after timeout_s, for example without a majority.
        """
        leaders: list[int] = []

        def has_leader() -> bool:
            leaders[:] = [index for index, node in enumerate(self._nodes) if node.mode() in ("leader", "standalone")]
            return bool(leaders)

        wait_for(
            has_leader,
            timeout_s,
            lambda: ServerStartError("the ZooKeeper ensemble", f"it elected no leader within {timeout_s:g} s", ""),
        )
        return leaders[0]

    def close(self) -> None:
        """End all servers and remove their data; twice is harmless."""
        nodes, self._nodes = self._nodes, []
        for node in nodes:
            node.kill()
        self._workspace.close()

    def _start_nodes(self, java: Path, jars: list[Path]) -> None:
        for tries_left in reversed(range(START_TRIES)):
            nodes = self._new_nodes(java, jars)
            self._workspace.open()
            self._nodes = nodes
            try:
                for node in nodes:
                    node.launch()
                for node in nodes:
                    node.await_ready(START_TIMEOUT_S)
            except ServerStartError:
                if not tries_left or not any(node.lost_its_port() for node in nodes):
                    raise
                logger.info("ZooKeeper: a port of the ensemble was taken while it started, choosing others")
                for node in nodes:
                    node.kill()
                self._workspace.close()
            else:
                return

    def _new_nodes(self, java: Path, jars: list[Path]) -> list[ZooKeeperNode]:
        taken: set[int] = set()
        names = [f"zookeeper-{server_id}" for server_id in range(1, self._size + 1)]
        ports = [claim_port(name, wanted, taken) for name, wanted in zip(names, self._wanted_ports, strict=True)]
        servers = {
            f"server.{index + 1}": f"{LOOPBACK}:{free_port(taken)}:{free_port(taken)}" for index in range(self._size)
        }
        properties = {**servers, **self._properties}
        return [
            ZooKeeperNode(name, self._workspace, java, jars, port, properties, index + 1)
            for index, (name, port) in enumerate(zip(names, ports, strict=True))
        ]
