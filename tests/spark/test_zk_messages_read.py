import json
import pickle
import threading
import uuid

import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException

from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.librdkafka import produce_all
from legacy_consumer.librdkafka.producer import Record
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


@pytest.fixture(scope="module")
def flights(kafka):
    """flights: partition 0 has 30 messages, 1 has 10, 2 has none; each says partition:offset, a second apart."""
    kafka.create_topic("flights", partitions=3)
    produce_all(
        "flights",
        [
            Record(b"k%d" % n if n % 2 else None, b"%d:%d" % (partition, n), partition, START_MS + n * 1000)
            for partition, count in ((0, 30), (1, 10))
            for n in range(count)
        ],
        {"bootstrap.servers": kafka.bootstrap_servers},
    )
    return kafka


def given(kafka, **options):
    choice = {} if options.keys() & {"whitelist", "blacklist", "partitions"} else {"topics": "flights"}
    return {"zookeeper.connect": kafka.zookeeper_connect, **choice, **options}


def frame_of(spark, kafka, schema=None, **options):
    reader = spark.read.format("zk_messages").options(**given(kafka, **options))
    return (reader.schema(schema) if schema else reader).load()


def reader_of(kafka, *columns, **options):
    types = {column.name: column.type.value for column in COLUMNS}
    wanted = request_message_columns((name, types[name], True) for name in columns)
    return ZkMessagesReader(parse_message_options(given(kafka, **options)), wanted)


def rows_of(kafka, *columns, **options):
    """The rows of each task, planned and read here, by the way that Spark goes: everything is pickled in between."""
    reader = reader_of(kafka, *columns, **options)
    tasks = pickle.loads(pickle.dumps(reader.partitions()))
    return [
        [row for batch in pickle.loads(pickle.dumps(reader)).read(task) for row in batch.to_pylist()] for task in tasks
    ]


def offsets(kafka, **options):
    """{partition: its offsets in the order they came}"""
    found = {}
    for rows in rows_of(kafka, "partition", "offset", **options):
        for row in rows:
            found.setdefault(row["partition"], []).append(row["offset"])
    return found


def reason(kafka, **options):
    with pytest.raises(LegacyConsumerError) as caught:
        reader_of(kafka, "value", **options).partitions()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


@pytest.fixture
def group(flights):
    """A group that committed offset 12 in partition 0, and nothing else."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    with store_of(flights.zookeeper_connect) as store:
        store.create(f"/consumers/{name}/offsets/flights/0", b"12", make_parents=True)
    return name


# --- what a row says


def test_all_messages_come_with_the_columns_of_sparks_kafka_source(spark, flights):
    frame = frame_of(spark, flights)
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    rows = frame.collect()
    assert sorted(row["value"].decode() for row in rows) == sorted(
        f"{p}:{n}" for p, count in ((0, 30), (1, 10)) for n in range(count)
    )
    for row in rows:
        partition, n = map(int, row["value"].split(b":"))
        assert (row["topic"], row["partition"], row["offset"]) == ("flights", partition, n)
        assert row["key"] == (b"k%d" % n if n % 2 else None)
        assert row["timestamp"].timestamp() * 1000 == START_MS + n * 1000
        assert row["timestampType"] == 0


def test_a_schema_chooses_columns_in_its_own_order_and_spelling(spark, flights):
    frame = frame_of(spark, flights, "OFFSET bigint, Value binary").where("offset = 3")
    assert sorted(row.asDict()["Value"] for row in frame.collect()) == [b"0:3", b"1:3"]
    assert frame.columns == ["OFFSET", "Value"]


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_headers_come_in_order_from_both_fetchers(kafka, fetcher):
    topic = f"headed-{fetcher}"
    kafka.create_topic(topic, partitions=1)
    headers = [(), (("a", b"1"), ("b", None), ("a", b"")), (), (("ü", b"\xff"),)]
    records = [Record(None, b"%d" % n, 0, START_MS, own) for n, own in enumerate(headers)]
    produce_all(topic, records, {"bootstrap.servers": kafka.bootstrap_servers})
    [rows] = rows_of(kafka, "headers", "offset", topics=topic, fetcher=fetcher)
    found = [row["headers"] and tuple((h["key"], h["value"]) for h in row["headers"]) for row in rows]
    assert found == [own or None for own in headers]


def test_nulls_and_headers_arrive(spark, kafka):
    kafka.create_topic("odd", partitions=1)
    records = [
        Record(b"k", None, 0, START_MS),
        Record(None, b"", 0, START_MS, (("a", b"1"), ("b", None))),
        Record(None, b"x", 0, START_MS),
    ]
    produce_all("odd", records, {"bootstrap.servers": kafka.bootstrap_servers})
    rows = frame_of(spark, kafka, topics="odd", includeHeaders="true").orderBy("offset").collect()
    assert [(row["key"], row["value"]) for row in rows] == [(b"k", None), (None, b""), (None, b"x")]
    assert [row["headers"] and [tuple(h) for h in row["headers"]] for row in rows] == [
        None,
        [("a", b"1"), ("b", None)],
        None,
    ]


# --- where it begins and ends


@pytest.mark.parametrize(
    ("starting", "ending", "expected"),
    [
        ("earliest", "latest", {0: range(30), 1: range(10)}),
        ('{"flights":{"0":25,"1":-2,"2":-1}}', '{"flights":{"0":-1,"1":3,"2":0}}', {0: range(25, 30), 1: range(3)}),
        (str(START_MS + 8_500), "latest", {0: range(9, 30), 1: range(9, 10)}),
        ("2023-11-14T22:13:28Z", "2023-11-14T23:13:29.5+01:00", {0: range(8, 10), 1: range(8, 10)}),
        (str(START_MS + 3_600_000), "latest", {}),
    ],
    ids=["all", "json", "ms", "iso", "after-all"],
)
@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_it_reads_from_where_to_where_it_is_told(flights, starting, ending, expected, fetcher):
    found = offsets(flights, startingOffsets=starting, endingOffsets=ending, fetcher=fetcher)
    assert found == {partition: list(numbers) for partition, numbers in expected.items()}


def test_a_group_is_read_from_where_it_stands(flights, group):
    assert offsets(flights, **{"group.id": group}) == {0: list(range(12, 30)), 1: list(range(10))}
    assert offsets(flights, **{"group.id": group, "auto.offset.reset": "largest"}) == {0: list(range(12, 30))}


def test_what_a_group_has_read_is_what_lies_before_its_offsets(flights, group):
    read = {"group.id": group, "startingOffsets": "earliest", "endingOffsets": "committed"}
    assert offsets(flights, **read) == {0: list(range(12))}


def test_offsets_of_an_earlier_topic_of_the_name_count_as_none(kafka):
    with store_of(kafka.zookeeper_connect) as store:
        store.create("/brokers/topics/reborn", b"")
        store.create("/consumers/outlived/offsets/reborn/0", b"2", make_parents=True)
        store.delete("/brokers/topics/reborn")
    kafka.create_topic("reborn", partitions=1)
    produce_all("reborn", [(None, b"x", 0)] * 5, {"bootstrap.servers": kafka.bootstrap_servers})
    options = {"group.id": "outlived", "topics": "reborn", "auto.offset.reset": "largest"}
    assert offsets(kafka, **options) == {0: [0, 1, 2, 3, 4]}


def test_topics_are_chosen_by_name_or_filter(flights):
    flights.create_topic("other", partitions=1)
    produce_all("other", [(None, b"x", 0)], {"bootstrap.servers": flights.bootstrap_servers})

    def topics(**choice):
        return {row["topic"] for rows in rows_of(flights, "topic", **choice) for row in rows}

    assert topics(whitelist="fl.*|nothing") == {"flights"}
    assert topics(whitelist="fl.*,other") == topics(topics="other, flights") == {"flights", "other"}
    assert topics(blacklist="(?!flights).*") == {"flights"}


def test_both_fetchers_make_the_same_rows(kafka):
    kafka.create_topic("same", partitions=1)
    records = [
        Record(None if n % 3 else b"k%d" % n, None if n % 5 == 0 else b"v" * n, 0, START_MS + n) for n in range(2000)
    ]
    produce_all("same", records, {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": "gzip"})
    names = [column.name for column in COLUMNS if column.name != "headers"]
    bounds = {"topics": "same", "startingOffsets": '{"same":{"0":7}}', "endingOffsets": '{"same":{"0":1990}}'}
    [columnar] = rows_of(kafka, *names, fetcher="columnar", **bounds)
    [librdkafka] = rows_of(kafka, *names, fetcher="librdkafka", **bounds)
    assert columnar == librdkafka
    assert [row["offset"] for row in columnar] == list(range(7, 1990))
    assert [row["value"] for row in columnar[:4]] == [b"v" * 7, b"v" * 8, b"v" * 9, None]
    assert {row["timestampType"] for row in columnar} == {0}


def test_a_range_ends_by_position_where_no_message_stands_before_its_end(kafka):
    kafka.create_topic("transactional", partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for n in range(5):
        producer.produce("transactional", b"%d" % n, partition=0)
    producer.commit_transaction(60)
    to_the_mark = {"topics": "transactional", "endingOffsets": '{"transactional":{"0":6}}'}
    # the mark of the transaction's end is offset 5, and comes a moment later
    eventually(lambda: reader_of(kafka, "value", **to_the_mark).partitions())
    for fetcher in ("columnar", "librdkafka"):
        assert offsets(kafka, fetcher=fetcher, **to_the_mark) == {0: list(range(5))}


def test_a_reader_of_committed_messages_ends_where_a_transaction_is_open(kafka):
    kafka.create_topic("undecided", partitions=1)

    def begin(number, count):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"undecided-{number}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for _ in range(count):
            producer.produce("undecided", b"x", partition=0)
        assert producer.flush(60) == 0
        return producer

    begin(0, 3).commit_transaction(60)  # 0 to 2, and a mark
    begin(1, 2).abort_transaction(60)  # 4 and 5, and a mark
    undecided = begin(2, 2)  # 7 and 8
    produce_all("undecided", [(None, b"x", 0)] * 2, {"bootstrap.servers": kafka.bootstrap_servers})
    for fetcher in ("columnar", "librdkafka"):
        wanted = {"topics": "undecided", "fetcher": fetcher}
        assert offsets(kafka, **wanted) == {0: [0, 1, 2, 4, 5, 7, 8, 9, 10]}
        assert offsets(kafka, **wanted, **{"isolation.level": "read_committed"}) == {0: [0, 1, 2]}
    undecided.commit_transaction(60)
    for fetcher in ("columnar", "librdkafka"):
        committed = {"topics": "undecided", "fetcher": fetcher, "isolation.level": "read_committed"}
        # a mark reaches the log a moment after the producer is told
        eventually(lambda committed=committed: offsets(kafka, **committed) == {0: [0, 1, 2, 7, 8, 9, 10]})


def test_only_the_partitions_that_are_chosen_are_read(flights):
    assert offsets(flights, partitions='{"flights": [1, 2]}') == {1: list(range(10))}
    assert reason(flights, partitions='{"flights": [1, 3]}') == "partitions: there is no flights/3"


# --- how it is divided


def test_big_partitions_are_cut_into_tasks(flights):
    everything = [(p, n) for p, count in ((0, 30), (1, 10)) for n in range(count)]

    def read(**options):
        tasks = rows_of(flights, "partition", "offset", **options)
        assert [(row["partition"], row["offset"]) for rows in tasks for row in rows] == everything
        assert [len(rows) for rows in tasks].pop() == 0  # that of the partition which is empty now
        return [len(rows) for rows in tasks][:-1]

    assert read() == [30, 10]
    assert read(maxRecordsPerPartition="7") == [6, 6, 6, 6, 6, 5, 5]
    assert read(minPartitions="8") == [5, 5, 5, 5, 5, 5, 5, 5]


def test_nothing_to_read_is_an_empty_frame(spark, flights):
    frame = frame_of(spark, flights, startingOffsets='{"flights":{"0":30,"1":10,"2":0}}')
    assert frame.collect() == []


# --- what is refused, and how it reads


def test_what_planning_refuses_is_an_analysis_exception_of_one_line(spark, flights):
    with pytest.raises(AnalysisException) as caught:
        frame_of(spark, flights, startingOffset="earliest")
    # Spark hands names of options over in small letters
    assert reason_of(caught.value) == ("startingoffset: no such option of zk_messages, did you mean startingOffsets?")
    with pytest.raises(AnalysisException) as caught:
        frame_of(spark, flights, topics="flihgts").collect()
    assert reason_of(caught.value).startswith("topic 'flihgts' does not exist")


def test_a_filter_that_chooses_nothing_is_told(flights):
    assert reason(flights, whitelist="no.*").startswith("whitelist no.* chooses none of the cluster's ")


def test_json_must_name_all_partitions_and_no_other(flights):
    assert reason(flights, startingOffsets=json.dumps({"flights": {"0": 1, "7": 2}})) == (
        "startingOffsets: has no offset for flights/1, flights/2: -2 is earliest, -1 latest; "
        "names flights/7, which is not among the partitions that are read"
    )


def test_offsets_outside_the_log_are_said_exactly_or_read_around(flights):
    outside = {
        "startingOffsets": '{"flights":{"0":40,"1":2,"2":0}}',
        "endingOffsets": '{"flights":{"0":45,"1":14,"2":0}}',
    }
    assert reason(flights, fetchTimeoutMs="500", **outside) == (
        "messages are lost: flights/0: 40 lies beyond its end, the log holds 0 to 30, "
        "flights/1: 4 before 14 are not there, the log holds 0 to 10; set failOnDataLoss=false to read what is left"
    )
    assert offsets(flights, failOnDataLoss="false", fetchTimeoutMs="2000", **outside) == {
        0: list(range(30)),
        1: list(range(2, 10)),
    }


def test_brokers_that_are_gone_are_one_line(tree):
    options = parse_message_options({"zookeeper.connect": tree.connect, "topics": "t"})
    with pytest.raises(LegacyConsumerError, match="no broker is registered in ZooKeeper"):
        ZkMessagesReader(options, ()).partitions()


def task_of(kafka, wanted, znodes, **options):
    """What a task of a stream reads of flights/0: a range that stays as it was planned."""
    options = parse_message_options(given(kafka, **options))
    columns = request_message_columns([("value", "binary", True)])
    return read_range(options, columns, RangePartition(OffsetRange(TopicPartition("flights", 0), *wanted), znodes))


def test_a_task_without_brokers_ends_within_its_timeout(flights, unused_port):
    nobody = b'{"jmx_port":-1,"timestamp":"1","host":"127.0.0.1","version":1,"port":%d}' % unused_port
    state = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    znodes = {"/brokers/ids/0": nobody, "/brokers/topics/flights/partitions/0/state": state}
    with Stopwatch() as watch, pytest.raises(RangeReadError, match=r"flights/0: got no further than 0 of 5: "):
        list(task_of(flights, (0, 5), znodes, fetchTimeoutMs="800"))
    assert watch.seconds < 10
    whole = SharePartition((OffsetRange(TopicPartition("flights", 0), 0, 5),), znodes, {})
    with Stopwatch() as watch, pytest.raises(BrokersUnavailableError):
        list(reader_of(flights, "value", fetchTimeoutMs="800").read(whole))
    assert watch.seconds < 10


def test_a_task_says_what_became_of_its_range_since_the_plan(flights):
    [task, *_] = reader_of(flights, "value").partitions()
    # long enough for the five that are there to come on a busy machine, too
    with pytest.raises(RangeReadError, match=r"flights/0: got no further than 30 of 35"):
        list(task_of(flights, (25, 35), task.znodes, fetchTimeoutMs="5000"))


def test_a_task_leaves_no_thread_whether_it_is_read_to_its_end_or_not(flights):
    before = set(threading.enumerate())
    reader = reader_of(flights, "value")
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
        "column value: has type binary and cannot be had as string: cast it, value.cast('string')"
    )


# --- other brokers


@pytest.fixture(scope="module", params=["0.8.2.2", "3.9.1"])
def other_broker(request, zookeeper):
    with EmbeddedKafka(request.param, zookeeper=zookeeper, chroot=f"/kafka-{request.param}") as started:
        yield started


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_brokers_of_every_age_are_read(other_broker, fetcher):
    topic = f"aged-{fetcher}"
    other_broker.create_topic(topic, partitions=1)
    old = other_broker.version == "0.8.2.2"
    settings = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"} if old else {}
    records = [Record(b"k", b"%d" % n, 0, START_MS + n) for n in range(50)]
    produce_all(topic, records, {"bootstrap.servers": other_broker.bootstrap_servers, **settings})
    [rows] = rows_of(other_broker, "value", "offset", "timestamp", "timestampType", topics=topic, fetcher=fetcher)
    assert [(row["value"], row["offset"]) for row in rows] == [(b"%d" % n, n) for n in range(50)]
    # the format of 0.8.2.2 has no timestamps
    kinds = {(row["timestamp"] is None, row["timestampType"]) for row in rows}
    assert kinds == ({(True, -1)} if old else {(False, 0)})
