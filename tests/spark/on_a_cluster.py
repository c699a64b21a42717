"""Both formats on local-cluster[2,1,1024], whose executors are processes of their own.

    on_a_cluster.py ARGUMENTS-AS-JSON

Prints what each step came to as one line of JSON.
"""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from legacy_consumer.embedded.waiting import wait_for
from spark_source import register
from spark_source.reasons import reason_of

EXECUTORS = 2


class Steps:
    def __init__(self, spark: SparkSession, told: dict, folder: Path) -> None:
        self.spark = spark
        self.told = told
        self.folder = folder

    def read(self, form: str, **options: str) -> DataFrame:
        return self._reader(self.spark.read.format(form), options).load()

    def read_once(self, form: str, **options: str) -> list:
        """All rows of a stream that ends with what is there."""
        frame = self._reader(self.spark.readStream.format(form), options).load()
        place = self.folder / f"stream-{form}"
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(place / "out"))
            .option("checkpointLocation", str(place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return self.spark.read.parquet(str(place / "out")).collect()

    def _reader(self, reader, options: dict):
        schema = options.pop("schema", None)
        given = reader.options(**{"zookeeper.connect": self.told["zookeeper"], **options})
        return given.schema(schema) if schema else given

    def messages(self, **options: str) -> DataFrame:
        return self.read("zk_messages", topics=self.told["topic"], startingOffsets="earliest", **options)

    # the steps

    def offsets_by_executor(self) -> list:
        frame = self.read("zk_offsets", groups=f"{self.told['group']}*", numPartitions=str(EXECUTORS))
        rows = frame.select("group", "partition", "lag").mapInArrow(
            with_executor, "group string, partition int, lag bigint, executor bigint"
        )
        found = [tuple(row) for row in rows.collect()]
        executors = sorted({row[3] for row in found})
        return sorted((group, partition, lag, executors.index(pid)) for group, partition, lag, pid in found)

    def messages_by_listener(self) -> dict:
        found = {}
        for name, security in self.told["security"].items():
            for fetcher in ("columnar", "librdkafka"):
                frame = self.messages(fetcher=fetcher, includeHeaders="true", **security)
                rows = frame.select("partition", "offset", "headers").collect()
                assert all(row["headers"] is None for row in rows)
                found[f"{name}, {fetcher}"] = sorted((row["partition"], row["offset"]) for row in rows)
        return found

    def refused(self) -> list:
        """What both formats say to a wrong password."""
        wrong = {**self.told["security"]["sasl"], "sasl.password": "wrong"}
        complaints = []
        for frame in (self.messages(**wrong), self.read("zk_offsets", groups=self.told["group"], **wrong)):
            try:
                frame.collect()
            except PySparkException as error:
                complaints.append(f"{type(error).__name__}: {reason_of(error)}")
        return complaints

    def messages_stream(self) -> list:
        rows = self.read_once(
            "zk_messages",
            **{"topics": self.told["topic"], "group.id": f"stream-{self.told['group']}", "claimOwnership": "true"},
            maxOffsetsPerTrigger="8",
            schema="partition int, offset bigint",
            **self.told["security"]["tls"],
            **self.told["digest"],
        )
        return sorted(tuple(row) for row in rows)

    def malformed(self) -> str:
        context = self.spark.sparkContext
        context.setJobGroup("malformed", "a task that cannot succeed")
        try:
            self.read("zk_offsets", groups=self.told["malformed"], mode="FAILFAST").collect()
        except PySparkException as error:
            [job] = context.statusTracker().getJobIdsForGroup("malformed")
            stages = context.statusTracker().getJobInfo(job).stageIds
            tries = sum(context.statusTracker().getStageInfo(stage).numFailedTasks for stage in stages)
            return f"{tries} tries: {reason_of(error)}"
        finally:
            context.setJobGroup("", "")
        return "not failed"

    def messages_of_a_dying_executor(self) -> list:
        frame = self.messages(schema="partition int, offset bigint")
        rows = frame.mapInArrow(dying_once, "partition int, offset bigint, attempt int").collect()
        assert any(row["attempt"] for row in rows), "nobody died"
        return sorted((row["partition"], row["offset"]) for row in rows)


def with_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A column more: Python workers are children of one process for each executor."""
    for batch in batches:
        yield batch.append_column("executor", pa.array([os.getppid()] * batch.num_rows, pa.int64()))


def dying_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The executor of the first task to come here dies before it has read anything to its end."""
    context = TaskContext.get()
    for batch in batches:
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            os.kill(parent_of(os.getppid()), signal.SIGKILL)
            signal.pause()
        yield batch.append_column("attempt", pa.array([context.attemptNumber()] * batch.num_rows, pa.int32()))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main() -> None:
    told = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.local.dir": folder,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        spark = SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,1024]").config(map=settings).getOrCreate()
        try:
            register(spark)
            registered = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
            wait_for(lambda: registered().size() == 1 + EXECUTORS, 60, lambda: AssertionError("no executors"))
            steps = Steps(spark, told, Path(folder))
            print(json.dumps({name: getattr(steps, name)() for name in told["steps"]}))
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
