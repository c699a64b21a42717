"""The commands of containers wait for servers, and read znodes that other clients wrote."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from legacy_consumer.config import ClusterConfig
from legacy_consumer.operations.cli import node
from legacy_consumer.sandbox.nodes import KafkaNode, ZooKeeperNode, await_cluster, awaiting, ensure_topic, topics
from legacy_consumer.sandbox.nodes.errors import ClusterNotReadyError
from zk_layout.codecs import decode_topic
from zk_layout.errors import ConfigError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper

CONFIG = ClusterConfig.load(zookeeper_connect="zk:2181")


@pytest.fixture
def store(monkeypatch):
    """A ZooKeeper with the brokers 1 and 2, and a child of /brokers/ids that is no broker."""
    server = MemoryZooKeeper()
    for module in (awaiting, topics):
        monkeypatch.setattr(module, "KazooStore", lambda _: MemoryStore(server))
    admin = MemoryStore(server)
    admin.start()
    for path in ("/brokers/ids/1", "/brokers/ids/2", "/brokers/ids/x", "/brokers/topics", "/config/topics"):
        admin.create(path, b"", make_parents=True)
    return admin


def test_a_child_of_the_brokers_that_is_no_broker_is_not_waited_for_and_gets_no_replica(store):
    await_cluster(CONFIG, 0, brokers=2)
    with pytest.raises(ClusterNotReadyError, match="3 registered brokers"):
        await_cluster(CONFIG, 0, brokers=3)
    assert ensure_topic(CONFIG, "t", 2, 2)
    path = "/brokers/topics/t"
    assert decode_topic(path, store.get_data(path).data).partitions == {0: (1, 2), 1: (2, 1)}


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a b"])
def test_a_name_that_no_topic_can_have_is_not_waited_for(store, topic):
    """In an earlier version, a topic with an empty name, as from an unset variable, was said to exist."""
    told = []
    with pytest.raises(ConfigError, match="is no name that a topic can have"):
        await_cluster(CONFIG, 0, topic=topic, tell=told.append)
    assert told == []


def test_a_signal_in_the_middle_of_a_wait_ends_the_flights(monkeypatch):
    """The handler waited for the lock of the wait that it had interrupted, and no signal ended the command any more."""

    def produce(*_, stop, **__):
        assert stop.wait_for(lambda: signal.raise_signal(signal.SIGTERM) or stop.is_set(), 60)
        return 7

    monkeypatch.setattr(node, "await_cluster", lambda *_, **__: None)
    monkeypatch.setattr(node, "produce_flights", produce)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        done = CliRunner().invoke(node.node, ["flights", "--zookeeper=zk:2181"])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (done.exit_code, done.stdout) == (0, "7 flights produced into topic flights\n")


def test_a_broker_waits_for_zookeeper_with_the_credentials_and_the_tls_that_the_command_was_given(monkeypatch):
    waited = []
    monkeypatch.setattr(node, "KafkaNode", lambda *_: SimpleNamespace(prepare=lambda: ["java"]))
    monkeypatch.setattr(node, "_become", lambda _: None)
    monkeypatch.setattr(node, "await_cluster", lambda config, *_, chroot, **__: waited.append((config, chroot)))
    options = ["--id=1", "--advertised=k:9092", "--data=/data", "--zookeeper=zk1:2281,zk2:2281/kafka/a"]
    secured = ["--property=zookeeper.ssl.client.enable=true", "--property=zookeeper.auth.digest=u:p"]
    assert CliRunner().invoke(node.node, ["kafka", *options, *secured]).exit_code == 0
    [(config, chroot)] = waited
    assert (config.zookeeper_connect, chroot) == ("zk1:2281,zk2:2281", "/kafka/a")
    assert (config.zookeeper_ssl_client_enable, config.zookeeper_auth_digest) == (True, "u:p")


@pytest.mark.parametrize(
    "advertised", ["k", ":9092", "k:", "k:0", "k:65536", "k:²", "a b:9092", "k/x:9092", "k:1:2", "k:" + "9" * 5000]
)
def test_a_broker_that_no_client_can_reach_is_refused_before_anything_is_written(tmp_path, advertised):
    """The broker itself ended with a stack trace, some seconds later."""
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        KafkaNode(1, "zk:2181", advertised, tmp_path / "data").prepare()
    assert not (tmp_path / "data").exists()


def test_an_id_that_no_broker_can_have_is_refused():
    options = ["--advertised=k:9092", "--data=/data", "--zookeeper=zk:2181", f"--id={2**31}"]
    assert "2147483648 is not in the range" in CliRunner().invoke(node.node, ["kafka", *options]).output


def test_an_ensemble_without_servers_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="servers=: name at least one"):
        ZooKeeperNode(1, [], tmp_path).prepare()


@pytest.mark.usefixtures("store")
def test_more_partitions_than_a_znode_can_name_are_refused():
    """The store raised a ValueError, which the command called a defect of its own."""
    with pytest.raises(ConfigError, match="partitions=15001: must be at most 15000"):
        ensure_topic(CONFIG, "t", 15_001, 2)
    assert ensure_topic(CONFIG, "t", 15_000, 2)
