"""What Kafka expects of its connector: members come one after another, read, commit, and own what they should.

Brokers, leaders and compression are the fetcher's part and are tried against real ones elsewhere.
Cases: Kafka 0.8 to 0.10.2.2, ZookeeperConsumerConnectorTest.
"""

from __future__ import annotations

import pytest

from legacy_consumer import ConsumerConnector, ConsumerTimeoutError, Phase
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import decode_registration, encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

GROUP, TOPIC = "group1", "topic1"
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class Cluster:
    """One in-memory ZooKeeper with a topic of two partitions, and its logs."""

    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.kafka = FakeKafka()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.create_topic(TOPIC, 2)
        self.connectors = []

    def create_topic(self, topic, partitions):
        data = encode_topic(TopicAssignment(dict.fromkeys(range(partitions), (0,))))
        self.admin.create(f"/brokers/topics/{topic}", data, make_parents=True)

    def connector(self, name, **properties):
        connector = ConsumerConnector(
            store=MemoryStore(self.zookeeper),
            fetchers=FakeFetchers(self.kafka),
            zookeeper_connect="memory",
            group_id=GROUP,
            consumer_id=name,
            **{"auto_offset_reset": "smallest", "consumer_timeout_ms": 2000, **properties},
        )
        self.connectors.append(connector)
        return connector

    def owners(self, topic=TOPIC):
        """[(partition, owner)] as it stands in ZooKeeper."""
        path = f"/consumers/{GROUP}/owners/{topic}"
        return [
            (child, self.admin.get_data(f"{path}/{child}").data.decode()) for child in self.admin.get_children(path)
        ]

    def offset(self, tp):
        return int(self.admin.get_data(f"/consumers/{GROUP}/offsets/{tp.topic}/{tp.partition}").data)


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    for connector in cluster.connectors:
        connector.shutdown()


def take(stream, count):
    """The next so many messages: {(partition, offset)}."""
    return {(m.partition(), m.offset()) for m in (next(stream) for _ in range(count))}


def test_a_consumer_without_messages_times_out_again_and_again(cluster):
    connector = cluster.connector("consumer0", consumer_timeout_ms=20)
    [stream] = connector.create_message_streams({TOPIC: 1})[TOPIC]
    for _ in range(2):
        with pytest.raises(ConsumerTimeoutError):
            next(stream)
    connector.shutdown()
    assert cluster.admin.get_children(f"/consumers/{GROUP}/ids") == ()
    assert cluster.owners() == []


def test_consumers_come_one_after_another_and_each_message_is_read_once(cluster):
    for tp in (P0, P1):
        cluster.kafka.produce(tp, 2)
    first = cluster.connector("consumer1")
    [stream1] = first.create_message_streams({TOPIC: 1})[TOPIC]
    assert take(stream1, 4) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert cluster.owners() == [("0", "group1_consumer1-0"), ("1", "group1_consumer1-0")]
    first.commit_offsets()
    assert (cluster.offset(P0), cluster.offset(P1)) == (2, 2)

    second = cluster.connector("consumer2")
    [stream2] = second.create_message_streams({TOPIC: 1})[TOPIC]
    assert cluster.owners() == [("0", "group1_consumer1-0"), ("1", "group1_consumer2-0")]
    for tp in (P0, P1):
        cluster.kafka.produce(tp, 2)
    assert take(stream1, 2) == {(0, 2), (0, 3)}
    assert take(stream2, 2) == {(1, 2), (1, 3)}

    # one that asks for nothing changes nothing
    third = cluster.connector("consumer3")
    assert third.create_message_streams({}) == {}
    assert third.status.phase is Phase.STABLE
    registered = cluster.admin.get_data(f"/consumers/{GROUP}/ids/group1_consumer3").data
    assert decode_registration("/", registered).subscription == ()
    for tp in (P0, P1):
        cluster.kafka.produce(tp, 2)
    assert take(stream1, 2) == {(0, 4), (0, 5)}
    assert take(stream2, 2) == {(1, 4), (1, 5)}
    assert cluster.owners() == [("0", "group1_consumer1-0"), ("1", "group1_consumer2-0")]


def test_what_was_read_in_part_and_not_committed_is_read_again_whole(cluster):
    for tp in (P0, P1):
        cluster.kafka.produce(tp, 200)
    with cluster.connector("consumer0", auto_commit_enable=False) as connector:
        [stream] = connector.create_message_streams({TOPIC: 1})[TOPIC]
        take(stream, 100)
        assert cluster.owners() == [("0", "group1_consumer0-0"), ("1", "group1_consumer0-0")]
    [stream] = cluster.connector("consumer0").create_message_streams({TOPIC: 1})[TOPIC]
    assert take(stream, 400) == {(p, offset) for p in (0, 1) for offset in range(200)}
    assert cluster.owners() == [("0", "group1_consumer0-0"), ("1", "group1_consumer0-0")]


def test_a_topic_of_one_partition_belongs_to_the_only_consumer_and_to_nobody_else(cluster):
    cluster.create_topic("single", 1)
    cluster.kafka.produce(TopicPartition("single", 0), 2)
    connector = cluster.connector("consumer1")
    [stream] = connector.create_message_streams({"single": 1})["single"]
    assert list(connector.status.owned) == [TopicPartition("single", 0)]
    assert cluster.owners("single") == [("0", "group1_consumer1-0")]
    assert take(stream, 2) == {(0, 0), (0, 1)}


class Listener:
    """Notes what it is told."""

    def __init__(self):
        self.released = []
        self.started = []
        self.whole = None

    def before_releasing_partitions(self, partitions):
        self.released.append(sorted(partitions))

    def before_starting_fetchers(self, partitions, assignment):
        self.started.append({tp: str(thread) for tp, thread in partitions.items()})
        self.whole = {tp: str(thread) for tp, thread in assignment.items()}


def test_listeners_hear_what_is_theirs_and_the_same_whole(cluster):
    one, two = Listener(), Listener()
    first = cluster.connector("consumer1")
    first.set_rebalance_listener(one)
    first.create_message_streams({TOPIC: 1})
    assert one.released == []
    assert one.started == [{P0: "group1_consumer1-0", P1: "group1_consumer1-0"}]
    assert one.whole == one.started[0]

    second = cluster.connector("consumer2")
    second.set_rebalance_listener(two)
    second.create_message_streams({TOPIC: 1})
    eventually(lambda: one.whole == {P0: "group1_consumer1-0", P1: "group1_consumer2-0"})
    assert one.released == [[P1]]
    assert two.started == [{P1: "group1_consumer2-0"}]
    assert two.whole == one.whole
    assert cluster.owners() == [("0", "group1_consumer1-0"), ("1", "group1_consumer2-0")]
