"""The rows that a query reads and the losses that it reports when logs have gaps, are cut, vanish or are replaced."""

import logging

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from legacy_consumer.fetching.librdkafka import Record
from spark_source.errors import DataLossError
from spark_source.messages.batch import ZkMessagesReader
from spark_source.messages.columns import request_message_columns
from spark_source.messages.options import parse_message_options
from spark_source.messages.stream import ZkMessagesStreamReader
from spark_source.messages.stream_offsets import NOT_BEGUN, from_json, to_json
from tests.spark.conftest import store_of
from tests.support.log_start import delete_records
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition

pytestmark = [pytest.mark.kafka]

COLUMNS = request_message_columns([("offset", "bigint", True), ("key", "binary", True), ("value", "binary", True)])
by_both_fetchers = pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])


def options_of(cluster, topic, **options):
    return parse_message_options({"zookeeper.connect": cluster.kafka.zookeeper_connect, "topics": topic, **options})


def batch_of(cluster, topic, **options):
    return ZkMessagesReader(options_of(cluster, topic, **options), COLUMNS)


def read(reader, tasks):
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


@pytest.fixture
def ask_all(cluster, ask):
    """Return a function that gives the rows of the tasks of one plan. After the test, with one more message, the tasks
    read again, and have to read the same as a fresh plan's tasks.
    """

    def rows(topic, change=None, **options):
        def load():
            reader = batch_of(cluster, topic, **options)
            tasks = reader.partitions()
            return lambda: read(reader, tasks)

        return ask(load, change or (lambda: cluster.produce(topic, [Record(None, b"later", 0)])))

    return rows


def offsets(rows):
    return [row["offset"] for row in rows]


@pytest.fixture
def topic(cluster):
    """Make a topic of one partition with 30 messages, whose values are their offsets."""
    name = cluster.new_topic()
    cluster.produce(name, [Record(None, b"%d" % n, 0) for n in range(30)])
    return name


def cut(cluster, topic, offset):
    delete_records(cluster.kafka.bootstrap_servers, TopicPartition(topic, 0), offset)


# --- gaps


def test_tasks_go_over_the_gaps_that_compaction_leaves(cluster, ask_all):
    topic = cluster.new_topic(
        cleanup_policy="compact",
        segment_bytes="2000",
        segment_index_bytes="4096",
        min_cleanable_dirty_ratio="0.001",
    )
    written = {}

    def produce(times):
        for _ in range(times):
            records = []
            for _ in range(10):
                offset = len(written)
                written[offset] = (b"k%d" % (offset % 7), b"%d" % offset)
                records.append(Record(*written[offset], 0))
            cluster.produce(topic, records)
        # wait until the broker's cleaner has passed everything up to the active segment
        eventually(lambda: cluster.cleaned_up_to(topic) == cluster.active_segment(topic) > 200)

    def produce_more():
        produce(2)

    produce(40)
    cut_up = {"maxRecordsPerPartition": "50"}
    assert len(batch_of(cluster, topic, **cut_up).partitions()) == 8
    for fetcher in ("columnar", "librdkafka"):
        rows = ask_all(topic, produce_more, fetcher=fetcher, **cut_up)
        assert len(rows) < len(written) // 2, "nothing was cleaned"
        assert offsets(rows) == sorted(set(offsets(rows)))
        assert {row["offset"]: (row["key"], row["value"]) for row in rows}.items() <= written.items()
        assert {row["key"]: row["value"] for row in rows} == dict(written.values())


# --- logs that are cut


def test_messages_deleted_before_the_plan_are_named_exactly_or_skipped(cluster, topic, ask_all):
    with store_of(cluster.kafka.zookeeper_connect) as store:
        store.create(f"/consumers/g-{topic}/offsets/{topic}/0", b"5", make_parents=True)
    cut(cluster, topic, 12)
    group = {"group.id": f"g-{topic}"}
    with pytest.raises(DataLossError) as caught:
        batch_of(cluster, topic, **group).partitions()
    assert str(caught.value) == (
        f"messages are lost: {topic}/0: 7 offsets from 5 on are gone, the log holds 12 to 30; "
        "set failOnDataLoss=false to read what is left"
    )
    assert offsets(ask_all(topic, failOnDataLoss="false", **group)) == list(range(12, 30))


@by_both_fetchers
def test_messages_deleted_between_plan_and_task_are_named_exactly_or_skipped(cluster, topic, fetcher, caplog):
    # the broker reports the loss at once; a wait for messages would be longer than a test may last
    given = {"fetcher": fetcher, "maxRecordsPerPartition": "10", "fetchTimeoutMs": "900000"}
    strict, lenient = (batch_of(cluster, topic, failOnDataLoss=fail, **given) for fail in ("true", "false"))
    tasks = strict.partitions()
    cut(cluster, topic, 14)
    with pytest.raises(DataLossError) as caught:
        read(strict, tasks[1:])
    assert f"{topic}/0: 4 offsets from 10 on are gone, the log holds 14 to 30; set " in str(caught.value)
    with caplog.at_level(logging.WARNING):
        assert offsets(read(lenient, tasks)) == list(range(14, 30))
    assert [record.getMessage() for record in caplog.records if "lost: " in record.getMessage()] == [
        f"lost: {topic}/0: 4 offsets from 10 on are gone, the log holds 14 to 30",
    ]


# --- a log that is replaced while a stream reads it


class Query:
    """Drives a stream as Spark does: plans, reads and ends one batch after another."""

    def __init__(self, cluster, topic, done=NOT_BEGUN, **options):
        self.options = options_of(cluster, topic, **options)
        self.reader = ZkMessagesStreamReader(self.options, COLUMNS)
        self.done = to_json(done)
        self.rows = []

    def plan(self, most=None):
        limit = self.reader.getDefaultReadLimit() if most is None else ReadMaxRows(most)
        return self.reader.latestOffset(self.done, limit)

    def carry_out(self, end):
        self.rows += read(self.reader, self.reader.partitions(self.done, end))
        self.done = end

    def run(self, *sizes):
        for most in sizes:
            self.carry_out(self.plan(most))


@pytest.fixture
def start(cluster):
    started = []

    def begin(topic, **options):
        started.append(Query(cluster, topic, **options))
        return started[-1]

    yield begin
    for query in started:
        query.reader.stop()


def test_a_topic_that_is_created_again_is_another_one_though_it_is_longer(cluster, topic, start, caplog):
    group = f"g-{topic}"
    query = start(topic, failOnDataLoss="false", **{"group.id": group})
    query.run(20)
    end = query.plan(5)
    assert cluster.committed(group, topic) == {0: 20}
    cluster.kafka.delete_topic(topic)
    cluster.kafka.create_topic(topic, 1)
    cluster.produce(topic, [Record(None, b"new %d" % n, 0) for n in range(50)])
    again = "its topic was deleted and created again"
    with caplog.at_level(logging.WARNING):
        query.carry_out(end)
    assert f"lost: {topic}/0: {again}: 5 offsets from 20 on, and what came later, were not read" in caplog.text
    query.reader.stop()
    # a restarted query recognises the other topic by its checkpoint
    strict = start(topic, done=from_json(query.done))
    with pytest.raises(DataLossError, match=f"{again}: whatever it had from 25 on was not read; the batch before may "):
        strict.plan()
    query.run(None, None)
    assert [row["value"] for row in query.rows] == [b"%d" % n for n in range(20)] + [b"new %d" % n for n in range(50)]
    assert cluster.committed(group, topic) == {0: 50}
