"""An application for spark-submit --py-files, whose Python finds this project in that file alone.

    standalone_app.py FOLDER OPTIONS-AS-JSON

Prints what each step came to as one line of JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import spark_source

WAIT_S = 150
SECRETS = {
    "zookeeper.auth.digest": "spark:digest-secret",
    "sasl.password": "sasl-secret",
    "ssl.key.password": "key-secret",
    "sasl.oauthbearer.client.secret": "oauth-secret",
}
"""Without effect on these servers."""


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def dying_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first task to read the begin of partition 0 dies there, with its executor and the worker above it."""
    for batch in batches:
        rows = zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
        if TaskContext.get().attemptNumber() == 0 and (0, 0) in rows:
            executor = parent_of(os.getppid())
            worker = parent_of(executor)
            os.kill(executor, signal.SIGKILL)
            os.kill(worker, signal.SIGKILL)
            signal.pause()
        yield batch


def where_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [spark_source.__file__]})


def stream(spark: SparkSession, form: str, folder: Path, options: dict, work=lambda frame: frame) -> DataFrame:
    """What a stream that ends with what is there has written."""
    writer = work(spark.readStream.format(form).options(**options).load()).writeStream.format("parquet")
    place = {"path": str(folder / form), "checkpointLocation": str(folder / f"{form}-checkpoint")}
    query = writer.options(**place).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    return spark.read.parquet(place["path"])


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    cluster = {"zookeeper.connect": options["zookeeper.connect"], **SECRETS}
    options.update(SECRETS)
    spark = SparkSession.builder.getOrCreate()
    spark_source.register(spark)
    try:
        places = spark.range(4).mapInArrow(where_it_is, "file string").collect()
        given = spark.read.format("zk_messages").options(**options, startingOffsets="earliest").load()
        read = given.select("partition", "offset").collect()
        streamed = stream(
            spark,
            "zk_messages",
            folder,
            {**options, "claimOwnership": "true", "maxOffsetsPerTrigger": "20"},
            lambda frame: frame.select("partition", "offset").mapInArrow(dying_once, "partition int, offset bigint"),
        )
        groups = {**cluster, "groups": options["group.id"]}
        standing = stream(spark, "zk_offsets", folder, groups).select("partition", "committed_offset", "lag").collect()
        back = spark.range(2).selectExpr(
            f"'{options['group.id']}' as group", f"'{options['topics']}' as topic",
            "cast(id as int) as partition", "id + 3 as offset",
        )  # fmt: skip
        back.write.format("zk_offsets").options(**cluster, backupFolder=str(folder)).mode("append").save()
        told = {
            "places": sorted({spark_source.__file__, *(row["file"] for row in places)}),
            "read": sorted(tuple(row) for row in read),
            "streamed": sorted(tuple(row) for row in streamed.collect()),
            "standing": sorted(tuple(row) for row in standing),
        }
    finally:
        spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
