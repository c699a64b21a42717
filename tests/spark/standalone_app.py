"""An application for spark-submit --py-files; its Python finds this project only in that file.

    standalone_app.py FOLDER TOLD-AS-JSON

Prints the result of each step as one line of JSON.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import spark_source
from legacy_consumer.sandbox.servers.waiting import wait_for
from spark_source.reasons import reason_of

WAIT_S = 150
EXECUTORS = 2
SECRETS = {
    "zookeeper.auth.digest": "spark:digest-secret",
    "ssl.key.password": "key-secret",
    "sasl.oauthbearer.client.secret": "oauth-secret",
}
"""{option: secret}. Only the first option has an effect with these servers."""


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def where_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [spark_source.__file__]})


def with_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Append a column with the parent process of the Python worker, of which each executor has one."""
    for batch in batches:
        yield batch.append_column("executor", pa.array([os.getppid()] * batch.num_rows, pa.int64()))


class Steps:
    """The steps of the application, in this order."""

    def __init__(self, spark: SparkSession, folder: Path, told: dict) -> None:
        self.spark = spark
        self.folder = folder
        self.group, self.topic, self.security = told["group"], told["topic"], told["security"]
        self.malformed_group = told["malformed"]
        self.cluster = {"zookeeper.connect": told["zookeeper"], "zookeeper.set.acl": "true", **SECRETS}
        self.left = self.messages()

    def messages(self, **options: str) -> DataFrame:
        """Return a frame of the messages that the group has not read, unless the options say otherwise."""
        given = {**self.cluster, "topics": self.topic, "group.id": self.group, "fetcher": "librdkafka", **options}
        return self.spark.read.format("zk_messages").options(**given).schema("partition int, offset bigint").load()

    def groups(self, groups: str, **options: str) -> DataFrame:
        return self.spark.read.format("zk_offsets").options(**self.cluster, groups=groups, **options).load()

    def stream(self, form: str, **options: str) -> DataFrame:
        """Run a stream over the present data. Returns: a frame of what it wrote."""
        reader = self.spark.readStream.format(form).options(**self.cluster, **options)
        place = {"path": str(self.folder / form), "checkpointLocation": str(self.folder / f"{form}-checkpoint")}
        writer = reader.load().writeStream.format("parquet").options(**place)
        assert writer.trigger(availableNow=True).start().awaitTermination(WAIT_S)
        return self.spark.read.parquet(place["path"])

    def places(self) -> list:
        files = self.spark.range(4).mapInArrow(where_it_is, "file string").collect()
        return sorted({spark_source.__file__, *(row["file"] for row in files)})

    def executors_of_two_groups(self) -> int:
        frame = self.groups(f"{self.group},{self.malformed_group}", numPartitions="2").select("partition")
        rows = frame.mapInArrow(with_executor, "partition int, executor bigint").collect()
        return len({row["executor"] for row in rows})

    def read_with_tls(self) -> list:
        return sorted_rows(self.messages(fetcher="auto", startingOffsets="earliest", **self.security["tls"]))

    def read_with_sasl(self) -> list:
        return sorted_rows(self.messages(startingOffsets="earliest", **self.security["sasl"]))

    def not_read_before(self) -> list:
        return sorted_rows(self.left)

    def refused(self) -> list:
        """Return the errors of both formats for a wrong password."""
        wrong = {**self.security["sasl"], "sasl.password": "wrong"}
        complaints = []
        for frame in (self.messages(**wrong), self.groups(self.group, **wrong)):
            try:
                frame.collect()
            except PySparkException as error:
                complaints.append(f"{type(error).__name__}: {reason_of(error)}")
        return complaints

    def malformed(self) -> str:
        context = self.spark.sparkContext
        context.setJobGroup("malformed", "a task that cannot succeed")
        try:
            self.groups(self.malformed_group, mode="FAILFAST").collect()
        except PySparkException as error:
            [job] = context.statusTracker().getJobIdsForGroup("malformed")
            stages = context.statusTracker().getJobInfo(job).stageIds
            tries = sum(context.statusTracker().getStageInfo(stage).numFailedTasks for stage in stages)
            return f"{tries} tries: {reason_of(error)}"
        finally:
            context.setJobGroup("", "")
        return "not failed"

    def streamed(self) -> list:
        options = {"topics": self.topic, "group.id": self.group, "claimOwnership": "true", "maxOffsetsPerTrigger": "20"}
        secured = {**self.security["tls"], "fetcher": "librdkafka"}
        return sorted_rows(self.stream("zk_messages", **options, **secured).select("partition", "offset"))

    def standing(self) -> list:
        frame = self.stream("zk_offsets", groups=self.group)
        return sorted_rows(frame.select("partition", "committed_offset", "lag"))

    def not_read_after(self) -> list:
        return sorted_rows(self.left)

    def left_when_put_back(self) -> list:
        """Set the group's offsets back. Returns: the unread messages by the earlier frame, and by a fresh one."""
        back = self.spark.range(2).selectExpr(
            f"'{self.group}' as group", f"'{self.topic}' as topic", "cast(id as int) as partition", "id + 3 as offset",
        )  # fmt: skip
        back.write.format("zk_offsets").options(**self.cluster, backupFolder=str(self.folder)).mode("append").save()
        return [sorted_rows(self.left), sorted_rows(self.messages())]


STEPS = (
    Steps.places,
    Steps.executors_of_two_groups,
    Steps.read_with_tls,
    Steps.read_with_sasl,
    Steps.not_read_before,
    Steps.refused,
    Steps.malformed,
    Steps.streamed,
    Steps.standing,
    Steps.not_read_after,
    Steps.left_when_put_back,
)


def sorted_rows(frame: DataFrame) -> list:
    return sorted(tuple(row) for row in frame.collect())


def main() -> None:
    folder, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    spark = SparkSession.builder.getOrCreate()
    spark_source.register(spark)
    try:
        registered = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
        wait_for(lambda: registered().size() == 1 + EXECUTORS, WAIT_S, lambda: AssertionError("no executors"))
        steps = Steps(spark, folder, told)
        print(json.dumps({step.__name__: step(steps) for step in STEPS}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
