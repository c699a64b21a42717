"""Three ZooKeepers and three brokers in containers, on two networks: one to ZooKeeper, one to the brokers."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from legacy_consumer.config import ClusterConfig
from legacy_consumer.sandbox.nodes import await_cluster
from tests.containers.confinement import confinement
from tests.support.waiting import eventually
from zk_layout.kazoo_store import KazooStore

SERVERS = ("zk1", "zk2", "zk3")
BROKERS = ("kafka1", "kafka2", "kafka3")
CONNECT = ",".join(f"{name}:2181" for name in SERVERS)
START_S = 180


class ContainerCluster:
    def __init__(self, image: str) -> None:
        self.image = image
        self._stack = ExitStack()
        self.nodes: dict[str, DockerContainer] = {}

    def __enter__(self) -> ContainerCluster:
        try:
            self.zookeeper_net = self._stack.enter_context(Network())
            self.kafka_net = self._stack.enter_context(Network())
            for number, name in enumerate(SERVERS, 1):
                self._start(
                    name, "zookeeper:2181", self.zookeeper_net,
                    "node", "zookeeper", "--id", str(number), "--servers", ",".join(SERVERS), "--data", "/data",
                    "--heap", "128m", "--set", "tickTime=500",
                )  # fmt: skip
            for number, name in enumerate(BROKERS, 1):
                self._start(
                    name, "tcp:9092", self.kafka_net,
                    "node", "kafka", "--id", str(number), "--advertised", f"{name}:9092", "--zookeeper", CONNECT,
                    "--data", "/data", "--heap", "256m", "--wait", "120",
                )  # fmt: skip
                self.connect_broker(name)
            await_cluster(self.config(), START_S, brokers=len(BROKERS))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _start(self, name: str, health: str, network: Network, *command: str) -> None:
        confined = confinement(name)
        assert not confined.pop("volumes")  # the image declares the volume /data itself
        tmpfs = confined.pop("tmpfs")
        container = (
            DockerContainer(self.image, **confined)
            .with_command(list(command))
            .with_network(network)
            .with_network_aliases(name)
            .with_env("HEALTH", health)
        )
        container.tmpfs.update(tmpfs)
        self.nodes[name] = self._stack.enter_context(container)

    def connect_broker(self, name: str) -> None:
        """Connect a broker to ZooKeeper's network, without a name: by the name consumers would reach the broker there
        when their own network is cut (the engine resolves host names as well, so no node has one).
        """
        self.zookeeper_net.connect(self.nodes[name].get_wrapped_container().id)

    # Addresses for the tests' process: the engine's host routes into the engine's networks.

    def address(self, name: str) -> str:
        """Return the node's address on the ZooKeeper network; empty while it is not connected."""
        container = self.nodes[name].get_wrapped_container()
        container.reload()
        network = container.attrs["NetworkSettings"]["Networks"].get(self.zookeeper_net.name, {})
        return str(network.get("IPAddress", ""))

    def config(self) -> ClusterConfig:
        """Return the configuration to reach ZooKeeper at its present addresses."""
        hosts = [f"{address}:2181" for name in SERVERS if (address := self.address(name))]
        return ClusterConfig.load(zookeeper_connect=",".join(hosts), zookeeper_connection_timeout_ms=5000)

    def connected(self) -> contextlib.closing[KazooStore]:
        """Return a store with a session of its own, at the present addresses."""
        store = KazooStore(self.config().zk_settings())
        store.start()
        return contextlib.closing(store)

    def leader(self) -> str:
        """Return the name of the leading ZooKeeper server."""

        def find() -> str | None:
            for name in SERVERS:
                code, said = self.nodes[name].exec(["python3", "-c", _SRVR])
                if code == 0 and b"Mode: leader" in said:
                    return name
            return None

        return eventually(find)

    def run(self, *command: str, timeout_s: float = 120) -> tuple[int, str]:
        """Run a command in a container of its own, to its end. Returns: (exit code, output)."""
        with self.command(*command) as container:
            wrapped = container.get_wrapped_container()
            code = wrapped.wait(timeout=timeout_s)["StatusCode"]
            return code, wrapped.logs().decode("utf-8", "replace")

    def command(self, *command: str, **kwargs: object) -> DockerContainer:
        """Return a container on both networks that has not started yet."""
        confined = {**confinement("consumer"), **kwargs}
        return _OnBothNetworks(self, self.image).with_command(list(command)).with_kwargs(**confined)


class _OnBothNetworks(DockerContainer):
    """A container that is on both networks before its command runs."""

    def __init__(self, cluster: ContainerCluster, image: str) -> None:
        super().__init__(image)
        self._cluster = cluster

    def start(self) -> _OnBothNetworks:
        client = self.get_docker_client().client
        created = client.containers.create(
            self.image, command=self._command, environment=self.env, detach=True,
            network=self._cluster.zookeeper_net.name, **self._kwargs,
        )  # fmt: skip
        self._container = created
        self._cluster.kafka_net.connect(created.id)
        created.start()
        return self


_SRVR = """
import socket
c = socket.create_connection(("127.0.0.1", 2181), 2)
c.sendall(b"srvr")
print(c.makefile().read())
"""
