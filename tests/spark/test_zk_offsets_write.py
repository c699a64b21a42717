import logging
import pickle
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.sandbox.servers.waiting import wait_for
from spark_source import old_offsets, register
from spark_source.errors import OffsetWriteError, SchemaMismatchError
from spark_source.offset_rows import merge, offset_columns
from spark_source.offset_write import CollectedRows, ZkOffsetsWriter, make_plans, write_all
from spark_source.offsets import COLUMNS
from spark_source.options import parse_write_options
from spark_source.reasons import reason_of
from tests.spark.conftest import Tree, store_of
from tests.spark.stream_scene import run_to_its_end
from zk_layout.errors import ConfigError

FIELDS = (("group", "string"), ("topic", "string"), ("partition", "int"), ("offset", "bigint"))
SCHEMA = ", ".join(" ".join(field) for field in FIELDS)


def writer_of(connect, **options):
    given = {"zookeeper.connect": connect, "backupFolder": "none", "outsideLog": "allow", **options}
    return ZkOffsetsWriter(parse_write_options(given), offset_columns(FIELDS))


def write(connect, *tasks, **options):
    """Write like Spark, in this process: each task gets a pickled copy of the writer, the driver their messages."""
    writer = writer_of(connect, **options)
    schema = pa.schema(
        [("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
    )
    messages = []
    for rows in tasks:
        batch = pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)],
            schema=schema,
        )
        messages.append(pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(iter([batch])))))
    writer.commit([*messages, None])


def refused(connect, *tasks, **options):
    with pytest.raises(OffsetWriteError) as caught:
        write(connect, *tasks, **options)
    return str(caught.value)


def save(spark, connect, rows, mode="append", **options):
    values = ", ".join(f"('{group}', '{topic}', {partition}, {offset}L)" for group, topic, partition, offset in rows)
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(group, topic, partition, offset)").repartition(2)
    frame.write.format("zk_offsets").options(**{"zookeeper.connect": connect, **options}).mode(mode).save()


def committed(tree, group, topic="t"):
    paths = [f"/consumers/{group}/offsets/{topic}/{n}" for n in range(4)]
    return [znode and int(znode.data) for znode in tree.store.get_data_many(paths)]


def test_a_frame_becomes_offsets_unless_one_of_its_tasks_fails(spark, tree):
    tree.commit("old", "t", 0, 5)
    options = {"backupFolder": "none", "outsideLog": "allow"}
    rows = [("old", "t", 0, 50), ("old", "t", 2, 70), ("new", "t", 0, 1)]
    save(spark, tree.connect, rows, **options)
    assert (committed(tree, "old"), committed(tree, "new")) == ([50, None, 70, None], [1, None, None, None])
    with pytest.raises(PySparkException) as caught:
        save(spark, tree.connect, [*(("new", "t", n, n + 5) for n in range(4)), ("new", "t", 20, -3)], **options)
    assert "no log has such an offset: (group 'new', topic 't', partition 20, offset -3)" in reason_of(caught.value)
    assert committed(tree, "new") == [1, None, None, None]


def test_a_session_without_the_source_gets_an_error_that_says_how_to_register_it(spark, tree):
    with pytest.raises(Py4JJavaError) as caught:
        spark.newSession().read.format("zk_offsets").option("zookeeper.connect", tree.connect).load()
    assert reason_of(caught.value) == (
        "Spark does not find zk_offsets: call spark_source.register with this session, in this thread"
    )


def test_a_thread_that_registers_the_source_can_write_and_another_gets_an_error(spark, tree):
    def work():
        save(spark, tree.connect, [("g", "t", 0, 7)], backupFolder="none", outsideLog="allow")

    with ThreadPoolExecutor(1) as threads, pytest.raises(Py4JJavaError) as caught:
        threads.submit(work).result()
    assert reason_of(caught.value).endswith("call spark_source.register with this session, in this thread")
    with ThreadPoolExecutor(1, initializer=register, initargs=(spark,)) as threads:
        threads.submit(work).result()
    assert committed(tree, "g")[0] == 7


def test_the_backup_restores_the_former_offsets(tree, tmp_path):
    tree.commit("old", "t", 0, 5)
    tree.commit("old", "t", 1, 6)
    rows = [("old", "t", 0, 50), ("old", "t", 2, 70)]
    write(tree.connect, rows, [("new", "t", 0, 1)], backupFolder=str(tmp_path))
    assert (committed(tree, "old"), committed(tree, "new")) == ([50, 6, 70, None], [1, None, None, None])
    [file] = tmp_path.iterdir()
    before = old_offsets(file)
    assert before == [("new", "t", 0, None), ("old", "t", 0, 5), ("old", "t", 2, None)]
    assert "nullOffsets=delete" in refused(tree.connect, before)
    write(tree.connect, before, nullOffsets="delete")
    assert (committed(tree, "old"), committed(tree, "new")) == ([5, 6, None, None], [None] * 4)


def test_a_dry_run_checks_everything_and_writes_nothing(tree, tmp_path):
    tree.commit("g", "t", 0, 5)
    write(tree.connect, [("g", "t", 0, 9)], dryRun="true", backupFolder=str(tmp_path))
    assert (committed(tree, "g")[0], list(tmp_path.iterdir())) == (5, [])


def test_a_backup_that_cannot_be_written_keeps_the_offsets_as_they_are(tree, tmp_path):
    tree.commit("g", "t", 0, 5)
    complaint = refused(tree.connect, [("g", "t", 0, 9)], backupFolder=str(tmp_path / "none"))
    assert complaint.startswith("no offset was written: no backup can be written to ")
    assert complaint.endswith("; see backupFolder")
    assert committed(tree, "g")[0] == 5


def test_a_group_with_members_is_left_alone_unless_asked(tree):
    tree.commit("busy", "t", 0, 5)
    tree.commit("idle", "t", 0, 5)
    tree.store.create("/consumers/busy/ids/somebody", b"{}", ephemeral=True, make_parents=True)
    rows = [("busy", "t", 0, 9), ("idle", "t", 0, 9)]
    assert refused(tree.connect, rows).startswith("no offset was written: group 'busy' has 1 member")
    assert (committed(tree, "busy")[0], committed(tree, "idle")[0]) == (5, 5)
    write(tree.connect, rows, liveGroups="allow")
    assert (committed(tree, "busy")[0], committed(tree, "idle")[0]) == (9, 9)


@pytest.mark.kafka
def test_offsets_must_lie_in_their_logs(kafka):
    kafka.create_topic("short", partitions=1)
    produce_all("short", [(None, b"x", 0)] * 8, {"bootstrap.servers": kafka.bootstrap_servers})
    connect = kafka.zookeeper_connect
    assert refused(connect, [("bounds", "short", 0, 9)], outsideLog="fail") == (
        "no offset was written: offsets lie outside their logs: 9 of short/0 (its log holds 0 to 8); "
        "outsideLog=allow writes them"
    )
    assert "no broker says where the logs of nowhere/0 begin and end" in refused(
        connect, [("bounds", "nowhere", 0, 0)], outsideLog="fail"
    )
    write(connect, [("bounds", "short", 0, 8)], outsideLog="fail")
    with store_of(connect) as store:
        assert committed(Tree(connect, store), "bounds", "short")[0] == 8


def test_rows_that_cannot_be_written_are_refused_when_planned(spark, tree):
    with pytest.raises(AnalysisException) as caught:
        save(spark, tree.connect, [("g", "t", 0, 1)], mode="overwrite", backupFolder="none")
    assert "mode=overwrite: would mean all groups" in reason_of(caught.value)
    for options, complaint in (
        ({"backupFolder": ""}, "backupFolder: is required"),
        ({"groups": "g"}, "groups=g: is for reads"),
        ({"dryrum": "true"}, "dryrum: no such option of zk_offsets, did you mean dryRun"),
    ):
        with pytest.raises(ConfigError) as refusal:
            writer_of(tree.connect, **options)
        assert complaint in str(refusal.value)
    for fields, complaint in (
        ((*FIELDS, ("lag", "bigint")), "column lag: is not written"),
        ((*FIELDS, ("Offset", "bigint")), "column Offset: stands twice"),
        (FIELDS[:3], "column offset: is missing"),
        ((*FIELDS[:3], ("offset", "string")), "column offset: has type string and must be bigint"),
    ):
        with pytest.raises(SchemaMismatchError, match=complaint):
            offset_columns(fields)


def test_a_group_that_was_written_is_put_back_if_a_later_one_cannot_be(tree):
    tree.commit("a", "t", 0, 5)
    tree.commit("b", "t", 0, 5)
    plans = make_plans(tree.store, merge([("a", "t", 0, 9), ("a", "t", 1, 9), ("b", "t", 0, 9)]))
    tree.store.set_data("/consumers/b/offsets/t/0", b"6")
    with pytest.raises(Exception, match="b"):
        write_all(tree.store, plans, force=False)
    assert (committed(tree, "a"), committed(tree, "b")) == ([5, None, None, None], [6, None, None, None])


def test_a_failed_task_is_named_only_where_one_failed(caplog):
    rows = CollectedRows((("g", "t", 0, 1),))
    writer = writer_of("127.0.0.1:1")
    with caplog.at_level(logging.WARNING):
        writer.abort([rows, rows])
        writer.abort([rows, None])
    assert [record.getMessage() for record in caplog.records] == ["no offset was written: 1 of 2 tasks failed"]


def test_two_offsets_for_one_partition_are_refused():
    assert merge([("g", "t", 0, 1), ("g", "t", 0, 1)]) == {"g": {("t", 0): 1}}
    with pytest.raises(OffsetWriteError, match="group 'g' has two offsets for t/0: 1 and 2"):
        merge([("g", "t", 0, 1), ("g", "t", 0, 2)])


# --- the stream of snapshots


def test_a_stream_yields_snapshots_or_only_changes_and_each_batch_can_be_written(spark, tree, tmp_path):
    tree.commit("g", "t", 0, 5)
    tree.commit("g", "t", 1, 6)
    taken = []

    def keep(frame, number):
        taken.append((number, sorted((row["partition"], row["committed_offset"]) for row in frame.collect())))
        if number == 0:
            tree.store.set_data("/consumers/g/offsets/t/1", b"8")

    def keep_and_copy(frame, number):
        keep(frame, number)
        rows = frame.selectExpr("'copy' as group", "'t' as topic", "partition", "committed_offset as offset")
        options = {"zookeeper.connect": tree.connect, "backupFolder": "none", "outsideLog": "allow"}
        rows.write.format("zk_offsets").options(**options).mode("append").save()

    def start(checkpoint, write=keep, **options):
        options = {"zookeeper.connect": tree.connect, "groups": "g", **options}
        source = spark.readStream.format("zk_offsets").options(**options)
        frame = source.schema("partition int, committed_offset bigint, read_at timestamp").load()
        return frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / checkpoint))

    run_to_its_end(start("whole", keep_and_copy).trigger(availableNow=True).start)
    assert taken == [(0, [(0, 5), (1, 6)])]
    # two queries of one batch make two snapshots
    assert [tree.store.get_data(f"/consumers/copy/offsets/t/{partition}").data for partition in (0, 1)] == [b"5", b"8"]
    taken.clear()
    query = start("changes", changesOnly="true", snapshotIntervalMs="100").start()
    try:
        tree.store.set_data("/consumers/g/offsets/t/1", b"7")
        wait_for(lambda: any(rows == [(1, 8)] for _, rows in taken), 60, lambda: AssertionError(taken))
    finally:
        query.stop()
    assert taken[0][1] in ([(0, 5), (1, 8)], [(0, 5), (1, 7)])


def test_a_query_that_uses_a_stream_of_changes_several_times_has_each_change_in_each_of_its_parts(
    spark, tree, tmp_path
):
    tree.commit("g", "t", 0, 5)
    tree.commit("g", "t", 1, 6)
    options = {"zookeeper.connect": tree.connect, "changesOnly": "true"}
    frame = spark.readStream.format("zk_offsets").options(**options).schema("partition int").load()
    parts = frame.where("partition = 0").union(frame.where("partition = 1")).union(frame)
    taken = []
    writer = parts.writeStream.foreachBatch(lambda batch, _: taken.append(sorted(batch.collect())))
    run_to_its_end(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)
    assert taken == [[(0,), (0,), (1,), (1,)]]


def test_members_leaders_and_versions_stand_beside_the_offsets(spark, tree, ask):
    tree.load_golden("1.1.1")
    columns = [c for c in COLUMNS if c.name not in {"log_start", "log_end", "lag", "lag_verdict"}]
    schema = ", ".join(f"{column.name} {column.type.value}" for column in columns)

    def load():
        frame = spark.read.format("zk_offsets").option("zookeeper.connect", tree.connect).schema(schema).load()
        return frame.drop("read_at").collect

    rows = ask(load, lambda: tree.commit("later", "t", 0, 5))
    assert [row for row in rows if row["leader"] is not None and row["in_sync_replicas"]]
    assert all(row["offset_version"] == 0 for row in rows if row["committed_offset"] is not None)
    members = {(row["member"], row["subscription"]) for row in rows if row["member"] is not None}
    assert members
    assert all(subscription.partition(":")[0] in {"static", "white_list", "black_list"} for _, subscription in members)


def test_failfast_fails_at_a_malformed_znode(spark, tree):
    tree.commit("g", "t", 0, "five")
    options = {"zookeeper.connect": tree.connect, "mode": "failfast"}
    with pytest.raises(PySparkException) as caught:
        spark.read.format("zk_offsets").options(**options).schema("error string").load().collect()
    assert reason_of(caught.value).startswith("/consumers/g/offsets/t/0 holds b'five': ")
