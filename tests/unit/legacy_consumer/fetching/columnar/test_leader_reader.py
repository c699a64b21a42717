"""The answers of a reader of leaders, and its questions to ZooKeeper."""

import json
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legacy_consumer.errors import KafkaError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.cluster_metadata import ClusterMetadata, PartitionMetadata
from legacy_consumer.fetching.columnar.leaders import LeaderReader
from legacy_consumer.fetching.columnar.protocol.api_versions import Versions
from legacy_consumer.fetching.columnar.protocol.framing import Api
from tests.support.memory_cluster import GuardedStore
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition
from zk_layout.paths import BrokerIdPath, PartitionStatePath

TPS = [TopicPartition("t", number) for number in range(3)]


class Cluster:
    def __init__(self):
        self.server = MemoryZooKeeper()
        self.store = MemoryStore(self.server)
        self.store.start()
        self.store.ensure_path("/brokers/ids")

    def write(self, path, value):
        data = json.dumps(value).encode()
        if self.store.exists(path) is None:
            self.store.create(path, data, make_parents=True)
        else:
            self.store.set_data(path, data)

    def register(self, broker, port):
        self.write(BrokerIdPath(broker).path, {"version": 1, "jmx_port": -1, "host": "127.0.0.1", "port": port})

    def leave(self, broker):
        if self.store.exists(BrokerIdPath(broker).path) is not None:
            self.store.delete(BrokerIdPath(broker).path)

    def lead(self, partition, broker):
        state = {"version": 1, "controller_epoch": 1, "leader": broker, "leader_epoch": 0, "isr": [1]}
        self.write(PartitionStatePath(*TPS[partition]).path, state)

    def reader(self, open_connection=None):
        return LeaderReader(self.store, "PLAINTEXT", open_connection, timeout_s=1)

    def asked(self, reader, partitions=TPS):
        before = self.server.requests.copy()
        reader.read(partitions)
        return dict(self.server.requests - before)


class LosableStore(MemoryStore):
    is_lost = False

    def get_children(self, path, watcher=None):
        self._check()
        return super().get_children(path, watcher)

    def get_data_many(self, paths, watcher=None):
        self._check()
        return super().get_data_many(paths, watcher)

    def _check(self):
        if self.is_lost:
            raise ConnectionLostError("connection lost")


class Brokers:
    """Brokers that answer from knows, {broker: its ClusterMetadata}. asked: the brokers that were asked, in order."""

    def __init__(self, monkeypatch, version, knows):
        monkeypatch.setattr("legacy_consumer.fetching.columnar.leaders.decode_metadata", lambda version, known: known)
        self._version = version
        self._knows = knows
        self.asked = []

    def open_connection(self, address):
        return SimpleNamespace(
            address=address,
            versions=Versions({Api.METADATA: self._version}),
            ask=lambda api, body, timeout_s: self._answer(address.broker_id),
            close=lambda: None,
        )

    def _answer(self, broker):
        self.asked.append(broker)
        return self._knows[broker]


def without_zookeeper(cluster, brokers):
    """Return a reader that has read once and then lost ZooKeeper, and the result of that read."""
    store = LosableStore(cluster.server)
    store.start()
    reader = LeaderReader(store, "PLAINTEXT", brokers.open_connection, timeout_s=1)
    before = reader.read(TPS)
    store.is_lost = True
    return reader, before


brokers = st.integers(1, 3)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("register"), brokers, st.integers(9001, 9003)),
        st.tuples(st.just("leave"), brokers),
        st.tuples(st.just("lead"), st.integers(0, 2), st.integers(-1, 3)),
        st.just(("read",)),
        st.just(("list",)),
    ),
    max_size=25,
)


def answer(reader):
    try:
        return reader.read(TPS)
    except KafkaError as error:
        return str(error)


@given(changes)
@settings(max_examples=200)
def test_after_any_change_a_reader_answers_as_a_new_one_does(changes):
    cluster = Cluster()
    reader = cluster.reader()
    for name, *arguments in [*changes, ("read",)]:
        if name == "read":
            assert answer(reader) == answer(cluster.reader())
        elif name == "list":
            with suppress(KafkaError):
                reader.brokers()
        else:
            getattr(cluster, name)(*arguments)


def test_brokers_are_listed_only_if_a_leader_was_or_is_missing():
    cluster = Cluster()
    for broker in (1, 2):
        cluster.register(broker, 9000 + broker)
    for partition in range(3):
        cluster.lead(partition, 1)
    reader = cluster.reader()
    assert cluster.asked(reader) == {"get_children": 1, "multi_read": 1}
    assert cluster.asked(reader) == {"multi_read": 1}
    cluster.lead(0, 3)
    assert cluster.asked(reader) == {"get_children": 1, "multi_read": 2}
    assert cluster.asked(reader) == {"get_children": 1, "multi_read": 1}
    cluster.lead(0, 2)
    assert cluster.asked(reader) == {"get_children": 1, "multi_read": 1}
    assert cluster.asked(reader) == {"multi_read": 1}
    joining = cluster.reader()
    assert joining.brokers().keys() == {1, 2}
    assert cluster.asked(joining) == {"multi_read": 1}


def test_a_znode_that_an_acl_closes_hides_no_other_leader():
    cluster = Cluster()
    for broker in (1, 2):
        cluster.register(broker, 9000 + broker)
        cluster.lead(broker, broker)
    cluster.lead(0, 1)
    guarded = GuardedStore(cluster.server, [BrokerIdPath(2).path, PartitionStatePath(*TPS[1]).path])
    guarded.start()
    reader = LeaderReader(guarded, "PLAINTEXT", None, timeout_s=1)
    for _ in range(2):
        leaders = reader.read(TPS)
        assert {tp: address.broker_id for tp, address in leaders.addresses.items()} == {TPS[0]: 1}
        assert "an ACL forbids it" in leaders.missing[TPS[1]]
        assert "broker 2, is not registered" in leaders.missing[TPS[2]]
    assert reader.brokers().keys() == {1}


def test_brokers_that_cannot_be_read_are_told_once_and_few_by_name(caplog):
    """Any client may register brokers, and the reader reads them every second while a leader is missing."""
    cluster = Cluster()
    cluster.register(1, 9001)
    for broker in range(50, 250):
        cluster.write(BrokerIdPath(broker).path, [])
    reader = cluster.reader()
    for _ in range(3):
        assert set(reader.read(TPS).missing) == set(TPS)
    told = [record.getMessage() for record in caplog.records]
    assert (len(told), told[-1]) == (6, "195 more brokers are left out")
    cluster.write(BrokerIdPath(50).path, {})
    reader.read(TPS)
    assert len(caplog.records) == 7
    caplog.clear()
    assert [broker.broker_id for broker in read_brokers(cluster.store)] == [1]
    assert len(caplog.records) == 6


def test_without_zookeeper_a_broker_that_does_not_know_its_cluster_yet_hides_no_leader(monkeypatch):
    cluster = Cluster()
    for broker in (1, 2):
        cluster.register(broker, 9000 + broker)
        cluster.lead(broker, broker)
    cluster.lead(0, 1)
    addresses = {broker: ("127.0.0.1", 9000 + broker) for broker in (1, 2)}
    told = ClusterMetadata(addresses, {tp: PartitionMetadata(2, (1, 2), (2,)) for tp in TPS})
    knows = {1: ClusterMetadata({}, {}), 2: told}
    brokers = Brokers(monkeypatch, 4, knows)
    reader, _ = without_zookeeper(cluster, brokers)
    assert {tp: address.broker_id for tp, address in reader.read(TPS).addresses.items()} == dict.fromkeys(TPS, 2)
    assert brokers.asked == [1, 2]
    knows[2] = knows[1]
    with pytest.raises(ConnectionLostError):
        reader.read(TPS)


@pytest.mark.parametrize("leader", [-1, 3], ids=["no leader", "leader not registered"])
def test_without_zookeeper_old_brokers_are_asked_for_topics_that_had_no_leader_yet_and_for_no_other(
    leader, monkeypatch
):
    """A broker before 0.11 creates the topic for which a client asks."""
    cluster = Cluster()
    cluster.register(1, 9001)
    cluster.lead(0, leader)
    told = ClusterMetadata({1: ("127.0.0.1", 9001)}, {TPS[0]: PartitionMetadata(1, (1,), (1,))})
    brokers = Brokers(monkeypatch, 1, {1: told})
    reader, before = without_zookeeper(cluster, brokers)
    assert (before.addresses, set(before.missing)) == ({}, set(TPS))
    assert reader.read([TPS[0]]).addresses[TPS[0]].broker_id == 1
    assert brokers.asked == [1]
    unknown = TopicPartition("u", 0)
    assert unknown in reader.read([unknown]).missing
    assert brokers.asked == [1]
