"""Read a topic with Spark, twice, and time the second: spark_messages.py JSON (see ReadMessages.measure)"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.programs.spark_session import measured_spark
from spark_source.arrow import arrow_schema
from spark_source.messages.columns import COLUMNS, WantedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession


TUNED = {
    "kafka.max.poll.records": "100000",
    "kafka.max.partition.fetch.bytes": "4194304",
    "kafka.receive.buffer.bytes": "-1",
}
"""An expert's settings for many small messages: by default, Spark's connector polls 500 messages at a time."""


READY_ROWS = 40_000
"""The rows of a batch, about as many as zk_messages hands out at once."""
READY_ROW = {"value": b"x" * 100, "topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "timestampType": 0}
PARTITIONS = 4


class ReadyReader(DataSourceReader):
    """Hands out one batch of equal messages again and again."""

    def __init__(self, names: list[str], messages: int) -> None:
        self._names = names
        self._batches = messages // PARTITIONS // READY_ROWS

    def partitions(self) -> Sequence[InputPartition]:
        """Return as many partitions as the topic has."""
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches, on an executor."""
        del partition
        columns = [WantedColumn(name, name, nullable=True).arrow for name in self._names]
        schema = arrow_schema(columns)
        arrays = [pa.array([READY_ROW.get(field.name)] * READY_ROWS, field.type) for field in schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        for _ in range(self._batches):
            yield batch


class ReadySource(DataSource):
    """Returns prepared columns, the same as zk_messages has. It shows Spark's upper bound for a source in Python."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ready"

    def schema(self) -> str:
        """Return all columns of zk_messages except the headers."""
        return ", ".join(f"{column.name} {column.type.value}" for column in COLUMNS[:-1])

    def reader(self, schema: StructType) -> ReadyReader:
        """Return a reader of the number of messages in the option `messages`."""
        return ReadyReader(schema.names, int(self.options["messages"]))


def frame_of(spark: SparkSession, told: dict[str, str]) -> DataFrame:
    """Return a frame of the topic, with all columns or, pruned, with two."""
    if told["form"] == "kafka":
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", told["brokers"])
        if told["tuned"]:
            reader = reader.options(**TUNED)
        return reader.option("subscribe", told["topic"]).option("startingOffsets", "earliest").load()
    reader = spark.read.format(told["form"])
    if told["form"] == "ready":
        spark.dataSource.register(ReadySource)
        reader = reader.option("messages", told["messages"])
    else:
        reader = reader.option("zookeeper.connect", told["zookeeper"])
        reader = reader.option("topics", told["topic"]).option("startingOffsets", "earliest")
    if told["fetcher"]:
        reader = reader.option("fetcher", told["fetcher"])
    return (reader.schema("value binary, offset bigint") if told["pruned"] else reader).load()


def main() -> None:
    """Print the figures as one line of JSON."""
    told = json.loads(sys.argv[1])
    with measured_spark(told["jars"]) as spark:
        wanted = [f.count("*"), f.sum(f.length("value")), f.max("offset")]
        if not told["pruned"]:
            wanted.append(f.max("timestamp"))
        figures = {}
        for _ in range(2):
            began = time.perf_counter()
            row = frame_of(spark, told).agg(*wanted).collect()[0]
            seconds = time.perf_counter() - began
            figures = {"messages_per_s": row[0] / seconds, "seconds": seconds, "messages": row[0], "bytes": row[1]}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
