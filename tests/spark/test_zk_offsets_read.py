import logging
import threading
import time
import uuid

import pytest
from kazoo.client import KazooClient
from kazoo.security import Permissions, make_acl
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.types import StringType, StructField, StructType

from legacy_consumer.fetching.librdkafka import produce_all
from spark_source.batch import GroupsPartition, ZkOffsetsReader
from spark_source.errors import MissingGroupsError
from spark_source.offsets import COLUMNS, request_columns
from spark_source.options import parse_options
from spark_source.ranges import GroupRange
from spark_source.reasons import reason_of
from tests.spark.conftest import Tree, store_of
from tests.support.waiting import eventually
from zk_layout.errors import ConnectTimeoutError, NotPermittedError

NO_LOG_COLUMNS = "group string, topic string, partition int, committed_offset bigint, owner string, error string"


def frame_of(spark, tree, schema=NO_LOG_COLUMNS, **options):
    reader = spark.read.format("zk_offsets").options(**{"zookeeper.connect": tree.connect, **options})
    return (reader.schema(schema) if schema else reader).load()


@pytest.fixture
def read(spark, tree, ask):
    """Return a function that gives a frame's rows. After the test, with new groups and commits, it reads again."""
    group = f"later-{uuid.uuid4().hex[:8]}"

    def change():
        for own in {*tree.store.get_children("/consumers"), group} - {"locked"}:
            tree.commit(own, group, 0, 1)

    def rows(schema=NO_LOG_COLUMNS, where="true", **options):
        def load():
            return frame_of(spark, tree, schema, **options).where(where).drop("read_at").collect

        return ask(load, change)

    return rows


def keys(rows):
    return sorted((row["group"], row["topic"], row["partition"]) for row in rows)


def lock(tree, path):
    """Set an ACL with which no client can read this znode."""
    client = KazooClient(tree.connect)
    client.start()
    try:
        may = Permissions.CREATE | Permissions.DELETE | Permissions.ADMIN
        client.set_acls(path, [make_acl("world", "anyone", **_as_words(may))])
    finally:
        client.stop()
        client.close()


def _as_words(may):
    return {
        "create": bool(may & Permissions.CREATE),
        "delete": bool(may & Permissions.DELETE),
        "admin": bool(may & Permissions.ADMIN),
    }


@pytest.fixture
def groups_with_one_locked(tree):
    for group in ("web-1", "web-2", "batch"):
        for topic in ("t1", "t2"):
            for partition in range(2):
                tree.commit(group, topic, partition, partition)
    tree.commit("locked", "t1", 0, 0)
    lock(tree, "/consumers/locked/offsets")
    return tree


# --- what a row says


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1"])
def test_recorded_znodes_of_real_groups_are_read_as_recorded(read, tree, version):
    recorded = {}
    for znode in tree.load_golden(version):
        match znode["path"].split("/"):
            case ["", "consumers", group, "offsets", topic, partition]:
                recorded.setdefault((group, topic, int(partition)), {})["offset"] = int(znode["value"])
            case ["", "consumers", group, "owners", topic, partition]:
                recorded.setdefault((group, topic, int(partition)), {})["owner"] = znode["value"]
    rows = read()
    assert len(recorded) > 10
    assert {
        (row["group"], row["topic"], row["partition"]): (row["committed_offset"], row["owner"], row["error"])
        for row in rows
    } == {key: (found.get("offset"), found.get("owner"), None) for key, found in recorded.items()}


def test_an_owner_is_shown_as_its_client_wrote_it(read, tree):
    tree.own("g", "t", 0, "g_host-1416392398000-1a2b3c4d-0")
    tree.own("g", "t", 1, "host:9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d")
    tree.own("g", "t", 2, b"\xff")
    tree.commit("g", "t", 3, 7)
    rows = {row["partition"]: row for row in read()}
    assert [rows[n]["owner"] for n in range(4)] == [
        "g_host-1416392398000-1a2b3c4d-0",
        "host:9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
        "\\xff",
        None,
    ]
    assert rows[0]["error"] is None
    assert "/consumers/g/owners/t/2" in rows[2]["error"]
    assert [rows[n]["committed_offset"] for n in range(4)] == [None, None, None, 7]


def test_a_malformed_znode_is_an_error_in_its_row_and_not_of_the_job(read, tree):
    tree.commit("g", "t", 0, 5)
    tree.commit("g", "t", 1, "five")
    tree.put("/consumers/g/offsets/t/2", b"")
    tree.commit("g", "t", 3, -1)
    rows = {row["partition"]: row for row in read()}
    assert [rows[n]["committed_offset"] for n in range(4)] == [5, None, None, None]
    assert rows[1]["error"].startswith("/consumers/g/offsets/t/1 holds b'five': ")
    assert rows[2]["error"].startswith("/consumers/g/offsets/t/2 holds b'': ")
    assert rows[0]["error"] is rows[3]["error"] is None


def test_all_columns_come_without_a_schema_and_log_columns_are_null_without_brokers(spark, tree, read):
    tree.commit("g", "t", 0, 5)
    schema = frame_of(spark, tree, None).schema
    assert [(f.name, f.dataType.simpleString()) for f in schema] == [(c.name, c.type.value) for c in COLUMNS]
    [row] = read(None)
    assert (row["committed_offset"], row["log_start"], row["log_end"], row["lag"]) == (5, None, None, None)


@pytest.mark.kafka
def test_lag_is_counted_against_the_brokers_logs(spark, kafka, ask):
    def produce():
        records = [(None, b"x", 0)] * 30 + [(None, b"x", 1)] * 10
        produce_all("lagged", records, {"bootstrap.servers": kafka.bootstrap_servers})

    kafka.create_topic("lagged", partitions=2)
    produce()
    with store_of(kafka.zookeeper_connect) as store:
        tree = Tree(kafka.zookeeper_connect, store)
        tree.commit("lagging", "lagged", 0, 12)
        tree.own("lagging", "lagged", 1, "lagging_host-1-0")
        tree.commit("lagging", "deleted", 0, 3)
        columns = "topic string, partition int, log_start bigint, log_end bigint, lag bigint"
        rows = ask(lambda: frame_of(spark, tree, columns, groups="lagging").collect, produce)
    assert sorted(map(tuple, rows)) == [
        ("deleted", 0, None, None, None),
        ("lagged", 0, 0, 30, 18),
        ("lagged", 1, 0, 10, None),
    ]


# --- reads that do not happen


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"groups": "web-1,batch"}, {"web-1", "batch"}),
        ({"groups": "web-*"}, {"web-1", "web-2"}),
        ({"groups": "nobody"}, set()),
    ],
)
def test_options_choose_groups_and_the_others_are_not_read(read, groups_with_one_locked, options, expected):
    assert {key[0] for key in keys(read(**options))} == expected


def test_reading_the_locked_group_would_have_failed(read, groups_with_one_locked):
    with pytest.raises(PythonException) as caught:
        read()
    assert reason_of(caught.value) == str(NotPermittedError("/consumers/locked/offsets"))


def test_topics_that_are_not_chosen_are_not_read(read, tree):
    for topic in ("open", "shut"):
        tree.commit("g", topic, 0, 1)
    lock(tree, "/consumers/g/offsets/shut")
    assert keys(read(topics="o*")) == [("g", "open", 0)]


def test_brokers_are_not_asked_for_columns_that_do_not_need_them(read, tree):
    tree.commit("g", "t", 0, 5)
    # a request to these brokers would raise, because they have no PLAINTEXT listener
    tree.put(
        "/brokers/ids/0",
        '{"listener_security_protocol_map":{"SSL":"SSL"},"endpoints":["SSL://127.0.0.1:9"],"jmx_port":-1,'
        '"host":null,"timestamp":"1","port":-1,"version":4}',
    )
    assert keys(read()) == [("g", "t", 0)]
    with pytest.raises(AnalysisException) as caught:
        read("lag bigint")
    assert "no broker offers a PLAINTEXT listener, only SSL" in reason_of(caught.value)


def test_a_schema_chooses_columns_in_its_own_order_and_spelling(read, tree):
    tree.commit("g", "t", 0, 5)
    rows = read("Committed_Offset bigint, GROUP string", where="group = 'g'")
    assert [row.asDict() for row in rows] == [{"Committed_Offset": 5, "GROUP": "g"}]


def test_secrets_are_hidden_in_plans(spark, tree):
    options = {"zookeeper.connect": tree.connect, "zookeeper.auth.digest": "user:hush", "rdkafka.ssl.key.pem": "hush"}
    frame = spark.read.format("zk_offsets").options(**options).load()
    plan = frame._jdf.queryExecution().toString()
    assert "zk_offsets" in plan
    assert "hush" not in plan


# --- the division into tasks


def test_groups_are_divided_among_tasks(spark, tree, read):
    for number in range(7):
        tree.commit(f"g{number}", "t", 0, number)
    frame = frame_of(spark, tree, numPartitions="3")
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(frame.rdd.glom().map(len).collect()) == [2, 2, 3]
    assert keys(read(numPartitions="3")) == [(f"g{number}", "t", 0) for number in range(7)]
    assert frame_of(spark, tree).rdd.getNumPartitions() == 1


def test_no_groups_at_all_are_an_empty_frame(read, tree):
    tree.store.ensure_path("/consumers")
    assert read() == []
    assert read(None) == []


# --- refusals and their texts


def load_error(spark, **options):
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("zk_offsets").options(**options).load()
    return reason_of(caught.value)


def test_an_unknown_option_is_refused_at_load_with_the_near_miss(spark, tree):
    options = {"zookeeper.connect": tree.connect, "grups": "a"}
    assert load_error(spark, **options) == "grups: no such option of zk_offsets, did you mean groups?"


def test_where_zookeeper_is_must_be_said_at_load(spark):
    assert load_error(spark).startswith("zookeeper.connect: is required")


def test_a_column_that_there_is_not_is_refused_when_planned(spark, tree):
    schema = StructType([StructField("group", StringType()), StructField("offset", StringType())])
    with pytest.raises(AnalysisException) as caught:
        frame_of(spark, tree, schema).collect()
    assert reason_of(caught.value).startswith("column offset: there is no such column, only group, topic")


def test_a_silent_zookeeper_is_one_line_within_its_timeout(spark, unused_port):
    options = {"zookeeper.connect": f"127.0.0.1:{unused_port}", "zookeeper.connection.timeout.ms": "700"}
    frame = spark.read.format("zk_offsets").options(**options).load()
    started = time.monotonic()
    with pytest.raises(AnalysisException) as caught:
        frame.collect()
    assert reason_of(caught.value) == str(ConnectTimeoutError(f"127.0.0.1:{unused_port}", 700))
    assert time.monotonic() - started < 30


def test_groups_that_do_not_exist_are_no_rows_or_an_error_as_asked(read, tree):
    tree.commit("g", "t", 0, 5)
    assert keys(read(groups="g,nobody,x*")) == [("g", "t", 0)]
    with pytest.raises(AnalysisException) as caught:
        read(groups="g,nobody,x*", missingGroups="fail")
    assert reason_of(caught.value).startswith("no such group under /consumers: nobody, x*; ")


# --- what a task leaves


def reader_of(tree, *columns, **options):
    types = {column.name: column.type.value for column in COLUMNS}
    requested = request_columns((name, types[name], True) for name in columns)
    return ZkOffsetsReader(parse_options({"zookeeper.connect": tree.connect, **options}), requested)


def test_a_task_leaves_no_thread_whether_it_succeeds_or_fails(groups_with_one_locked):
    before = set(threading.enumerate())
    reader = reader_of(groups_with_one_locked, "group", "lag")
    assert sum(batch.num_rows for batch in reader.read(GroupsPartition(GroupRange("web-1", "web-3")))) == 8
    with pytest.raises(NotPermittedError):
        list(reader.read(GroupsPartition(GroupRange("locked", "locked-"))))
    unfinished = reader.read(GroupsPartition(GroupRange("web-1", "web-2")))
    next(unfinished)
    unfinished.close()
    eventually(lambda: set(threading.enumerate()) <= before)


def test_groups_must_exist_whenever_the_frame_is_read(tree):
    tree.commit("g", "t", 0, 5)
    reader = reader_of(tree, "group", groups="g", missingGroups="fail")
    [task] = reader.partitions()
    assert [batch.num_rows for batch in reader.read(task)] == [1]
    tree.store.delete("/consumers/g/offsets/t/0")
    for path in ("/consumers/g/offsets/t", "/consumers/g/offsets", "/consumers/g"):
        tree.store.delete(path)
    with pytest.raises(MissingGroupsError):
        list(reader.read(task))


def test_without_brokers_the_plan_says_why_log_columns_are_null(tree, caplog):
    tree.commit("g", "t", 0, 5)
    with caplog.at_level(logging.WARNING):
        reader_of(tree, "lag").partitions()
    assert "log_start, log_end and lag will be null: no broker is registered in ZooKeeper" in caplog.text


def test_a_setting_without_effect_is_reported_when_planning(tree, caplog):
    with caplog.at_level(logging.WARNING):
        reader_of(tree, "group", **{"ssl.ca.location": "ca.pem"}).partitions()
    assert "ssl.ca.location has no effect while security.protocol is PLAINTEXT" in caplog.text
