"""A driver that stops in the middle of a batch, to be killed there: killed_driver.py FOLDER BATCH OPTIONS-AS-JSON

Its sink is idempotent: a batch is a folder named after its number, which a repeated batch overwrites.
"""

import json
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_source import register
from tests.spark.conftest import QUICK_JVM

HALF = "half-written"


def start_query(spark: SparkSession, folder: Path, options: dict[str, str], stop_in: int = -1) -> StreamingQuery:
    """Read what is there, batch by batch; in batch stop_in write a part of it, say so by a file, and stand still."""

    def write(batch: DataFrame, number: int) -> None:
        part = batch.limit(3) if number == stop_in else batch
        part.write.mode("overwrite").json(str(folder / "out" / f"batch={number}"))
        if number == stop_in:
            (folder / HALF).touch()
            threading.Event().wait()

    frame = spark.readStream.format("zk_messages").options(**options).schema("value binary").load()
    writer = frame.selectExpr("cast(value as string)").writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def main() -> None:
    folder, stop_in, options = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", f"{QUICK_JVM} -Djava.io.tmpdir={folder}")
        .config("spark.local.dir", str(folder))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    register(spark)
    start_query(spark, folder, options, stop_in).awaitTermination()


if __name__ == "__main__":
    main()
