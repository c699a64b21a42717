"""The example that keeps its offsets beside its output: each message is in exactly one file, whatever fails."""

import json
import os
import signal
import subprocess
import sys
import uuid

import click
import pyarrow as pa
import pytest

from legacy_consumer.fetching.librdkafka import produce_all
from spark_source import BatchOffsets, batch_offsets
from tests.spark import test_spark_examples
from tests.spark.conftest import ROOT, WITHOUT_REUSE, child_environment
from tests.support.waiting import eventually

EXAMPLES = ROOT / "examples"
KILLED_LOAD = ROOT / "tests" / "spark" / "killed_load.py"


@pytest.fixture
def example():
    return test_spark_examples.example("load_with_offsets")


def batches(*offsets):
    """Yield a batch of one row of t/0 for each offset."""
    for offset in offsets:
        yield pa.RecordBatch.from_pydict({"topic": ["t"], "partition": [0], "offset": [offset]})


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_task_that_is_repeated_after_its_file_was_there_writes_nothing_more(example, tmp_path):
    write = example.writer(tmp_path, {"t": {"0": 5}}, {"t": {"0": 9}})
    assert [row for batch in write(batches(5, 7)) for row in batch.to_pylist()] == [
        {"topic": "t", "partition": 0, "start": 5, "end": 9, "rows": 2}
    ]
    files = files_in(tmp_path)
    assert files == [f"{5:020}.parquet"]
    # also a task of a later run that begins at the same offset, and ends further on
    for repeated in (write, example.writer(tmp_path, {"t": {"0": 5}}, {"t": {"0": 12}})):
        assert list(repeated(batches(5, 7, 10))) == []
    assert files_in(tmp_path) == files
    assert example.reached(tmp_path) == {"t": {"0": 9}}


def test_a_task_that_fails_leaves_nothing(example, tmp_path):
    def failing():
        yield from batches(5)
        raise ConnectionError("no broker")

    with pytest.raises(ConnectionError):
        list(example.writer(tmp_path, {"t": {"0": 5}}, {"t": {"0": 9}})(failing()))
    assert files_in(tmp_path) == []
    assert example.reached(tmp_path) == {}


class Reads:
    """Stands for a Spark session: records the options of a read, which yields no row."""

    def __init__(self):
        self.given = {}
        self.read = self

    def format(self, _):
        return self

    def options(self, **given):
        self.given = given
        return self

    def load(self):
        return self

    def mapInArrow(self, *_):  # noqa: N802 - Spark's name
        return self

    def collect(self):
        return []


def test_a_run_beside_another_one_that_loads_further_reads_up_to_the_end_that_it_found(example, tmp_path, monkeypatch):
    def found(_):
        # the other run finds its bounds and loads right after ours has found its own
        list(example.writer(tmp_path, {"t": {"0": 5}}, {"t": {"0": 12}})(batches(5, 7, 10)))
        return BatchOffsets({"t": {"0": 5}}, {"t": {"0": 9}})

    monkeypatch.setattr(example, "batch_offsets", found)
    spark = Reads()
    assert example.load(spark, {}, tmp_path) == []
    assert [spark.given[name] for name in ("startingOffsets", "endingOffsets")] == [
        '{"t": {"0": 5}}',
        '{"t": {"0": 9}}',
    ]


def test_a_topic_that_is_shorter_than_what_is_loaded_is_refused_in_one_line(example, tmp_path, monkeypatch):
    list(example.writer(tmp_path, {"t": {"0": 5}}, {"t": {"0": 12}})(batches(5, 7, 10)))
    monkeypatch.setattr(example, "batch_offsets", lambda _: BatchOffsets({"t": {"0": 0}}, {"t": {"0": 9}}))
    with pytest.raises(click.ClickException, match=r"^t/0 ends at 9 and is loaded up to 12: if the topic was created"):
        example.load(Reads(), {}, tmp_path)


def topic_of(kafka, *counts):
    name = f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, partitions=len(counts))
    produce(kafka, name, *counts)
    return name


def produce(kafka, topic, *counts):
    records = [(None, b"x", partition) for partition, count in enumerate(counts) for _ in range(count)]
    produce_all(topic, records, {"bootstrap.servers": kafka.bootstrap_servers})


@pytest.mark.kafka
def test_where_a_batch_read_begins_and_ends_is_known_without_its_rows(kafka):
    topic = topic_of(kafka, 5, 2, 0)
    options = {"zookeeper.connect": kafka.zookeeper_connect, "topics": topic}
    found = batch_offsets({**options, "startingOffsets": json.dumps({topic: {"0": 3, "1": -1, "2": -2}})})
    assert (found.starting, found.ending) == ({topic: {"0": 3, "1": 2, "2": 0}}, {topic: {"0": 5, "1": 2, "2": 0}})
    produce(kafka, topic, 1, 1, 1)
    assert batch_offsets(found.options()) == found


@pytest.mark.kafka
def test_the_options_of_known_bounds_read_the_same_though_partitions_and_topics_come(spark, kafka):
    topic = topic_of(kafka, 5, 2)
    common = {"zookeeper.connect": kafka.zookeeper_connect, "failOnDataLoss": True, "minPartitions": 2, "fetcher": None}
    time = {"startingOffsets": "2013-01-01T00:00:00Z", "startingOffsetsByTimestampStrategy": "error"}
    all_of_it = [*[(topic, 0, n) for n in range(5)], *[(topic, 1, n) for n in range(2)]]
    chosen = (
        {"topics": topic, **time},
        {"Whitelist": f"{topic}.*", "startingoffsets": "earliest", "endingOffsets": "latest"},
        {"blacklist": f"(?!{topic}).*"},
        {"partitions": json.dumps({topic: [0, 1]})},
    )
    all_bounds = [batch_offsets({**common, **each}) for each in chosen]
    kafka.add_partitions(topic, 4)
    kafka.create_topic(f"{topic}-later", partitions=1)
    produce(kafka, topic, 1, 1, 1, 1)
    produce(kafka, f"{topic}-later", 1)
    for bounds in all_bounds:
        rows = spark.read.format("zk_messages").options(**bounds.options()).load()
        assert sorted(map(tuple, rows.select("topic", "partition", "offset").collect())) == all_of_it


@pytest.mark.kafka
@pytest.mark.timeout(500)
def test_a_load_whose_task_fails_and_whose_driver_is_killed_has_each_message_once_when_it_is_run_again(
    spark, kafka, example, tmp_path
):
    topic = topic_of(kafka, 20, 10)
    # librdkafka loads quickly
    options = {"zookeeper.connect": kafka.zookeeper_connect, "topics": topic, "fetcher": "librdkafka"}
    table, half = tmp_path / "table", tmp_path / "half-written"
    environment = child_environment(TMPDIR=str(tmp_path), PYSPARK_SUBMIT_ARGS=WITHOUT_REUSE)
    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, KILLED_LOAD, tmp_path, half, json.dumps(options)],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{environment['PYTHONPATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        there = (half, table / f"topic={topic}" / "partition=1" / f"{0:020}.parquet")
        eventually(lambda: driver.poll() is not None or all(path.exists() for path in there), 300)
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # the driver's JVM and Python workers, too
        driver.wait()
    assert example.reached(table) == {topic: {"1": 10}}
    produce(kafka, topic, 0, 5)
    assert example.load(spark, options, table) == [(topic, 0, 0, 20, 20), (topic, 1, 10, 15, 5)]
    assert example.load(spark, options, table) == []
    rows = spark.read.parquet(str(table)).select("topic", "partition", "offset").collect()
    everything = [(topic, partition, n) for partition, count in enumerate((20, 15)) for n in range(count)]
    assert sorted(tuple(row) for row in rows) == everything
