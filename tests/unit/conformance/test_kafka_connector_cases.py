"""Kafka's expectations of its connector: members join one after another, read, commit, and own their shares.

The fetcher handles brokers, leaders and compression; other tests try them against real brokers.
Cases: Kafka 0.8 to 0.10.2.2, ZookeeperConsumerConnectorTest.
"""

from __future__ import annotations

import pytest

from legacy_consumer import ConsumerTimeoutError, Phase
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually
from zk_layout.codecs import decode_registration
from zk_layout.model import TopicPartition

GROUP, TOPIC = "group1", "topic1"
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


@pytest.fixture
def cluster():
    cluster = MemberCluster({TOPIC: 2}, GROUP, consumer_timeout_ms=2000)
    yield cluster
    cluster.close()


def take(stream, count):
    """Return the next `count` messages: {(partition, offset)}."""
    return {(m.partition(), m.offset()) for m in (next(stream) for _ in range(count))}


def test_a_consumer_without_messages_times_out_again_and_again(cluster):
    connector = cluster.connector(consumer_id="consumer0", consumer_timeout_ms=20)
    [stream] = connector.create_message_streams({TOPIC: 1})[TOPIC]
    for _ in range(2):
        with pytest.raises(ConsumerTimeoutError):
            next(stream)
    connector.shutdown()
    assert cluster.admin.get_children(f"/consumers/{GROUP}/ids") == ()
    assert cluster.owners(TOPIC) == []


def test_consumers_come_one_after_another_and_each_message_is_read_once(cluster):
    for tp in (P0, P1):
        cluster.kafka.produce(tp, 2)
    first = cluster.connector(consumer_id="consumer1")
    [stream1] = first.create_message_streams({TOPIC: 1})[TOPIC]
    assert take(stream1, 4) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert cluster.owners(TOPIC) == [("0", "group1_consumer1-0"), ("1", "group1_consumer1-0")]
    first.commit_offsets()
    assert (cluster.committed(P0), cluster.committed(P1)) == (2, 2)

    second = cluster.connector(consumer_id="consumer2")
    [stream2] = second.create_message_streams({TOPIC: 1})[TOPIC]
    assert cluster.owners(TOPIC) == [("0", "group1_consumer1-0"), ("1", "group1_consumer2-0")]
    for tp in (P0, P1):
        cluster.kafka.produce(tp, 2)
    assert take(stream1, 2) == {(0, 2), (0, 3)}
    assert take(stream2, 2) == {(1, 2), (1, 3)}

    # a member that subscribes to no topic changes nothing
    third = cluster.connector(consumer_id="consumer3")
    assert third.create_message_streams({}) == {}
    assert third.status.phase is Phase.STABLE
    registered = cluster.admin.get_data(f"/consumers/{GROUP}/ids/group1_consumer3").data
    assert decode_registration("/", registered).subscription == ()
    for tp in (P0, P1):
        cluster.kafka.produce(tp, 2)
    assert take(stream1, 2) == {(0, 4), (0, 5)}
    assert take(stream2, 2) == {(1, 4), (1, 5)}
    assert cluster.owners(TOPIC) == [("0", "group1_consumer1-0"), ("1", "group1_consumer2-0")]


def test_a_partly_read_and_uncommitted_range_is_read_again_whole(cluster):
    for tp in (P0, P1):
        cluster.kafka.produce(tp, 200)
    with cluster.connector(consumer_id="consumer0", auto_commit_enable=False) as connector:
        [stream] = connector.create_message_streams({TOPIC: 1})[TOPIC]
        take(stream, 100)
        assert cluster.owners(TOPIC) == [("0", "group1_consumer0-0"), ("1", "group1_consumer0-0")]
    [stream] = cluster.connector(consumer_id="consumer0").create_message_streams({TOPIC: 1})[TOPIC]
    assert take(stream, 400) == {(p, offset) for p in (0, 1) for offset in range(200)}
    assert cluster.owners(TOPIC) == [("0", "group1_consumer0-0"), ("1", "group1_consumer0-0")]


def test_a_topic_of_one_partition_belongs_to_the_only_consumer_and_to_nobody_else(cluster):
    cluster.create_topic("single", 1)
    cluster.kafka.produce(TopicPartition("single", 0), 2)
    connector = cluster.connector(consumer_id="consumer1")
    [stream] = connector.create_message_streams({"single": 1})["single"]
    assert list(connector.status.owned) == [TopicPartition("single", 0)]
    assert cluster.owners("single") == [("0", "group1_consumer1-0")]
    assert take(stream, 2) == {(0, 0), (0, 1)}


class Listener:
    """A rebalance listener that records its calls."""

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
    first = cluster.connector(consumer_id="consumer1")
    first.set_rebalance_listener(one)
    first.create_message_streams({TOPIC: 1})
    assert one.released == []
    assert one.started == [{P0: "group1_consumer1-0", P1: "group1_consumer1-0"}]
    assert one.whole == one.started[0]

    second = cluster.connector(consumer_id="consumer2")
    second.set_rebalance_listener(two)
    second.create_message_streams({TOPIC: 1})
    eventually(lambda: one.whole == {P0: "group1_consumer1-0", P1: "group1_consumer2-0"})
    assert one.released == [[P1]]
    assert two.started == [{P1: "group1_consumer2-0"}]
    assert two.whole == one.whole
    assert cluster.owners(TOPIC) == [("0", "group1_consumer1-0"), ("1", "group1_consumer2-0")]
