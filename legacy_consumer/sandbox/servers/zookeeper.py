"""A real ZooKeeper server on loopback."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.jvm import java_command, write_logging_files, write_properties
from legacy_consumer.sandbox.servers.ports import LOOPBACK, claim_port
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from legacy_consumer.sandbox.servers.restartable import Embedded, RestartableServer
from legacy_consumer.sandbox.servers.zookeeper_jars import zookeeper_jars
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

START_TIMEOUT_S = 60.0
START_TRIES = 5
"""How many times a server that lost its chosen port to another process gets a new one."""

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_FLAGS = (
    "-Xmx256m",
    # on two cores the better compiler takes more than it gives in the life of such a server: without it, it starts
    # 0.2 s sooner, and in its first minute does a third more multis and reads a second
    "-XX:TieredStopAtLevel=1",
    # the data ends with the run: no fsync per transaction
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=4096",
    "-Dzookeeper.4lw.commands.whitelist=*",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.jmx.log4j.disable=true",
)
_PROPERTIES = {
    # sessions expire in steps of a tick: short ticks make the end of a test's short session prompt
    "tickTime": "250",
    "minSessionTimeout": "500",
    "maxSessionTimeout": "120000",
    "initLimit": "80",
    "syncLimit": "40",
    "maxClientCnxns": "0",
    "clientPortAddress": LOOPBACK,
    "4lw.commands.whitelist": "*",
    "admin.enableServer": "false",
    "autopurge.purgeInterval": "0",
}
_FOUR_LETTER_TIMEOUT_S = 2.0
_MODE = re.compile(r"^Mode: (\w+)", re.MULTILINE)


def four_letter_word(port: int, word: str, timeout_s: float = _FOUR_LETTER_TIMEOUT_S) -> str:
    """Return the server's answer to a four-letter word on the loopback port; empty if there is none."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout_s) as connection:
            connection.sendall(word.encode("ascii"))
            answer = b""
            while chunk := connection.recv(65_536):
                answer += chunk
            return answer.decode("utf-8", "replace")
    except OSError:
        return ""


class ZooKeeperNode(RestartableServer):
    """One server process with its data folder and port, which it keeps over kill(), stop() and start().

    Made by EmbeddedZooKeeper and EmbeddedEnsemble.
    """

    def __init__(
        self,
        name: str,
        workspace: Workspace,
        java: Path,
        jars: list[Path],
        port: int,
        properties: Mapping[str, str],
        server_id: int | None = None,
    ) -> None:
        super().__init__(name)
        self.port = port
        self._workspace = workspace
        self._java = java
        self._jars = jars
        self._properties = properties
        self._server_id = server_id

    @property
    def connect(self) -> str:
        """The host:port for zookeeper.connect."""
        return f"{LOOPBACK}:{self.port}"

    def mode(self) -> str | None:
        """The server's role: standalone, leader or follower; None while it does not serve."""
        found = _MODE.search(four_letter_word(self.port, "srvr"))
        return found.group(1) if found else None

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it, or start it again, and wait until it serves. Harmless when it runs.

        Raises: ServerStartError; after it the process is gone.
        """
        self.launch()
        self.await_ready(timeout_s)

    def launch(self) -> None:
        """Start the process without waiting: an ensemble serves only when most of its servers run."""
        with self._lock:
            if self.is_running:
                return
            folder = self._workspace.folder / self.name
            data = folder / "data"
            data.mkdir(parents=True, exist_ok=True)
            if self._server_id is not None:
                (data / "myid").write_text(f"{self._server_id}\n", encoding="ascii")
            write_logging_files(folder)
            write_properties(
                folder / "zoo.cfg",
                {**_PROPERTIES, "dataDir": os.fspath(data), "clientPort": str(self.port), **self._properties},
            )
            command = java_command(
                self._java, self._jars, _MAIN, [os.fspath(folder / "zoo.cfg")], folder=folder, flags=_FLAGS
            )
            self._process = ServerProcess(self.name, command, self._workspace, folder / "server.log")

    def await_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until it serves requests. Raises: ServerStartError; after it the process is gone."""
        process = self._started()
        try:
            process.wait_until(lambda: self.mode() is not None, timeout_s, f"it did not serve on port {self.port}")
        except BaseException:
            self.kill()
            raise


class EmbeddedZooKeeper(Embedded):
    """One ZooKeeper server on loopback, for as long as the with block, start() to close(), or this process lasts.

    version: 3.9 (from the pyspark wheel, no network), or 3.4, 3.5, 3.8 (with the Kafka jars).
    port: 0 = any free one. properties: lines of zoo.cfg, over our own. java: the program, else JAVA_HOME's or PATH's.
    Sessions may be as short as 500 ms and expire in steps of tickTime, 250 ms; all four-letter words are answered;
    transactions are not synced to disk.
    """

    def __init__(
        self,
        version: str = "3.9",
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        java: str | os.PathLike[str] | None = None,
    ) -> None:
        self.version = version
        self._wanted_port = port
        self._properties = dict(properties or {})
        self._wanted_java = java
        self._workspace = Workspace("zookeeper")
        self._node: ZooKeeperNode | None = None

    @property
    def node(self) -> ZooKeeperNode:
        """The server. Raises: ServerStartError before start() and after close()."""
        if self._node is None:
            raise ServerStartError("ZooKeeper", "it is not started", "")
        return self._node

    @property
    def connect(self) -> str:
        """The host:port for zookeeper.connect."""
        return self.node.connect

    @property
    def port(self) -> int:
        """The port it listens on, kept over kill() and start()."""
        return self.node.port

    @property
    def pid(self) -> int:
        """The process id."""
        return self.node.pid

    def start(self) -> None:
        """Start it and wait until it serves; after kill() or stop() start it again, with its data. Harmless twice.

        Raises: JavaMissingError, JarsUnavailableError, PortInUseError, ServerStartError. After any, nothing is left.
        """
        if self._node is not None:
            self._node.start()
            return
        java = find_java(self._wanted_java)
        jars = zookeeper_jars(self.version)
        started = time.monotonic()
        try:
            self._node = self._start_node(java, jars)
        except BaseException:
            self.close()
            raise
        logger.info(
            "ZooKeeper %s: serving at %s after %.0f ms",
            self.version, self.connect, 1000 * (time.monotonic() - started),
        )  # fmt: skip

    def stop(self) -> None:
        """End it with SIGTERM, keeping port and data for start()."""
        self.node.stop()

    def kill(self) -> None:
        """End it with SIGKILL, keeping port and data for start()."""
        self.node.kill()

    def close(self) -> None:
        """End it and remove its data; twice is harmless."""
        node, self._node = self._node, None
        if node is not None:
            node.kill()  # nothing of it is needed any more, so nothing is lost by being quick
        self._workspace.close()

    def _start_node(self, java: Path, jars: list[Path]) -> ZooKeeperNode:
        for tries_left in reversed(range(START_TRIES)):
            port = claim_port("ZooKeeper", self._wanted_port)
            self._workspace.open()
            node = ZooKeeperNode("zookeeper", self._workspace, java, jars, port, self._properties)
            try:
                node.start()
            except ServerStartError:
                if self._wanted_port or not tries_left or not node.lost_its_port():
                    raise
                logger.info("ZooKeeper: port %s was taken while it started, choosing another", port)
            else:
                return node
        raise AssertionError("the last try returns or raises")
