import json
import logging
import pickle
import threading
import uuid

import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException

from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.fetching.librdkafka.producer import Record
from spark_source.errors import RangeReadError
from spark_source.messages.batch import RangePartition, SharePartition, ZkMessagesReader, read_range
from spark_source.messages.columns import COLUMNS, request_message_columns
from spark_source.messages.options import parse_message_options
from spark_source.messages.ranges import OffsetRange
from spark_source.reasons import reason_of
from tests.spark.conftest import store_of
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import eventually
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition

pytestmark = pytest.mark.kafka

START_MS = 1_700_000_000_000


class Topic:
    """A topic, and reads of zk_messages of it; each frame is queried again after the topic has grown."""

    def __init__(self, kafka, ask, partitions, records, name, settings):
        self.kafka = kafka
        self.name = name or f"t-{uuid.uuid4().hex[:8]}"
        self.partitions = partitions
        self.group = f"g-{self.name}"
        self._ask = ask
        self._settings = {"bootstrap.servers": kafka.bootstrap_servers, **settings}
        kafka.create_topic(self.name, partitions)
        self.produce(records)

    def produce(self, records):
        produce_all(self.name, records, self._settings)

    def commit(self, partition, offset):
        """Commit an offset of the topic's own group."""
        with store_of(self.kafka.zookeeper_connect) as store:
            path = f"/consumers/{self.group}/offsets/{self.name}/{partition}"
            store.ensure_path(path)
            store.set_data(path, b"%d" % offset)

    def grow(self):
        """Produce one more message to each partition, and commit offset 1 in the first one."""
        self.produce([Record(None, b"later", partition, START_MS) for partition in range(self.partitions)])
        self.commit(0, 1)

    def at(self, *offsets):
        """Return these offsets in the form of startingOffsets and endingOffsets."""
        return json.dumps({self.name: dict(enumerate(offsets))})

    def given(self, **options):
        choice = {} if options.keys() & {"whitelist", "blacklist", "partitions"} else {"topics": self.name}
        return {"zookeeper.connect": self.kafka.zookeeper_connect, **choice, **options}

    def collected(self, spark, schema=None, where="true", select="*", **options):
        """Return the rows of a frame in Spark, not sorted, because Spark would not read sorted rows a second time."""

        def load():
            reader = spark.read.format("zk_messages").options(**self.given(**options))
            return (reader.schema(schema) if schema else reader).load().where(where).selectExpr(select).collect

        return self._ask(load, self.grow)

    def reader(self, *columns, **options):
        types = {column.name: column.type.value for column in COLUMNS}
        wanted = request_message_columns((name, types[name], True) for name in columns)
        return ZkMessagesReader(parse_message_options(self.given(**options)), wanted)

    def rows(self, *columns, **options):
        """Return the rows of each task, planned and read in this process; all is pickled in between, as by Spark."""

        def load():
            reader = pickle.dumps(self.reader(*columns, **options))
            tasks = pickle.loads(pickle.dumps(pickle.loads(reader).partitions()))
            return lambda: [
                [row for batch in pickle.loads(reader).read(task) for row in batch.to_pylist()] for task in tasks
            ]

        return self._ask(load, self.grow)

    def offsets(self, **options):
        """Return {partition: its offsets in the order of the rows}."""
        found = {}
        for rows in self.rows("partition", "offset", **options):
            for row in rows:
                found.setdefault(row["partition"], []).append(row["offset"])
        return found

    def reason(self, **options):
        """Return the text of the error that refuses the plan."""
        with pytest.raises(LegacyConsumerError) as caught:
            self.reader("value", **options).partitions()
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        return str(caught.value)


@pytest.fixture
def new_topic(kafka, ask):
    def make(partitions=1, records=(), name=None, kafka=kafka, **settings):
        return Topic(kafka, ask, partitions, records, name, settings)

    return make


@pytest.fixture
def flights(new_topic):
    """Make a topic: partition 0 has 30 messages, 1 has 10, 2 has none. Values are partition:offset; timestamps are a
    second apart. The group has committed 12 in partition 0, and nothing else.
    """
    topic = new_topic(
        3,
        [
            Record(b"k%d" % n if n % 2 else None, b"%d:%d" % (partition, n), partition, START_MS + n * 1000)
            for partition, count in ((0, 30), (1, 10))
            for n in range(count)
        ],
    )
    topic.commit(0, 12)
    return topic


# --- what a row says


def test_all_messages_come_with_the_columns_of_sparks_kafka_source(spark, flights):
    schema = spark.read.format("zk_messages").options(**flights.given()).load().schema
    assert [(f.name, f.dataType.simpleString()) for f in schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    rows = flights.collected(spark)
    assert sorted(row["value"].decode() for row in rows) == sorted(
        f"{p}:{n}" for p, count in ((0, 30), (1, 10)) for n in range(count)
    )
    for row in rows:
        partition, n = map(int, row["value"].split(b":"))
        assert (row["topic"], row["partition"], row["offset"]) == (flights.name, partition, n)
        assert row["key"] == (b"k%d" % n if n % 2 else None)
        assert row["timestamp"].timestamp() * 1000 == START_MS + n * 1000
        assert row["timestampType"] == 0


def test_a_schema_chooses_columns_in_its_own_order_and_spelling(spark, flights):
    rows = flights.collected(spark, "OFFSET bigint, PARTITION int, Value binary", where="offset = 3")
    found = sorted((row.asDict() for row in rows), key=lambda row: row["PARTITION"])
    assert found == [{"OFFSET": 3, "PARTITION": n, "Value": b"%d:3" % n} for n in (0, 1)]


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_headers_come_in_order_from_both_fetchers(new_topic, fetcher):
    headers = [(), (("a", b"1"), ("b", None), ("a", b"")), (), (("ü", b"\xff"),)]
    records = [Record(None, b"%d" % n, 0, START_MS, own) for n, own in enumerate(headers)]
    [rows] = new_topic(1, records).rows("headers", "offset", fetcher=fetcher)
    found = [row["headers"] and tuple((h["key"], h["value"]) for h in row["headers"]) for row in rows]
    assert found == [own or None for own in headers]


def test_nulls_and_headers_arrive(spark, new_topic):
    records = [
        Record(b"k", None, 0, START_MS),
        Record(None, b"", 0, START_MS, (("a", b"1"), ("b", None))),
        Record(None, b"x", 0, START_MS),
    ]
    rows = sorted(new_topic(1, records).collected(spark, includeHeaders="true"), key=lambda row: row["offset"])
    assert [(row["key"], row["value"]) for row in rows] == [(b"k", None), (None, b""), (None, b"x")]
    assert [row["headers"] and [tuple(h) for h in row["headers"]] for row in rows] == [
        None,
        [("a", b"1"), ("b", None)],
        None,
    ]


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_times_that_python_has_no_room_for_are_read_as_numbers(spark, new_topic, fetcher):
    year_10000, micros, nanos = 253_402_300_800_000, START_MS * 1000, START_MS * 1_000_000
    topic = new_topic(1, [Record(None, b"x", 0, ms) for ms in (START_MS, year_10000, micros, nanos)])
    rows = topic.collected(spark, select="struct(offset, unix_millis(timestamp)) as told", fetcher=fetcher)
    # Spark's timestamps cannot hold the last one
    assert sorted(tuple(row["told"]) for row in rows) == [(0, START_MS), (1, year_10000), (2, micros), (3, None)]
    with pytest.raises(OverflowError):
        topic.rows("timestamp", fetcher=fetcher)


# --- the bounds of a read


@pytest.mark.parametrize(
    ("starting", "ending", "expected"),
    [
        ("earliest", "latest", {0: range(30), 1: range(10)}),
        ((25, -2, -1), (-1, 3, 0), {0: range(25, 30), 1: range(3)}),
        (str(START_MS + 8_500), "latest", {0: range(9, 30), 1: range(9, 10)}),
        ("2023-11-14T22:13:28Z", "2023-11-14T23:13:29.5+01:00", {0: range(8, 10), 1: range(8, 10)}),
        (str(START_MS + 3_600_000), "latest", {}),
    ],
    ids=["all", "json", "ms", "iso", "after-all"],
)
@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_a_read_begins_and_ends_at_the_given_offsets(flights, starting, ending, expected, fetcher):
    starting, ending = (text if isinstance(text, str) else flights.at(*text) for text in (starting, ending))
    found = flights.offsets(startingOffsets=starting, endingOffsets=ending, fetcher=fetcher)
    assert found == {partition: list(numbers) for partition, numbers in expected.items()}


def test_a_group_is_read_from_where_it_stands(flights):
    group = {"group.id": flights.group}
    assert flights.offsets(**group) == {0: list(range(12, 30)), 1: list(range(10))}
    assert flights.offsets(**group, **{"auto.offset.reset": "largest"}) == {0: list(range(12, 30))}


def test_a_read_up_to_a_group_ends_at_its_offsets(flights):
    read = {"group.id": flights.group, "startingOffsets": "earliest", "endingOffsets": "committed"}
    assert flights.offsets(**read) == {0: list(range(12))}


def test_offsets_of_an_earlier_topic_of_the_name_count_as_none(kafka, new_topic):
    with store_of(kafka.zookeeper_connect) as store:
        store.create("/consumers/outlived/offsets/reborn/0", b"2", make_parents=True)
        # Some topic must have been deleted, but not this one. If it is created again before the controller has seen the
        # deletion, the controller believes that it knows the topic, and gives its partitions no leader.
        store.create("/brokers/topics/deceased", b"")
        store.delete("/brokers/topics/deceased")
    topic = new_topic(1, [(None, b"x", 0)] * 5, name="reborn")
    assert topic.offsets(**{"group.id": "outlived", "auto.offset.reset": "largest"}) == {0: [0, 1, 2, 3, 4]}


def test_topics_are_chosen_by_name_or_filter(new_topic):
    one, other = (new_topic(1, [(None, b"x", 0)]) for _ in range(2))

    def topics(**choice):
        return {row["topic"] for rows in one.rows("topic", **choice) for row in rows}

    assert topics(whitelist=f"{one.name[:-1]}.|nothing") == {one.name}
    assert topics(whitelist=f"{one.name},{other.name}") == {one.name, other.name}
    assert topics(topics=f"{one.name}, {other.name}") == {one.name, other.name}
    assert topics(blacklist=f"(?!{one.name}).*") == {one.name}


def test_both_fetchers_make_the_same_rows(new_topic):
    records = [
        Record(None if n % 3 else b"k%d" % n, None if n % 5 == 0 else b"v" * n, 0, START_MS + n) for n in range(2000)
    ]
    topic = new_topic(1, records, **{"compression.type": "gzip"})
    names = [column.name for column in COLUMNS if column.name != "headers"]
    bounds = {"startingOffsets": topic.at(7), "endingOffsets": topic.at(1990)}
    [columnar] = topic.rows(*names, fetcher="columnar", **bounds)
    [librdkafka] = topic.rows(*names, fetcher="librdkafka", **bounds)
    assert columnar == librdkafka
    assert [row["offset"] for row in columnar] == list(range(7, 1990))
    assert [row["value"] for row in columnar[:4]] == [b"v" * 7, b"v" * 8, b"v" * 9, None]
    assert {row["timestampType"] for row in columnar} == {0}


def test_a_range_ends_by_position_where_no_message_stands_before_its_end(kafka, new_topic):
    topic = new_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for n in range(5):
        producer.produce(topic.name, b"%d" % n, partition=0)
    producer.commit_transaction(60)
    to_the_mark = {"endingOffsets": topic.at(6)}
    # the marker of the transaction's end has offset 5, and reaches the log a moment later
    eventually(lambda: topic.reader("value", **to_the_mark).partitions())
    for fetcher in ("columnar", "librdkafka"):
        assert topic.offsets(fetcher=fetcher, **to_the_mark) == {0: list(range(5))}


def test_a_reader_of_committed_messages_ends_where_a_transaction_is_open(kafka, new_topic):
    topic = new_topic()

    def begin(number, count):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"undecided-{number}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic.name, b"x", partition=0)
        assert producer.flush(60) == 0
        return producer

    begin(0, 3).commit_transaction(60)  # offsets 0 to 2, and a marker
    begin(1, 2).abort_transaction(60)  # offsets 4 and 5, and a marker
    undecided = begin(2, 2)  # offsets 7 and 8
    topic.produce([(None, b"x", 0)] * 2)
    committed = {"isolation.level": "read_committed"}
    for fetcher in ("columnar", "librdkafka"):
        assert topic.offsets(fetcher=fetcher) == {0: [0, 1, 2, 4, 5, 7, 8, 9, 10]}
        assert topic.offsets(fetcher=fetcher, **committed) == {0: [0, 1, 2]}
    # the group's members have read all messages, also of the open transaction
    topic.commit(0, 9)
    group = {"group.id": topic.group}
    assert topic.offsets(**group, **committed) == {}
    end = {"endingOffsets": topic.at(9), "fetchTimeoutMs": "1"}
    assert topic.reason(**end, **committed).startswith(
        f"transactions are still open in {topic.name}/0 before 9 (from 7"
    )
    undecided.commit_transaction(60)
    for fetcher in ("columnar", "librdkafka"):
        # the marker reaches the log a moment after the producer's call has returned
        eventually(lambda fetcher=fetcher: topic.offsets(fetcher=fetcher, **committed) == {0: [0, 1, 2, 7, 8, 9, 10]})
    assert topic.offsets(**group, **committed) == {0: [9, 10]}


def test_only_the_partitions_that_are_chosen_are_read(flights):
    assert flights.offsets(partitions=json.dumps({flights.name: [1, 2]})) == {1: list(range(10))}
    assert flights.reason(partitions=json.dumps({flights.name: [1, 3]})) == f"partitions: there is no {flights.name}/3"


# --- the division into tasks


def test_big_partitions_are_cut_into_tasks(flights):
    everything = [(p, n) for p, count in ((0, 30), (1, 10)) for n in range(count)]

    def read(**options):
        tasks = flights.rows("partition", "offset", **options)
        assert [(row["partition"], row["offset"]) for rows in tasks for row in rows] == everything
        assert [len(rows) for rows in tasks].pop() == 0  # the task of the empty partition
        return [len(rows) for rows in tasks][:-1]

    assert read() == [30, 10]
    assert read(maxRecordsPerPartition="7") == [6, 6, 6, 6, 6, 5, 5]
    assert read(minPartitions="8") == [5, 5, 5, 5, 5, 5, 5, 5]


def test_nothing_to_read_is_an_empty_frame(spark, flights):
    assert flights.collected(spark, startingOffsets=flights.at(30, 10, 0)) == []


@pytest.mark.parametrize("starting", ["latest", str(START_MS + 3_600_000)])
def test_a_plan_without_messages_warns(flights, caplog, starting):
    with caplog.at_level(logging.WARNING):
        flights.reader("value", startingOffsets=starting).partitions()
    assert "nothing is to be read now, in none of 3 partitions" in caplog.text


# --- refusals and their texts


def test_an_error_of_planning_is_an_analysis_exception_of_one_line(spark, flights):
    with pytest.raises(AnalysisException) as caught:
        flights.collected(spark, startingOffset="earliest")
    # Spark passes names of options in lower case
    assert reason_of(caught.value) == ("startingoffset: no such option of zk_messages, did you mean startingOffsets?")
    with pytest.raises(AnalysisException) as caught:
        flights.collected(spark, topics="flihgts")
    assert reason_of(caught.value).startswith("topic 'flihgts' does not exist")


def test_a_filter_without_a_matching_topic_is_an_error(flights):
    assert flights.reason(whitelist="no.*").startswith("whitelist no.* chooses none of the cluster's ")


def test_json_must_name_all_partitions_and_no_other(flights):
    name = flights.name
    assert flights.reason(startingOffsets=json.dumps({name: {"0": 1, "7": 2}})) == (
        f"startingOffsets: has no offset for {name}/1, {name}/2: -2 is earliest, -1 latest; "
        f"names {name}/7, which is not among the partitions that are read"
    )


def test_offsets_outside_the_log_are_named_exactly(flights):
    name = flights.name
    outside = {"startingOffsets": flights.at(40, 2, 0), "endingOffsets": flights.at(45, 14, 0)}
    assert flights.reason(fetchTimeoutMs="500", **outside) == (
        f"messages are lost: {name}/0: 40 lies beyond its end, the log holds 0 to 30, "
        f"{name}/1: 4 before 14 are not there, the log holds 0 to 10; set failOnDataLoss=false to read what is left"
    )


def test_brokers_that_are_down_are_an_error_of_one_line(tree):
    options = parse_message_options({"zookeeper.connect": tree.connect, "topics": "t"})
    with pytest.raises(LegacyConsumerError, match="no broker is registered in ZooKeeper"):
        ZkMessagesReader(options, ()).partitions()


def task_of(topic, wanted, znodes, **options):
    """Return what a stream's task reads of partition 0, in the planned range."""
    options = parse_message_options(topic.given(**options))
    columns = request_message_columns([("value", "binary", True)])
    return read_range(options, columns, RangePartition(OffsetRange(TopicPartition(topic.name, 0), *wanted), znodes))


def test_a_task_without_brokers_ends_within_its_timeout(flights, unused_port):
    nobody = b'{"jmx_port":-1,"timestamp":"1","host":"127.0.0.1","version":1,"port":%d}' % unused_port
    state = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    znodes = {"/brokers/ids/0": nobody, f"/brokers/topics/{flights.name}/partitions/0/state": state}
    with Stopwatch() as watch, pytest.raises(RangeReadError, match=r"/0: got no further than 0 of 5: "):
        list(task_of(flights, (0, 5), znodes, fetchTimeoutMs="800"))
    assert watch.seconds < 10
    whole = SharePartition((OffsetRange(TopicPartition(flights.name, 0), 0, 5),), znodes, {})
    with Stopwatch() as watch, pytest.raises(BrokersUnavailableError):
        list(flights.reader("value", fetchTimeoutMs="800").read(whole))
    assert watch.seconds < 10


def test_a_task_names_the_changes_of_its_range_since_the_plan(flights):
    [task, *_] = flights.reader("value").partitions()
    with pytest.raises(RangeReadError, match=r"/0: got no further than 30 of 35"):
        list(task_of(flights, (30, 35), task.znodes, fetchTimeoutMs="1000"))


def test_a_task_leaves_no_thread_whether_it_is_read_to_its_end_or_not(flights):
    before = set(threading.enumerate())
    reader = flights.reader("value")
    tasks = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(tasks[0])) == 30
    unfinished = reader.read(tasks[1])
    next(unfinished)
    unfinished.close()
    eventually(lambda: set(threading.enumerate()) <= before)


def test_a_column_that_there_is_not_is_refused_when_planned():
    with pytest.raises(LegacyConsumerError) as caught:
        request_message_columns([("value", "string", True)])
    assert str(caught.value) == (
        "column value: has type binary and cannot be read as string: cast it, value.cast('string')"
    )


# --- other brokers


@pytest.fixture(scope="module", params=["0.8.2.2", "3.9.1"])
def other_broker(request, zookeeper):
    with EmbeddedKafka(request.param, zookeeper=zookeeper, chroot=f"/kafka-{request.param}") as started:
        yield started


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_brokers_of_every_age_are_read(other_broker, new_topic, fetcher):
    old = other_broker.version == "0.8.2.2"
    settings = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"} if old else {}
    records = [Record(b"k", b"%d" % n, 0, START_MS + n) for n in range(50)]
    topic = new_topic(1, records, kafka=other_broker, **settings)
    [rows] = topic.rows("value", "offset", "timestamp", "timestampType", fetcher=fetcher)
    assert [(row["value"], row["offset"]) for row in rows] == [(b"%d" % n, n) for n in range(50)]
    # the format of 0.8.2.2 has no timestamps
    kinds = {(row["timestamp"] is None, row["timestampType"]) for row in rows}
    assert kinds == ({(True, -1)} if old else {(False, 0)})
