"""Queries on one DataFrame while the cluster changes: each answer is that of a fresh DataFrame."""

import json

import pytest

from legacy_consumer.fetching.librdkafka import produce_all
from spark_source.errors import DataLossError
from spark_source.messages.batch import ZkMessagesReader
from spark_source.messages.columns import request_message_columns
from spark_source.messages.options import parse_message_options
from tests.spark.asking import Asking
from tests.spark.conftest import Tree, store_of
from tests.support.log_start import delete_records
from zk_layout.model import TopicPartition

SEED = 17

pytestmark = pytest.mark.timeout(400)  # the first test starts Spark, the servers and the decoder


def test_one_frame_of_offsets_answers_each_query_as_a_fresh_one_does(spark, tree):
    def load():
        reader = spark.read.format("zk_offsets").option("zookeeper.connect", tree.connect).option("numPartitions", "2")
        return reader.schema("group string, topic string, partition int, committed_offset bigint").load()

    names = [f"g{n}" for n in (1, 3, 5)]
    for group in names:
        for partition in range(3):
            tree.commit(group, "t", partition, partition)
    literals = {"group": [f"'g{n}'" for n in (1, 3, 4, 5)], "partition": ["0", "1", "2"]}
    asking = Asking(spark, load(), literals, SEED)
    assert asking.differences(load(), "SELECT * FROM asked") == []
    # a new group that sorts before all others, one where two tasks meet, one behind all; and one group goes
    for group in ("g0", "g4", "g7"):
        tree.commit(group, "t", 2, 7)
    tree.store.set_data("/consumers/g3/offsets/t/1", b"70")
    tree.store.delete("/consumers/g5/offsets/t/0")
    assert asking.differences(load()) == []


def produce(kafka, topic, counts):
    records = [(None, b"x", partition) for partition, count in counts.items() for _ in range(count)]
    produce_all(topic, records, {"bootstrap.servers": kafka.bootstrap_servers})


@pytest.mark.kafka
def test_one_frame_of_messages_answers_each_query_as_a_fresh_one_does(spark, kafka):
    kafka.create_topic("again", partitions=2)
    produce(kafka, "again", {0: 6})
    options = {"zookeeper.connect": kafka.zookeeper_connect, "topics": "again"}

    def load():
        reader = spark.read.format("zk_messages").options(**options)
        return reader.schema("topic string, partition int, offset bigint").load()

    literals = {"offset": [str(n) for n in (0, 2, 3, 5, 7)], "partition": ["0", "1", "2"]}
    asking = Asking(spark, load(), literals, SEED)
    assert asking.differences(load(), "SELECT * FROM asked") == []
    produce(kafka, "again", {0: 2, 1: 3})
    assert asking.differences(load()) == []


@pytest.mark.kafka
@pytest.mark.parametrize("most", ["100", "4"], ids=["whole", "cut"])
def test_each_read_of_one_plan_finds_where_to_begin_and_to_end(kafka, most):
    topic = f"planned-once-{most}"
    kafka.create_topic(topic, partitions=2)
    produce(kafka, topic, {0: 10})
    told = {"zookeeper.connect": kafka.zookeeper_connect, "topics": topic, "maxRecordsPerPartition": most}
    columns = request_message_columns([("partition", "int", True), ("offset", "bigint", True)])
    with store_of(kafka.zookeeper_connect) as store:
        tree = Tree(kafka.zookeeper_connect, store)
        tree.commit(topic, topic, 0, 5)

        def plan(**options):
            reader = ZkMessagesReader(parse_message_options({**told, **options}), columns)
            tasks = reader.partitions()
            return lambda: sorted(
                (row["partition"], row["offset"])
                for task in tasks
                for batch in reader.read(task)
                for row in batch.to_pylist()
            )

        def given(offset):
            return json.dumps({topic: {0: offset, 1: 0}})

        group = {"group.id": topic}
        plans = {
            "all": plan(),
            "left": plan(**group),
            "done": plan(**group, startingOffsets="earliest", endingOffsets="committed"),
            "fixed": plan(startingOffsets=given(3), endingOffsets=given(9)),
        }

        def of_0(start, end):
            return [(0, offset) for offset in range(start, end)]

        found = {"all": of_0(0, 10), "left": of_0(5, 10), "done": of_0(0, 5), "fixed": of_0(3, 9)}
        assert {name: read() for name, read in plans.items()} == found
        produce(kafka, topic, {0: 3, 1: 2})
        tree.store.set_data(f"/consumers/{topic}/offsets/{topic}/0", b"2")
        new = [(1, 0), (1, 1)]
        found = {"all": of_0(0, 13) + new, "left": of_0(2, 13) + new, "done": of_0(0, 2), "fixed": of_0(3, 9)}
        assert {name: read() for name, read in plans.items()} == found
        # retention deletes the first task's range and a part of the next one's; the group is behind both by now
        tree.store.set_data(f"/consumers/{topic}/offsets/{topic}/0", b"11")
        delete_records(kafka.bootstrap_servers, TopicPartition(topic, 0), 6)
        found = {"left": of_0(11, 13) + new}
        if most == "100":
            found |= {"all": of_0(6, 13) + new, "done": of_0(6, 11)}
        else:
            # a task cannot know whether the task before it read its piece before retention deleted a part of both
            with pytest.raises(
                DataLossError, match=f"{topic}/0: [0-9] offsets from [0-9] on are gone, the log holds 6 to 13"
            ):
                plans["all"]()
        assert {name: plans[name]() for name in found} == found
        with pytest.raises(DataLossError, match=r"offsets from 3 on are gone"):
            plans["fixed"]()
