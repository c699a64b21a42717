"""Read all offsets with Spark, twice, and time the second: spark_offsets.py ZOOKEEPER ZNODES"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import functions as f

from benchmarks.programs.spark_session import measured_spark

SCHEMA = "group string, topic string, partition int, committed_offset bigint"


def main() -> None:
    """Print the figures as one line of JSON."""
    zookeeper, znodes = sys.argv[1], int(sys.argv[2])
    with measured_spark() as spark:
        seconds = 0.0
        for _ in range(2):
            began = time.perf_counter()
            frame = (
                spark.read.format("zk_offsets")
                .schema(SCHEMA)
                .option("zookeeper.connect", zookeeper)
                .option("numPartitions", "2")
                .load()
            )
            row = frame.agg(f.count("*"), f.sum("committed_offset")).collect()[0]
            seconds = time.perf_counter() - began
            if row[0] != znodes:
                sys.exit(f"{row[0]} of {znodes} offsets were read")
    print(json.dumps({"znodes_per_s": znodes / seconds, "seconds": seconds}))


if __name__ == "__main__":
    main()
