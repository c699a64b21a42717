"""Both formats with settings of Spark SQL that users change, and in SQL statements."""

import os
import uuid
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from legacy_consumer.fetching.librdkafka import Record, produce_all
from spark_source.reasons import reason_of
from tests.spark.asking import Asked
from tests.spark.conftest import Tree, store_of
from tests.spark.stream_scene import run_to_its_end

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]  # the first test starts Spark, the servers and the decoder

START_MS = 1_700_000_000_001
COUNT = 3
SETTINGS = {
    "time and names": {
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
    },
    "planning": {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
    },
    "arrow": {
        "spark.sql.execution.pyspark.binaryAsBytes": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.sql.execution.arrow.maxBytesPerBatch": "64",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    },
}
WITHOUT_REUSE = {"spark.python.worker.reuse": "false"}


@pytest.fixture(scope="module")
def told(kafka):
    """Make messages of one partition and offsets of a group. Returns: the rows due from each format, times in ms."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=1)
    with store_of(kafka.zookeeper_connect) as store:
        tree = Tree(kafka.zookeeper_connect, store)
        tree.commit(topic, topic, 0, 1)
        written_ms = store.get_data(f"/consumers/{topic}/offsets/{topic}/0").stat.mtime_ms
    told = Told(kafka, topic, written_ms)
    for _ in range(COUNT):
        told.grow()
    return told


class Told:
    def __init__(self, kafka, topic, written_ms):
        self.kafka = kafka
        self.topic = topic
        self.written_ms = written_ms
        self.count = 0
        connect = {"zookeeper.connect": kafka.zookeeper_connect}
        self.options = {
            "zk_messages": {**connect, "topics": topic, "includeHeaders": "true"},
            "zk_offsets": {**connect, "groups": topic},
        }
        self.columns = {
            "zk_messages": ["cast(value as string)", "topic", "offset", "unix_millis(timestamp)", "headers"],
            "zk_offsets": ["group", "topic", "committed_offset", "unix_millis(commit_time)", "lag"],
        }

    @property
    def rows(self):
        return {
            "zk_messages": [(str(n), self.topic, n, START_MS + n, None) for n in range(self.count)],
            "zk_offsets": [(self.topic, self.topic, 1, self.written_ms, self.count - 1)],
        }

    def grow(self):
        record = Record(b"k", b"%d" % self.count, 0, START_MS + self.count)
        produce_all(self.topic, [record], {"bootstrap.servers": self.kafka.bootstrap_servers})
        self.count += 1


@contextmanager
def changed(spark, settings):
    # Spark reads the settings of workers anew for each task, although users set them once
    confs = {name: spark.conf if name.startswith("spark.sql") else _conf_of_workers(spark) for name in settings}
    before = {name: conf.get(name) for name, conf in confs.items()}
    try:
        for name, value in settings.items():
            confs[name].set(name, value)
        yield
    finally:
        for name, value in before.items():
            confs[name].set(name, value)


def _conf_of_workers(spark):
    return spark.sparkContext._jsc.sc().conf().setIfMissing("spark.python.worker.reuse", "true")


def with_worker(batches):
    """Append a column with the process id of the task."""
    for batch in batches:
        yield batch.append_column("worker", pa.array([os.getpid()] * batch.num_rows, pa.int64()))


def test_a_worker_for_each_task_reads_the_same(spark, told):
    frame = spark.read.format("zk_messages").options(**told.options["zk_messages"]).schema("offset bigint").load()
    frame = frame.mapInArrow(with_worker, "offset bigint, worker bigint")
    workers = set()
    with changed(spark, WITHOUT_REUSE):
        for asked in (1, 2):
            rows = frame.collect()
            assert sorted(row["offset"] for row in rows) == list(range(told.count))
            workers |= {row["worker"] for row in rows}
            assert len(workers) == asked


@pytest.mark.parametrize("kind", SETTINGS)
def test_no_setting_of_sql_changes_the_rows(spark, told, kind):
    asked = Asked()
    with changed(spark, SETTINGS[kind]):
        for form, options in told.options.items():

            def load(form=form, options=options):
                return spark.read.format(form).options(**options).load().selectExpr(*told.columns[form]).collect

            assert sorted(tuple(row) for row in asked(load, told.grow)) == told.rows[form]
        asked.once_more()


def test_a_stream_reads_the_same_with_all_settings_changed_at_once(spark, told, tmp_path):
    settings = {name: value for kind in (*SETTINGS.values(), WITHOUT_REUSE) for name, value in kind.items()}
    with changed(spark, settings):
        for form, options in told.options.items():
            frame = spark.readStream.format(form).options(**options).load().selectExpr(*told.columns[form])
            frame = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
            place = {"path": str(tmp_path / form), "checkpointLocation": str(tmp_path / f"{form}-checkpoint")}
            run_to_its_end(frame.writeStream.format("parquet").options(**place).trigger(availableNow=True).start)
            rows = spark.read.parquet(place["path"]).collect()
            assert sorted(tuple(row) for row in rows) == told.rows[form]


@pytest.mark.parametrize(
    ("form", "option"), [("zk_messages", "`{}` '{}'"), ("zk_offsets", "'{}' '{}'"), ("zk_messages", "{} = '{}'")]
)
def test_a_view_takes_options_in_each_way_of_writing_them_and_a_table_is_refused(spark, told, form, option):
    options = ", ".join(option.format(name, value) for name, value in told.options[form].items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW written USING {form} OPTIONS ({options})")
    assert spark.sql("SELECT * FROM written").count() == len(told.rows[form])
    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"CREATE TABLE refused USING {form} OPTIONS ({options})")
    assert reason_of(caught.value) == (
        "CREATE TABLE: Spark does not hand a table's options to a Python source again: "
        f"use CREATE TEMPORARY VIEW ... USING {form} OPTIONS (...)"
    )


def test_a_table_with_columns_is_refused_with_the_alternative(spark, told):
    connect = told.options["zk_offsets"]["zookeeper.connect"]
    spark.sql(f"CREATE TABLE useless (partition int) USING zk_offsets OPTIONS ('zookeeper.connect' '{connect}')")
    try:
        for statement in ("SELECT * FROM useless", "INSERT INTO useless VALUES (1)"):
            with pytest.raises(AnalysisException) as caught:
                spark.sql(statement).collect()
            assert "a table has lost its options: use CREATE TEMPORARY VIEW" in reason_of(caught.value)
    finally:
        spark.sql("DROP TABLE useless")
