"""kafka_segments over a copy of a real broker's log folder, beside zk_messages over that broker."""

import shutil

import pytest
from pyspark.errors import AnalysisException, PythonException

from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.fetching.librdkafka.producer import Record
from spark_source.reasons import reason_of

pytestmark = pytest.mark.kafka

START_MS = 1_700_000_000_000
FORMATS = {"format-0": ("0.9.0", "snappy"), "format-1": ("0.10.2", "gzip"), "format-2": ("1.1", "lz4")}


@pytest.fixture(scope="module")
def copied(kafka, tmp_path_factory):
    """Fill a topic in each format of messages, compressed and not, in several segments, and copy the log's files."""
    for topic, (version, codec) in FORMATS.items():
        config = {"message.format.version": version, "segment.bytes": "20000"}
        kafka.create_topic(topic, partitions=2, config=config)
        headers = (("h", b"1"),) if topic == "format-2" else ()
        for number, compression in enumerate(("none", codec, "none")):
            records = [
                Record(
                    None if n % 3 else b"k%d" % n, None if n % 5 == 0 else b"%d" % n * 40, n % 2, START_MS + n, headers
                )
                for n in range(number * 400, number * 400 + 400)
            ]
            settings = {
                "bootstrap.servers": kafka.bootstrap_servers,
                "compression.type": compression,
                "batch.size": 8000,
            }
            produce_all(topic, records, settings)
    folder = tmp_path_factory.mktemp("copied")
    [broker] = kafka.brokers
    for topic in FORMATS:
        for partition in (0, 1):
            name = f"{topic}-{partition}"
            shutil.copytree(broker.data_folder / name, folder / name)
    return folder


def test_rows_are_those_that_the_messages_source_reads_of_the_broker(spark, kafka, copied, ask):
    stored = spark.read.format("kafka_segments").option("includeHeaders", "true").load(str(copied))
    given = {"zookeeper.connect": kafka.zookeeper_connect, "topics": ",".join(FORMATS), "includeHeaders": "true"}
    fetched = spark.read.format("zk_messages").options(**given).load()
    assert stored.schema == fetched.schema
    order = ["topic", "partition", "offset"]
    rows = stored.orderBy(order).collect()
    assert rows == fetched.orderBy(order).collect()
    newest = max((copied / "format-0-0").glob("*.log"))
    again = ask(lambda: spark.read.format("kafka_segments").load(str(copied)).collect, lambda: newest.write_bytes(b""))
    assert len(again) == len(rows)
    assert len(rows) == 3 * 1200
    files = len(list(copied.rglob("*.log")))
    assert files > 6
    assert stored.rdd.getNumPartitions() == files


def test_several_folders_a_view_and_a_schema_work(spark, copied):
    folders = [str(copied / "format-0-0"), str(copied / "format-2-1")]
    frame = spark.read.format("kafka_segments").schema("Topic string, value binary").load(folders)
    assert {row.Topic for row in frame.collect()} == {"format-0", "format-2"}
    assert frame.columns == ["Topic", "value"]
    spark.sql(f"CREATE TEMPORARY VIEW stored USING kafka_segments OPTIONS (path '{copied}/format-1-*')")
    assert spark.sql("SELECT count(*) AS n FROM stored WHERE topic = 'format-1'").collect()[0].n == 1200


def test_damage_fails_the_job_or_ends_the_file(spark, copied, tmp_path):
    [first, *_] = sorted((copied / "format-2-0").glob("*.log"))
    damaged = tmp_path / "format-2-0" / first.name
    damaged.parent.mkdir()
    damaged.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(PythonException) as caught:
        spark.read.format("kafka_segments").load(str(tmp_path)).collect()
    assert reason_of(caught.value).startswith(f"{damaged}: sound to byte ")
    assert reason_of(caught.value).endswith("; set damagedSegments=stop to read what lies before")
    read = spark.read.format("kafka_segments").option("damagedSegments", "stop").load(str(tmp_path)).count()
    whole = spark.read.format("kafka_segments").load(str(first)).count()
    assert 0 < read < whole


def test_impossible_options_are_refused_in_one_line(spark, copied, tmp_path):
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("kafka_segments").load()
    assert reason_of(caught.value).startswith("path: is required")
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("kafka_segments").load(str(tmp_path)).collect()
    assert reason_of(caught.value) == f"{tmp_path}: holds no *.log file, nor does any folder below it"
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("kafka_segments").load(str(copied)).write.format("kafka_segments").mode("append").save("/x")
    assert reason_of(caught.value) == "format=kafka_segments: only reads"
    query = spark.readStream.format("kafka_segments").load(str(copied)).writeStream.format("noop")
    with pytest.raises(Exception, match="is read as a batch"):
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().processAllAvailable()
