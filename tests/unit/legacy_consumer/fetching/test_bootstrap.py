"""A store that answers the fetchers' reads of ZooKeeper from the metadata of brokers."""

import socket
import threading
from types import SimpleNamespace

import pytest

from legacy_consumer import (
    BrokerRefusedError,
    BrokersUnavailableError,
    ConfigError,
    ConsumerClosedError,
    ConsumerConfig,
    SimpleConsumer,
    TopicPartition,
)
from legacy_consumer.config.broker_hosts import BrokerHosts
from legacy_consumer.errors import FetchError, NoSuchTopicError
from legacy_consumer.fetching.bootstrap import BrokerStore, parse_servers
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.cluster_metadata import ClusterMetadata, PartitionMetadata
from legacy_consumer.fetching.columnar.metadata import MetadataAsker
from tests.support.fake_kafka import FakeFetcher, FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import decode_partition_state, decode_topic
from zk_layout.errors import NoNodeError
from zk_layout.memory_store import MemoryStore
from zk_layout.paths import TopicPath

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
A, B, C = ("a", 9092), ("b", 9092), ("c", 9092)


class Cluster:
    """Brokers in memory. down: {address: the error of a request to it}; asked: [(address, topics)].

    just_started: the addresses of brokers to which the controller has sent no metadata yet.
    """

    def __init__(self, registration_version=4):
        self.brokers = {0: A, 1: B}
        self.partitions = {T0: PartitionMetadata(0, (0, 1), (0,)), T1: PartitionMetadata(-1, (1, 0), ())}
        self.refused = {}
        self.down = {}
        self.just_started = set()
        self.asked = []
        self.during = {}
        self.is_hung_up = False
        self.registration_version = registration_version

    def ask(self, server, topics):
        self.asked.append((server, set(topics)))
        self.is_hung_up = False
        if server in self.during:
            self.during[server]()
        if server in self.down:
            raise self.down[server]
        if server in self.just_started:
            return ClusterMetadata({}, {}, {}, self.registration_version)
        return ClusterMetadata(self.brokers, self.partitions, self.refused, self.registration_version)

    def close(self):
        self.is_hung_up = True


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(s=1000.0)
    monkeypatch.setattr("legacy_consumer.fetching.bootstrap.time", SimpleNamespace(monotonic=lambda: now.s))
    return now


@pytest.fixture
def cluster():
    return Cluster()


def store_of(cluster, *servers, protocol="PLAINTEXT", hosts=None):
    store = BrokerStore(servers or (A,), cluster, protocol, BrokerHosts(hosts))
    store.start()
    return store


def topic(store, name="t"):
    path = f"/brokers/topics/{name}"
    return dict(decode_topic(path, store.get_data(path).data).partitions)


def state(store, tp):
    path = f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state"
    [znode] = store.get_data_many([path])
    return None if znode is None else decode_partition_state(path, znode.data)


@pytest.mark.parametrize("version", [1, 2, 4])
@pytest.mark.parametrize("host", ["h", "::1"])
def test_registrations_topics_and_states_are_read_as_those_of_zookeeper(version, host):
    cluster = Cluster(version)
    cluster.brokers = {7: (host, 9093)}
    store = store_of(cluster)
    [broker] = read_brokers(store)
    assert (broker.broker_id, broker.version) == (7, version)
    assert (broker.endpoint("PLAINTEXT").host, broker.endpoint("PLAINTEXT").port) == (host, 9093)
    assert topic(store) == {0: (0, 1), 1: (1, 0)}
    assert (state(store, T0).leader, state(store, T0).isr, state(store, T1).leader) == (0, (0,), -1)


def test_the_addresses_are_of_the_configured_protocol(cluster):
    [broker, _] = read_brokers(store_of(cluster, protocol="SASL_SSL"))
    assert (broker.endpoint("SASL_SSL").host, broker.endpoint("PLAINTEXT")) == ("a", None)


def test_brokers_are_asked_again_when_what_is_known_is_older_than_a_second(cluster, clock):
    store = store_of(cluster)
    for _ in range(3):
        assert (len(read_brokers(store)), topic(store), state(store, T0).leader) == (2, {0: (0, 1), 1: (1, 0)}, 0)
    assert cluster.asked == [(A, set()), (A, {"t"})]
    cluster.brokers = {1: B, 2: C}
    cluster.partitions[T0] = PartitionMetadata(1, (1, 2), (1, 2))
    clock.s += 1.1
    assert state(store, T0).leader == 1
    assert [broker.broker_id for broker in read_brokers(store)] == [1, 2]
    assert topic(store)[0] == (1, 2)
    assert cluster.asked[2:] == [(A, {"t"})]


def test_a_topic_that_is_not_there_or_not_there_any_more_has_no_znodes(cluster, clock):
    store = store_of(cluster)
    with pytest.raises(NoNodeError):
        topic(store, "u")
    assert topic(store)
    cluster.partitions = {}
    clock.s += 1.1
    assert state(store, T0) is None
    with pytest.raises(NoNodeError):
        topic(store)
    cluster.partitions = {T0: PartitionMetadata(0, (0,), (0,))}
    clock.s += 1.1
    assert topic(store) == {0: (0,)}


def test_a_topic_that_the_broker_does_not_tell_of_is_no_missing_topic(cluster, clock):
    store = store_of(cluster)
    assert topic(store)
    told, cluster.partitions = cluster.partitions, {}
    cluster.refused["t"] = FetchError(None, "t: no")
    clock.s += 1.1
    for _ in range(2):
        with pytest.raises(FetchError, match="t: no"):
            topic(store)
    assert state(store, T0) is None
    assert cluster.asked[2:] == [(A, {"t"})]
    cluster.partitions, cluster.refused = told, {}
    clock.s += 1.1
    assert topic(store)


def test_a_topic_that_the_broker_does_not_tell_of_hides_no_other(cluster):
    cluster.refused["secret"] = FetchError(None, "secret: no")
    paths = [TopicPath("secret").path, TopicPath("t").path]
    refused, found = store_of(cluster).get_data_many(paths)
    assert refused is None
    assert decode_topic(paths[1], found.data).partitions


def test_another_thread_finds_no_znode_without_its_data(cluster):
    store, path, found = store_of(cluster), TopicPath("t").path, []
    store.exists(path, lambda _: found.append(MemoryStore.get_data(store, path).data))
    assert topic(store)
    assert decode_topic(path, found[0]).partitions


def test_any_broker_will_do_those_of_the_user_and_those_that_brokers_name(cluster, clock):
    cluster.down[A] = BrokersUnavailableError("a is down")
    store = store_of(cluster, A, B)
    assert cluster.asked == [(A, set()), (B, set())]
    cluster.brokers = {1: B, 2: C}
    clock.s += 1.1
    assert len(read_brokers(store)) == 2
    cluster.down[B] = BrokersUnavailableError("b is down")
    clock.s += 1.1
    assert len(read_brokers(store)) == 2
    assert [server for server, _ in cluster.asked[2:]] == [B, B, C], "who answered last is asked first"
    cluster.down[C] = BrokersUnavailableError("c is down")
    clock.s += 1.1
    with pytest.raises(
        BrokersUnavailableError,
        match=r"no broker tells of its cluster: c is down; see bootstrap\.servers and security\.protocol$",
    ):
        read_brokers(store)
    del cluster.down[A]
    assert len(read_brokers(store)) == 2


def test_a_broker_that_has_just_started_makes_no_broker_and_no_topic_vanish(cluster, clock):
    store = store_of(cluster, A)
    assert topic(store)
    cluster.just_started.add(A)
    clock.s += 1.1
    assert len(read_brokers(store)) == 2
    assert (topic(store), state(store, T0).leader) == ({0: (0, 1), 1: (1, 0)}, 0)
    assert [server for server, _ in cluster.asked[2:]] == [A, B, B]
    cluster.just_started.add(B)
    clock.s += 1.1
    for _ in range(2):
        with pytest.raises(BrokersUnavailableError, match="no broker tells of its cluster: the broker does not know"):
            topic(store)
    cluster.just_started.clear()
    assert topic(store) == {0: (0, 1), 1: (1, 0)}


def test_a_broker_that_broker_hosts_does_not_name_is_not_asked(cluster, clock):
    store = store_of(cluster, A, hosts="a")
    cluster.down[A] = BrokersUnavailableError("a is down")
    clock.s += 1.1
    with pytest.raises(BrokersUnavailableError):
        read_brokers(store)
    assert {server for server, _ in cluster.asked} == {A}


def test_a_refusal_is_told_rather_than_another_broker_that_is_down(cluster):
    cluster.down = {A: BrokerRefusedError("a:9092", "wrong password"), B: BrokersUnavailableError("b is down")}
    with pytest.raises(BrokerRefusedError, match="wrong password"):
        store_of(cluster, B, A)


def test_a_closed_store_asks_nobody(cluster, clock):
    store = store_of(cluster)
    store.close()
    store.close()
    clock.s += 1.1
    with pytest.raises(Exception, match="closed"):
        read_brokers(store)
    assert cluster.asked == [(A, set())]
    assert cluster.is_hung_up


def test_a_store_that_is_closed_while_it_asks_leaves_no_connection_and_asks_no_other_broker(cluster, clock):
    store = store_of(cluster, A, B)
    clock.s += 1.1
    closing = threading.Thread(target=store.close)

    def hang_up():
        closing.start()
        eventually(lambda: cluster.is_hung_up)

    cluster.during[A] = hang_up
    cluster.down[A] = BrokersUnavailableError("hung up")
    with pytest.raises(ConsumerClosedError):
        read_brokers(store)
    closing.join(60)
    assert [server for server, _ in cluster.asked] == [A, A]
    assert cluster.is_hung_up


def test_a_simple_consumer_works_on_it_as_on_zookeeper(cluster):
    kafka = FakeKafka()
    kafka.produce(T0, 3)
    store = BrokerStore((A,), cluster, "PLAINTEXT", BrokerHosts(None))
    fetchers = {"fetcher": FakeFetcher(kafka), "log_offsets": FakeFetchers(kafka)}
    with SimpleConsumer(bootstrap_servers="a:9092", store=store, **fetchers) as consumer:
        assert [message.offset() for message in consumer.fetch(T0, 0)] == [0, 1, 2]
        info = consumer.partitions("t")[T0]
        assert (info.leader.broker_id, [one.broker_id for one in info.followers], info.leader_epoch) == (0, [1], -1)
        with pytest.raises(NoSuchTopicError):
            consumer.fetch(TopicPartition("u", 0), 0)
    assert cluster.is_hung_up


@pytest.mark.parametrize(
    "refusal", [FetchError(None, "u: TOPIC_AUTHORIZATION_FAILED"), BrokersUnavailableError("u: LEADER_NOT_AVAILABLE")]
)
def test_topics_that_the_brokers_refuse_are_errors_of_their_own_parts(cluster, refusal):
    cluster.refused["u"] = refusal
    kafka = FakeKafka()
    kafka.produce(T0, 3)
    store = BrokerStore((A,), cluster, "PLAINTEXT", BrokerHosts(None))
    fetchers = {"fetcher": FakeFetcher(kafka), "log_offsets": FakeFetchers(kafka)}
    with SimpleConsumer(bootstrap_servers="a:9092", store=store, **fetchers) as consumer:
        answers = consumer.fetch_many({TopicPartition("u", 0): 0, T0: 1})
        assert [message.offset() for message in answers[T0]] == [1, 2]
        assert answers[TopicPartition("u", 0)] is refusal
        with pytest.raises(type(refusal)):
            consumer.partitions("u")


def test_no_broker_that_answers_is_an_error_of_all_parts(cluster, clock):
    kafka = FakeKafka()
    store = BrokerStore((A,), cluster, "PLAINTEXT", BrokerHosts(None))
    fetchers = {"fetcher": FakeFetcher(kafka), "log_offsets": FakeFetchers(kafka)}
    with SimpleConsumer(bootstrap_servers="a:9092", store=store, **fetchers) as consumer:
        assert consumer.brokers()
        cluster.down = {A: BrokersUnavailableError("a is down"), B: BrokersUnavailableError("b is down")}
        clock.s += 1.1
        with pytest.raises(BrokersUnavailableError, match="no broker tells of its cluster"):
            consumer.fetch_many({TopicPartition("u", 0): 0, T0: 1})
    assert [server for server, _ in cluster.asked] == [A, A, B]


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a:1", (("a", 1),)),
        (" a.b-c.d:9092 , 10.0.0.1:65535", (("a.b-c.d", 9092), ("10.0.0.1", 65535))),
        ("[::1]:9092", (("::1", 9092),)),
    ],
)
def test_servers_are_hosts_and_ports(text, servers):
    assert parse_servers(text) == servers


@pytest.mark.parametrize(
    "text", ["", "a", "a:", ":9092", "a:0", "a:65536", "a:x", "a:1,", "a b:1", "::1:9", "a:1/c", 7, ["a:1"]]
)
def test_an_invalid_list_of_servers_is_refused_before_any_connection(text):
    with pytest.raises(ConfigError, match=r"bootstrap\.servers=.*must be host:port\[,host:port"):
        SimpleConsumer(bootstrap_servers=text)


def test_a_broker_that_is_silent_as_while_it_starts_is_not_taken_for_an_old_one():
    """A broker before 0.10 closes the connection. A second request, in the old format, would prove nothing."""
    asker = MetadataAsker(ConsumerConfig.load(zookeeper_connect="memory", group_id="g", socket_timeout_ms=100))
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(BrokersUnavailableError, match="no answer to API_VERSIONS in time"):
            asker.ask(server.getsockname(), [])
        server.setblocking(False)
        server.accept()[0].close()
        with pytest.raises(BlockingIOError):
            server.accept()


def test_brokers_and_a_zookeeper_are_one_too_many():
    with pytest.raises(TypeError, match="give either bootstrap_servers or what names a ZooKeeper"):
        SimpleConsumer(bootstrap_servers="a:1", zookeeper_connect="z:2181")
