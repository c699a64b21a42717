"""An application for spark-submit whose streams stand still where they are told to: story_app.py FOLDER

For each round it waits for FOLDER/N/round.json, starts the queries that are named there, all at once, and writes how
they ended to FOLDER/N/ended.json. The sink is idempotent: a batch is a file named after its number, which a repeated
batch overwrites.
"""

import json
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from legacy_consumer.sandbox.servers.waiting import wait_for
from spark_source import register

WAIT_S = 150
ROUND, ENDED, STOP, RELEASED = "round.json", "ended.json", "stop", "released"
TASK, DRIVER = "task-", "driver-"
"""Of the files that say where something stands still."""
COLUMNS = "value string"
NOT_IN_TIME = "Python worker failed to connect back"
"""Spark gives the worker that plans a stream 10 s to start; on a busy machine the query is started again."""


def put(path: Path, text: str) -> None:
    """The whole file at once, whatever it was before."""
    part = path.with_name(f".{path.name}")
    part.write_text(text)
    part.rename(path)


def await_file(path: Path) -> None:
    wait_for(path.exists, WAIT_S, lambda: AssertionError(f"{path} did not come"))


def standing_still(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Each task that begins before the release names its executor in a file, and waits for the release.

    This holds for each attempt of a task: on a busy machine the Python worker of the first may not start in time.
    """

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not Path(folder, RELEASED).exists():
            daemon = os.getppid()
            executor = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
            put(Path(folder, TASK + uuid.uuid4().hex), executor)
            await_file(Path(folder, RELEASED))
        yield from batches

    return wait


def start(spark: SparkSession, own: Path, place: Path, told: dict) -> StreamingQuery:
    """own: of the query; place: of the round."""
    numbers = count()

    def write(batch: DataFrame, number: int) -> None:
        where = told["stands"] if next(numbers) == told["in_batch"] else None

        def stand(here: str) -> None:
            if where == here:
                (place / f"{DRIVER}{own.name}").touch()
                threading.Event().wait()

        def keep(rows: list[str]) -> None:
            put(own / "out" / str(number), "".join(f"{row}\n" for row in rows))

        stand("before the sink")
        wanted = batch.mapInArrow(standing_still(str(place)), COLUMNS) if where == "in a task" else batch
        rows = [row["value"] for row in wanted.collect()]
        if where == "in the sink":
            keep(rows[:3])
            stand("in the sink")
        keep(rows)
        stand("after the sink")

    (own / "out").mkdir(parents=True, exist_ok=True)
    frame = spark.readStream.format("zk_messages").options(**told["options"]).schema("value binary").load()
    writer = frame.selectExpr("cast(value as string)").writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(own / "checkpoint"))
    return (writer.trigger(availableNow=True) if told["ends_by_itself"] else writer).start()


def live_through(spark: SparkSession, folder: Path, place: Path) -> None:
    await_file(place / ROUND)
    told = json.loads((place / ROUND).read_text())
    queries = {name: start(spark, folder / name, place, own) for name, own in told.items()}
    ended: dict[str, str | None] = {}

    def have_all_ended() -> bool:
        for name, query in list(queries.items()):
            if query.isActive:
                if not (place / STOP).exists():
                    continue
                query.stop()
            reason = reason_it_failed(query)
            if reason is not None and NOT_IN_TIME in reason:
                queries[name] = start(spark, folder / name, place, told[name])
            else:
                ended[name] = reason
        return len(ended) == len(queries)

    wait_for(have_all_ended, 3 * WAIT_S, lambda: AssertionError("the queries do not end"))
    put(place / ENDED, json.dumps(ended))


def reason_it_failed(query: StreamingQuery) -> str | None:
    try:
        query.awaitTermination(WAIT_S)
    except StreamingQueryException as error:
        return str(error)
    return None


def main() -> None:
    folder = Path(sys.argv[1])
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    for number in count():
        place = folder / str(number)
        if not (place / ENDED).exists() and not any(place.glob(f"{DRIVER}*")):
            live_through(spark, folder, place)


if __name__ == "__main__":
    main()
