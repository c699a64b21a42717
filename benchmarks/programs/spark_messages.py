"""Read a topic with Spark, twice, and time the second: spark_messages.py JSON (see ReadMessages.measure)"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from benchmarks.programs.spark_session import measured_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TUNED = {
    "kafka.max.poll.records": "100000",
    "kafka.max.partition.fetch.bytes": "4194304",
    "kafka.receive.buffer.bytes": "-1",
}
"""The settings of an expert for many small messages: Spark's connector polls 500 messages at a time by default."""


def frame_of(spark: SparkSession, told: dict[str, str]) -> DataFrame:
    """The topic, all columns or two."""
    if told["form"] == "kafka":
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", told["brokers"])
        if told["tuned"]:
            reader = reader.options(**TUNED)
        return reader.option("subscribe", told["topic"]).option("startingOffsets", "earliest").load()
    reader = spark.read.format(told["form"]).option("zookeeper.connect", told["zookeeper"])
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
