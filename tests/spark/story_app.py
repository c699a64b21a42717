"""An application for spark-submit whose streams hang at given places: story_app.py FOLDER

For each round it waits for FOLDER/N/round.json, starts all queries named there at once, and writes how they ended to
FOLDER/N/ended.json. The sink is idempotent: a file holds a batch and has its number; a repeated batch overwrites it.
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
"""Prefixes of the files that report a hanging task or driver."""
COLUMNS = "value string"
NOT_IN_TIME = "Python worker failed to connect back"
"""Spark's error if the worker that plans a stream takes longer than 10 s to start, as on a busy machine; then the
query starts again."""


def put(path: Path, text: str) -> None:
    """Write or replace a file atomically."""
    part = path.with_name(f".{path.name}")
    part.write_text(text)
    part.rename(path)


def await_file(path: Path) -> None:
    wait_for(path.exists, WAIT_S, lambda: AssertionError(f"{path} did not come"))


def standing_still(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow in which a task writes its executor into a file, and hangs until the release.

    So does each attempt of a task: on a busy machine the Python worker of the first attempt may not start in time.
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
    """Start a query. own: the query's folder; place: the round's folder."""
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
