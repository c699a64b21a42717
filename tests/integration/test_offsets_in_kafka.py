"""Offsets in Kafka, alone and beside ZooKeeper, and topics that an operator deletes and creates again; real brokers."""

import logging
import threading
import uuid

import pytest

from legacy_consumer import ConsumerConnector, Phase, TopicPartition
from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import CommitFailedError, GroupOffsetsUnavailableError
from legacy_consumer.fetching.librdkafka import open_group_offsets, produce_all
from legacy_consumer.offsets import KafkaOffset
from tests.support.broker_cluster import on_every_broker
from tests.support.jvm_member import JvmMember, Subscription
from tests.support.waiting import eventually
from zk_layout.errors import NoNodeError

pytestmark = [pytest.mark.kafka]

IN_KAFKA = {"offsets_storage": "kafka", "dual_commit_enabled": False}
IN_BOTH = {"offsets_storage": "kafka", "dual_commit_enabled": True}
IN_ZOOKEEPER = {"offsets_storage": "zookeeper"}


def on(*versions):
    return pytest.mark.parametrize("broker_version", versions)


class Topic:
    """A topic for one test alone, with numbered messages in two partitions, and a group for it."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.name = f"t-{uuid.uuid4().hex[:8]}"
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self.next = 0
        self.connectors = []
        self.create()

    def create(self):
        self.cluster.kafka.create_topic(self.name, partitions=2)

    def recreate(self):
        self.cluster.kafka.delete_topic(self.name)
        self.create_again()

    def create_again(self):
        # several tries, because the controller removes the topic's configuration after the topic
        eventually(lambda: self.create() is None)

    def produce(self, count):
        numbers = range(self.next, self.next + count)
        self.next += count
        produce_all(self.name, [(b"k", b"%d" % n, n % 2) for n in numbers], self.cluster.producer_settings)
        return list(numbers)

    def stream(self, **properties):
        properties = {
            "zookeeper_connect": self.cluster.kafka.zookeeper_connect,
            "group_id": self.group,
            "auto_offset_reset": "smallest",
            "consumer_timeout_ms": 60_000,
            "offsets_channel_backoff_ms": 200,
            **properties,
        }
        self.connectors.append(ConsumerConnector(**properties))
        return self.connectors[-1], self.connectors[-1].create_message_streams({self.name: 1})[self.name][0]

    def in_zookeeper(self):
        path = f"/consumers/{self.group}/offsets/{self.name}"
        try:
            return {int(p): int(self.cluster.store.get_data(f"{path}/{p}").data) for p in self.children(path)}
        except NoNodeError:
            return {}

    def children(self, path):
        return self.cluster.store.get_children(path)

    def set_in_zookeeper(self, offset):
        for partition in (0, 1):
            self.cluster.store.set_data(f"/consumers/{self.group}/offsets/{self.name}/{partition}", b"%d" % offset)

    def in_kafka(self):
        config = ConsumerConfig.load(zookeeper_connect=self.cluster.kafka.zookeeper_connect, group_id=self.group)
        offsets = open_group_offsets(config, self.cluster.store)
        try:
            found = offsets.read([self.tp(0), self.tp(1)], 10.0)
        finally:
            offsets.close()
        return {tp.partition: kept.offset for tp, kept in found.items() if kept.offset is not None}

    def set_in_kafka(self, offset):
        config = ConsumerConfig.load(zookeeper_connect=self.cluster.kafka.zookeeper_connect, group_id=self.group)
        offsets = open_group_offsets(config, self.cluster.store)
        try:
            offsets.read([self.tp(0)], 10.0)
            assert offsets.write({self.tp(n): KafkaOffset(offset) for n in (0, 1)}, 10.0) is None
        finally:
            offsets.close()

    def tp(self, partition):
        return TopicPartition(self.name, partition)

    def close(self):
        for connector in self.connectors:
            connector.shutdown()


@pytest.fixture
def topic(cluster):
    topic = Topic(cluster)
    yield topic
    topic.close()


def take(stream, count):
    return sorted(int(message.value()) for _, message in zip(range(count), stream, strict=False))


def is_silent(stream):
    """Ask the stream for more, and return whether no message comes."""
    return list(next(stream.batches(timeout=0.3))) == []


@on_every_broker
def test_offsets_are_kept_in_kafka_alone_and_the_next_consumer_continues_there(topic):
    first = topic.produce(100)
    connector, stream = topic.stream(**IN_KAFKA)
    assert take(stream, 100) == first
    connector.commit_offsets()
    connector.shutdown()
    assert topic.in_kafka() == {0: 50, 1: 50}
    assert topic.in_zookeeper() == {}
    second = topic.produce(10)
    _, stream = topic.stream(**IN_KAFKA)
    assert take(stream, 10) == second


@on_every_broker
def test_offsets_are_kept_in_both_and_the_greater_one_counts(topic):
    topic.produce(100)
    connector, stream = topic.stream(**IN_BOTH)
    take(stream, 100)
    connector.commit_offsets()
    connector.shutdown()
    assert topic.in_kafka() == topic.in_zookeeper() == {0: 50, 1: 50}
    topic.set_in_zookeeper(10)
    connector, stream = topic.stream(**IN_BOTH)
    assert is_silent(stream)
    connector.shutdown()
    topic.set_in_zookeeper(40)
    topic.set_in_kafka(30)
    connector, stream = topic.stream(**IN_BOTH)
    assert take(stream, 20) == list(range(80, 100))
    assert is_silent(stream)
    connector.commit_offsets()
    assert topic.in_kafka() == topic.in_zookeeper() == {0: 50, 1: 50}


@pytest.mark.parametrize("storage", [IN_ZOOKEEPER, IN_KAFKA, IN_BOTH], ids=["zookeeper", "kafka", "both"])
@on_every_broker
def test_a_topic_created_again_while_no_consumer_runs_is_read_from_its_beginning(topic, caplog, storage):
    topic.produce(100)
    connector, stream = topic.stream(**storage)
    take(stream, 100)
    connector.shutdown()
    topic.recreate()
    fresh = topic.produce(120)
    with caplog.at_level(logging.WARNING):
        connector, stream = topic.stream(**{**storage, "auto_offset_reset": "largest"})
        if storage is IN_KAFKA and topic.cluster.version != "0.8.2.2":
            # from 0.10 on the broker itself drops the offsets of a deleted topic, so the member has nothing to report
            assert "deleted" not in caplog.text
            return
        assert take(stream, 120) == fresh
    assert "were written for a topic that was deleted since" in caplog.text
    connector.commit_offsets()
    if storage is not IN_KAFKA:
        assert topic.in_zookeeper() == {0: 60, 1: 60}
    if storage is not IN_ZOOKEEPER:
        assert topic.in_kafka() == {0: 60, 1: 60}


@pytest.mark.parametrize("storage", [IN_ZOOKEEPER, IN_KAFKA, IN_BOTH], ids=["zookeeper", "kafka", "both"])
@on("1.1.1", "3.9.1")
def test_a_topic_created_again_while_it_is_consumed_is_read_from_its_beginning(topic, caplog, storage):
    topic.produce(100)
    connector, stream = topic.stream(**storage, auto_commit_interval_ms=100)
    take(stream, 100)
    seen, ended = [], threading.Event()

    def consume():
        for message in stream:
            seen.append(int(message.value()))
        ended.set()

    thread = threading.Thread(target=consume)
    with caplog.at_level(logging.INFO):
        thread.start()
        topic.cluster.kafka.delete_topic(topic.name)
        assert connector.wait_until(lambda status: not status.owned and status.phase is Phase.STABLE, 60)
        assert not ended.is_set(), "its stream waits"
        told_going = complaints(caplog)
        topic.create_again()
        fresh = topic.produce(60)
        eventually(lambda: len(seen) >= 60)
    assert sorted(seen) == fresh
    connector.shutdown()
    thread.join(10)
    assert caplog.text.count("was deleted, its streams wait") == 1
    told_coming = complaints(caplog)[len(told_going) :]
    for told in (told_going, told_coming):
        assert len(set(told)) == len(told), "each way in which a partition goes or comes is told once"
    if storage is not IN_KAFKA:
        assert topic.in_zookeeper() == {0: 30, 1: 30}


def complaints(caplog):
    return [record.getMessage() for record in caplog.records if ": waiting: " in record.getMessage()]


@on("1.1.1")
def test_without_a_coordinator_a_commit_fails_in_time_and_the_znodes_get_it_all_the_same(topic):
    topic.produce(100)
    connector, stream = topic.stream(
        **IN_BOTH, offsets_channel_socket_timeout_ms=500, offsets_commit_max_retries=1, drain_timeout_ms=1000
    )
    take(stream, 100)
    (broker,) = topic.cluster.kafka.brokers
    broker.stop()
    try:
        with pytest.raises(CommitFailedError, match="were not committed to Kafka"):
            connector.commit_offsets()
        assert topic.in_zookeeper() == {0: 50, 1: 50}
        connector.shutdown()
        assert topic.children(f"/consumers/{topic.group}/ids") == ()
    finally:
        broker.start()


IMPATIENT = {"offsets_channel_socket_timeout_ms": 500, "rebalance_max_retries": 2, "rebalance_backoff_ms": 200}


@on("1.1.1")
def test_without_a_coordinator_no_member_joins(topic):
    (broker,) = topic.cluster.kafka.brokers
    broker.stop()
    try:
        with pytest.raises(GroupOffsetsUnavailableError, match="cannot be read from Kafka"):
            topic.stream(**IN_KAFKA, **IMPATIENT)
    finally:
        broker.start()
    assert not topic.cluster.store.exists(f"/consumers/{topic.group}")


@on("1.1.1")
def test_a_member_that_takes_over_without_a_coordinator_is_degraded_until_one_answers(topic):
    numbers = topic.produce(10)
    staying, stream = topic.stream(**IN_KAFKA, **IMPATIENT)
    leaving, _ = topic.stream(**IN_KAFKA, **IMPATIENT)
    assert staying.wait_until(lambda status: len(status.owned) == 1, 20)
    (broker,) = topic.cluster.kafka.brokers
    broker.stop()
    try:
        leaving.shutdown()
        assert staying.wait_until(lambda status: status.phase is Phase.DEGRADED, 20)
        assert "cannot be read from Kafka" in str(staying.status.error)
    finally:
        broker.start()
    assert sorted(take(stream, 10)) == numbers
    assert staying.wait_until(lambda status: status.phase is Phase.STABLE, 10)


@on("1.1.1")
def test_an_offset_that_another_client_set_in_kafka_is_reported_and_adopted_if_configured(topic, caplog):
    topic.produce(100)
    connector, stream = topic.stream(**IN_KAFKA, commit_conflict="adopt")
    take(stream, 100)
    connector.commit_offsets()
    topic.set_in_kafka(40)
    result = connector.commit_offsets()
    assert {tp.partition: found.offset for tp, found in result.foreign.items()} == {0: 40, 1: 40}
    assert "another client committed 40" in caplog.text
    assert take(stream, 20) == list(range(80, 100))


# a member of 1.1.1 cannot fetch from a broker of 0.8.2.2
@pytest.mark.interop
@pytest.mark.parametrize(
    ("broker_version", "member"), [("0.8.2.2", "0.8.2.2"), ("1.1.1", "0.8.2.2"), ("1.1.1", "1.1.1")]
)
def test_a_jvm_member_continues_where_ours_stopped_and_ours_where_it_stopped(topic, programs, member):
    properties = {
        "zookeeper.connect": topic.cluster.kafka.zookeeper_connect,
        "group.id": topic.group,
        "offsets.storage": "kafka",
        "dual.commit.enabled": "true",
        "auto.offset.reset": "smallest",
        "auto.commit.enable": "false",
    }
    first = topic.produce(100)
    connector, stream = topic.stream(**IN_BOTH)
    assert take(stream, 100) == first
    connector.commit_offsets()
    connector.shutdown()
    topic.produce(40)
    jvm = JvmMember(programs, member, topic.group, Subscription("static", f"{topic.name}:1"), properties)
    try:
        jvm.wait_until(lambda: len(jvm.consumed) >= 40, "consuming what is left")
        assert sorted((m.tp.partition, m.offset) for m in jvm.consumed) == [
            (partition, offset) for partition in (0, 1) for offset in range(50, 70)
        ]
        jvm.commit()
        jvm.shutdown()
        jvm.await_end()
    finally:
        jvm.kill()
    assert topic.in_kafka() == topic.in_zookeeper() == {0: 70, 1: 70}
    third = topic.produce(10)
    _, stream = topic.stream(**IN_BOTH)
    assert take(stream, 10) == third


@on("0.8.2.2", "1.1.1", "3.9.1")
def test_after_its_coordinator_was_restarted_a_member_commits_again(topic):
    topic.produce(100)
    connector, stream = topic.stream(**IN_KAFKA, offsets_commit_max_retries=30)
    take(stream, 100)
    connector.commit_offsets()
    (broker,) = topic.cluster.kafka.brokers
    broker.stop()
    broker.start()
    topic.produce(20)
    take(stream, 20)
    connector.commit_offsets()
    assert topic.in_kafka() == {0: 60, 1: 60}


@pytest.mark.interop
@on("1.1.1")
@pytest.mark.parametrize("member", ["0.8.2.2", "1.1.1"])
def test_a_jvm_member_that_joins_takes_its_half_exactly_and_gives_it_back(topic, programs, member):
    seen = []
    connector, stream = topic.stream(**IN_BOTH, consumer_timeout_ms=-1)

    def consume():
        for message in stream:
            seen.append((message.partition(), message.offset()))

    thread = threading.Thread(target=consume)
    thread.start()
    properties = {
        "zookeeper.connect": topic.cluster.kafka.zookeeper_connect,
        "group.id": topic.group,
        "offsets.storage": "kafka",
        "auto.offset.reset": "smallest",
        "rebalance.backoff.ms": "500",
        "rebalance.max.retries": "20",
    }
    topic.produce(100)
    eventually(lambda: len(seen) == 100)
    # a JVM member reads offsets before it claims, so it would hand out again whatever ours commits in between
    eventually(lambda: connector.commit_offsets() and topic.in_kafka() == {0: 50, 1: 50})
    jvm = JvmMember(programs, member, topic.group, Subscription("static", f"{topic.name}:1"), properties)
    try:
        eventually(lambda: len(connector.status.owned) == 1)
        topic.produce(100)
        jvm.wait_until(lambda: len(jvm.consumed) == 50, "consuming its half")
        eventually(lambda: len(seen) == 150)
        jvm.shutdown()
        jvm.await_end()
    finally:
        jvm.kill()
    eventually(lambda: len(connector.status.owned) == 2)
    topic.produce(20)
    eventually(lambda: len(seen) == 170)
    connector.shutdown()
    thread.join(10)
    theirs = [(message.tp.partition, message.offset) for message in jvm.consumed]
    assert sorted(seen + theirs) == [(partition, offset) for partition in (0, 1) for offset in range(110)]
    assert topic.in_kafka() == topic.in_zookeeper() == {0: 110, 1: 110}
