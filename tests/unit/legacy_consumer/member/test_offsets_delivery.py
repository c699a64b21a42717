"""Whole connectors, in memory: with offsets in Kafka, and with topics that are deleted and created again."""

import logging
import threading

import pytest

from legacy_consumer import ConsumerConnector, Phase
from legacy_consumer.errors import CommitFailedError, GroupOffsetsUnavailableError
from tests.support.fake_group_offsets import FakeGroupOffsets
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition
from zk_layout.store import CreateOp, DeleteOp

TPS = [TopicPartition("t", n) for n in range(2)]
IN_KAFKA = {"offsets_storage": "kafka", "dual_commit_enabled": False}
IN_BOTH = {"offsets_storage": "kafka", "dual_commit_enabled": True}
QUICK = {"offsets_channel_backoff_ms": 1, "offsets_channel_socket_timeout_ms": 20}


class Cluster:
    """An in-memory ZooKeeper, logs and a group's coordinator; the connectors made here are shut down at the end."""

    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.kafka = FakeKafka()
        self.group_offsets = FakeGroupOffsets()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.admin.ensure_path("/brokers/topics")
        self.create_topic()
        self.connectors = []

    def create_topic(self, messages=0):
        self.kafka.ends.update(dict.fromkeys(TPS, messages))
        self.admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,), 1: (0,)})))

    def delete_topic(self):
        self.admin.delete("/brokers/topics/t")

    def stream(self, **properties):
        connector = ConsumerConnector(
            store=MemoryStore(self.zookeeper),
            fetchers=FakeFetchers(self.kafka),
            group_offsets=self.group_offsets,
            **{
                "zookeeper_connect": "memory",
                "group_id": "g",
                "auto_offset_reset": "smallest",
                "consumer_timeout_ms": 20_000,
                **QUICK,
                **properties,
            },
        )
        self.connectors.append(connector)
        return connector, connector.create_message_streams({"t": 1})["t"][0]

    def committed(self):
        return [int(self.admin.get_data(f"/consumers/g/offsets/t/{n}").data) for n in (0, 1)]

    def in_kafka(self):
        return [self.group_offsets.kept[tp].offset for tp in TPS]


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.group_offsets.down = 0
    for connector in cluster.connectors:
        connector.shutdown()
    assert not [thread for thread in threading.enumerate() if "coordinator" in thread.name]


def take(stream, count):
    return sorted((m.partition(), m.offset()) for _, m in zip(range(count), stream, strict=False))


def both(offsets):
    return [(partition, offset) for partition in (0, 1) for offset in offsets]


# Commits to Kafka


@pytest.mark.parametrize("storage", [IN_KAFKA, IN_BOTH], ids=["kafka", "both"])
def test_the_next_member_goes_on_where_the_last_one_stopped(cluster, storage):
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    connector, stream = cluster.stream(**storage)
    assert take(stream, 10) == both(range(5))
    connector.commit_offsets()
    connector.shutdown()
    assert cluster.in_kafka() == [5, 5]
    assert (cluster.admin.exists("/consumers/g/offsets") is None) == (storage is IN_KAFKA)
    cluster.kafka.ends.update(dict.fromkeys(TPS, 7))
    _, stream = cluster.stream(**storage)
    assert take(stream, 4) == both(range(5, 7))


def test_an_asked_commit_is_tried_again_as_often_as_configured(cluster):
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    connector, stream = cluster.stream(**IN_BOTH, offsets_commit_max_retries=2)
    take(stream, 10)
    tries = []

    def refuse():
        tries.append(1)
        cluster.group_offsets.down = 1

    cluster.group_offsets.before_write = refuse
    with pytest.raises(CommitFailedError, match="not committed to Kafka"):
        connector.commit_offsets()
    assert len(tries) == 3
    assert cluster.committed() == [5, 5], "ZooKeeper has it"
    cluster.group_offsets.before_write = lambda: None
    connector.commit_offsets()
    assert cluster.in_kafka() == [5, 5], "though ZooKeeper had nothing left to write"


def test_a_member_that_leaves_without_a_coordinator_leaves_within_its_drain_timeout(cluster, caplog):
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    connector, stream = cluster.stream(**IN_KAFKA, drain_timeout_ms=50)
    take(stream, 10)
    cluster.group_offsets.down = 10**9
    with caplog.at_level(logging.WARNING):
        connector.shutdown()
    assert "gives partitions up without a commit" in caplog.text
    assert cluster.admin.get_children("/consumers/g/ids") == ()
    assert cluster.admin.get_children("/consumers/g/owners/t") == ()


@pytest.mark.parametrize("storage", [IN_KAFKA, IN_BOTH], ids=["kafka", "both"])
def test_without_a_coordinator_nobody_joins_and_nobody_is_disturbed(cluster, storage):
    first, _ = cluster.stream(**storage)
    before = cluster.admin.get_children("/consumers/g/ids"), first.status
    cluster.group_offsets.down = 10**9
    with pytest.raises(GroupOffsetsUnavailableError, match=r"cannot be read from Kafka: .*; see whether the brokers"):
        cluster.stream(**storage, rebalance_max_retries=2, rebalance_backoff_ms=10)
    assert (cluster.admin.get_children("/consumers/g/ids"), first.status) == before


def test_a_coordinator_that_is_not_ready_at_once_is_waited_for(cluster):
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    cluster.group_offsets.down = 4
    _, stream = cluster.stream(**IN_KAFKA, offsets_channel_socket_timeout_ms=10, rebalance_backoff_ms=10)
    assert take(stream, 10) == both(range(5))


def test_a_rebalance_goes_on_without_a_coordinator_and_its_new_owner_begins_when_there_is_one(cluster):
    first, stream = cluster.stream(**IN_KAFKA, rebalance_max_retries=1, rebalance_backoff_ms=20)
    second, other = cluster.stream(**IN_KAFKA, drain_timeout_ms=50)
    assert first.wait_until(lambda status: len(status.owned) == 1, 60)
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    for member, own in ((first, stream), (second, other)):
        take(own, 5)
        member.commit_offsets()
    cluster.group_offsets.down = 10**9
    second.shutdown()
    assert first.wait_until(lambda status: status.phase is Phase.DEGRADED, 60)
    assert "cannot be read from Kafka" in str(first.status.error)
    assert len(first.status.owned) == 2, "it knows its share"
    cluster.group_offsets.down = 0
    cluster.kafka.ends.update(dict.fromkeys(TPS, 6))
    assert take(stream, 2) == both([5])
    assert first.wait_until(lambda status: status.phase is Phase.STABLE, 60)


# Topics that are deleted and created again


@pytest.mark.parametrize("storage", [{}, IN_KAFKA, IN_BOTH], ids=["zookeeper", "kafka", "both"])
@pytest.mark.parametrize("messages", [3, 8], ids=["shorter", "longer"])
def test_a_topic_created_again_while_nobody_consumes_is_read_from_its_beginning(cluster, caplog, storage, messages):
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    connector, stream = cluster.stream(**storage)
    take(stream, 10)
    connector.commit_offsets()
    connector.shutdown()
    cluster.delete_topic()
    cluster.create_topic(messages)
    _, stream = cluster.stream(**storage, auto_offset_reset="largest")
    assert take(stream, 2 * messages) == both(range(messages))
    assert "2 partitions were written for a topic that was deleted since (t/0: 5)" in caplog.text


@pytest.mark.parametrize("storage", [{}, IN_KAFKA, IN_BOTH], ids=["zookeeper", "kafka", "both"])
def test_a_topic_created_again_under_its_consumer_is_read_from_its_beginning(cluster, caplog, storage):
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    connector, stream = cluster.stream(**storage, auto_offset_reset="largest")
    cluster.kafka.produce(TPS[0], 5)
    assert take(stream, 5) == [(0, offset) for offset in range(5, 10)]
    connector.commit_offsets()
    cluster.delete_topic()
    eventually(lambda: not connector.status.owned)
    cluster.create_topic(2)
    assert take(stream, 4) == both(range(2))
    connector.commit_offsets()
    if storage is not IN_KAFKA:
        assert cluster.committed() == [2, 2]
    if storage:
        assert cluster.in_kafka() == [2, 2]
    assert caplog.text.count("was deleted, its streams wait") == 1


def test_a_topic_created_again_before_its_deletion_is_seen_is_read_from_its_beginning(cluster, caplog):
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    connector, stream = cluster.stream(auto_commit_enable=False, auto_offset_reset="smallest")
    take(stream, 10)
    data = encode_topic(TopicAssignment({0: (0,), 1: (0,)}))
    cluster.admin.multi([DeleteOp("/brokers/topics/t"), CreateOp("/brokers/topics/t", data)])
    # before that, the stream would begin anew only because its positions are past the ends of the logs
    eventually(lambda: "was deleted and created again" in caplog.text)
    cluster.kafka.ends.update(dict.fromkeys(TPS, 2))
    assert take(stream, 4) == both(range(2))
    assert len(connector.status.owned) == 2


def test_offsets_of_a_deleted_topic_are_not_committed_for_the_next_topic_of_that_name(cluster):
    cluster.kafka.ends.update(dict.fromkeys(TPS, 5))
    connector, stream = cluster.stream()
    take(stream, 6)
    connector.commit_offsets()
    before = cluster.committed()
    take(stream, 3)
    cluster.delete_topic()
    eventually(lambda: not connector.status.owned)
    connector.commit_offsets()
    connector.shutdown()
    assert cluster.committed() == before


@pytest.mark.parametrize("storage", [{}, IN_KAFKA, IN_BOTH])
@pytest.mark.parametrize("is_named", [False, True])
def test_after_a_log_became_shorter_commits_go_back_with_the_position(cluster, storage, is_named):
    """auto.offset.reset=smallest. If is_named, the user's code has committed an offset of the old log by name."""
    cluster.kafka.produce(TPS[0], 10)
    connector, stream = cluster.stream(auto_commit_enable=False, **storage)
    for _ in range(10):
        next(stream)
    connector.commit_offsets({TPS[0]: 10} if is_named else None)
    cluster.kafka.truncate(TPS[0], 4)
    assert [next(stream).offset() for _ in range(3)] == [0, 1, 2]
    connector.commit_offsets()
    assert connector.committed([TPS[0]]) == {TPS[0]: 3}
    connector.shutdown()
    cluster.kafka.produce(TPS[0], 20)
    _, stream = cluster.stream(**storage)
    assert next(stream).offset() == 3
