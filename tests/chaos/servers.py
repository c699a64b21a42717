"""The servers of a chaos run: an ensemble of three ZooKeepers, three brokers, and proxies before both."""

from __future__ import annotations

import contextlib
from pathlib import Path

from legacy_consumer.embedded import EmbeddedEnsemble, EmbeddedKafka
from tests.support.tcp_proxy import TcpProxy

PROXIED = "SASL_PLAINTEXT"
"""The security protocol of each broker's second listener, which advertises the proxy before the broker.

Both fetchers take brokers' addresses from ZooKeeper by security protocol. So a member with this protocol always
connects through proxies, and no other member does.
"""
USER, PASSWORD = "member", "member-secret"
THROUGH_PROXIES = {
    "security.protocol": PROXIED,
    "sasl.mechanism": "PLAIN",
    "sasl.plain.without.tls": "true",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}

BROKER_PROPERTIES = {
    "sasl.enabled.mechanisms": "PLAIN",
    # an acknowledged message is on two brokers, so that one broker may be killed at a time
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "100",
    "auto.leader.rebalance.enable": "false",
}
ENSEMBLE_PROPERTIES = {
    # in ticks of 250 ms: a server that has lost its leader looks for a new one within two seconds
    "syncLimit": "8",
    "initLimit": "40",
}


class ProxiedKafka(EmbeddedKafka):
    """Brokers with the second listener. proxies: {broker id: the proxy before that listener}."""

    def __init__(self, version, zookeeper, folder):
        self.proxies: dict[int, TcpProxy] = {}
        super().__init__(
            version,
            brokers=3,
            zookeeper=zookeeper,
            listeners=("PLAINTEXT", PROXIED),
            properties=BROKER_PROPERTIES,
            # the login file has no login for ZooKeeper: without the second flag, Kafka from 2.8 on connects for ever
            flags=(f"-Djava.security.auth.login.config={_login_file(folder)}", "-Dzookeeper.sasl.client=false"),
        )

    def _new_broker(self, broker_id, ports):
        broker = super()._new_broker(broker_id, ports)
        if broker_id in self.proxies:  # the broker's port was taken while it started, so it gets other ports
            self.proxies.pop(broker_id).close()
        proxy = self.proxies[broker_id] = TcpProxy("127.0.0.1", ports[PROXIED])
        proxy.start()
        advertised = f"PLAINTEXT://127.0.0.1:{ports['PLAINTEXT']},{PROXIED}://127.0.0.1:{proxy.port}"
        broker._properties = {**broker._properties, "advertised.listeners": advertised}
        return broker

    def close(self):
        super().close()
        for proxy in self.proxies.values():
            proxy.close()
        self.proxies.clear()


class Servers:
    """All servers; a context manager that starts and ends them. folder: for brokers' files. kafka: their version."""

    def __init__(self, folder, kafka):
        self._folder = folder
        self._kafka = kafka
        self.ensemble = EmbeddedEnsemble(3, properties=ENSEMBLE_PROPERTIES)
        self.zookeeper_proxies: list[TcpProxy] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.ensemble)
            for node in self.ensemble.nodes:
                proxy = TcpProxy("127.0.0.1", node.port)
                proxy.start()
                stack.callback(proxy.close)
                self.zookeeper_proxies.append(proxy)
            self.kafka = stack.enter_context(ProxiedKafka(self._kafka, self.ensemble, self._folder))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.close()

    @property
    def proxied_ensemble(self):
        """The value of zookeeper.connect for connections through the proxies."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.zookeeper_proxies)


def _login_file(folder: Path) -> Path:
    path = folder.resolve() / "broker.jaas"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    path.write_text(f'KafkaServer {{\n  {module} required user_{USER}="{PASSWORD}";\n}};\n')
    return path
