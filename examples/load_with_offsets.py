"""Loads topics into Parquet files, batch after batch; each file records its last offset, so no message comes twice.

    python examples/load_with_offsets.py --zookeeper localhost:2181/kafka --topics flights --into table
    python examples/load_with_offsets.py --into table --show

There is no checkpoint and no group: the offsets are in the output files. Each task reads one partition
and writes one file, under another name until it is whole. One link() gives the file its name, the offset at which it
begins, and fails if there is such a file already; the offset at which it ends stands inside. The next run begins where
the last file of each partition ends. So

- a task that fails leaves nothing, and its repetition writes the same file;
- of two attempts, or two runs at once, that begin at the same offset, one file counts and the other is dropped;
- a driver that is killed leaves complete files, and unfinished files whose names begin with _, which no reader reads;
the next run begins behind each complete file.

A topic that is created again is not recognised once it is as long as the one before: load it into another folder.

The folder must be seen by driver and executors alike, with link(): a local disk, NFS. On an object store the same is
done with a write that fails if the object is there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException

from legacy_consumer import LegacyConsumerError
from spark_source import batch_offsets, reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

END = b"end_offset"
FILES = "topic string, partition int, start bigint, end bigint, rows bigint"

Offsets = dict[str, dict[str, int]]
"""{topic: {partition: offset}}"""


@click.command(epilog="Example: python examples/load_with_offsets.py --zookeeper zk:2181 --topics flights --into table")
@click.option("--into", "table", required=True, type=click.Path(file_okay=False, path_type=Path), help="The folder.")
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="The zookeeper.connect of the topics.")
@click.option("--topics", help="Names, separated by commas.")
@click.option("--master", default="local[2]", show_default=True, help="Where Spark runs.")
@click.option("--show", is_flag=True, help="Only say how far the folder reaches.")
def main(table: Path, zookeeper: str | None, topics: str | None, master: str, show: bool) -> None:
    """Load what came since the last time."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Spark and its folder go first
    if not show:
        if zookeeper is None or topics is None:
            raise click.UsageError("give --zookeeper and --topics, or --show")
        with tempfile.TemporaryDirectory(prefix="load-") as folder:
            spark = start_spark(master, folder)
            try:
                files = load(spark, {"zookeeper.connect": zookeeper, "topics": topics}, table)
            finally:
                spark.stop()
        for topic, partition, start, end, rows in files:
            click.echo(f"{topic}/{partition}: {rows} messages from {start} on, before {end}")
    loaded = reached(table)
    if not loaded:
        click.echo(f"nothing is loaded into {table} yet")
    for topic, partitions in loaded.items():
        for partition, end in partitions.items():
            click.echo(f"{topic}/{partition} is loaded up to {end}")


def load(
    spark: SparkSession,
    options: dict[str, str],
    table: Path,
    work: Callable[[DataFrame], DataFrame] = lambda messages: messages,
) -> list[tuple[str, int, int, int, int]]:
    """Load what came since the last time; (topic, partition, start, end, rows) of each file that was written.

    work: what is done with the messages first. It may drop columns but topic, partition and offset, and rows, and must
    leave each row in its task: no shuffle.
    """
    # looked at before the logs: what another run loads in between may end behind the ends that are found here
    done = reached(table)
    now = batch_offsets({**options, "startingOffsets": "earliest"})
    starting = {
        topic: {partition: done.get(topic, {}).get(partition, first) for partition, first in begins.items()}
        for topic, begins in now.starting.items()
    }
    for topic, begins in starting.items():
        for partition, start in begins.items():
            if start > now.ending[topic][partition]:
                raise click.ClickException(
                    f"{topic}/{partition} ends at {now.ending[topic][partition]} and is loaded up to {start}: if the "
                    "topic was created again, load it into another folder"
                )
    fixed = {**now.options(), "startingOffsets": json.dumps(starting)}
    messages = spark.read.format("zk_messages").options(**fixed).load()
    files = work(messages).mapInArrow(writer(table.absolute(), starting, now.ending), FILES)
    return sorted(tuple(row) for row in files.collect())


def writer(
    table: Path, starting: Offsets, ending: Offsets
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Write the rows of one task, all of one partition."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return  # without a row there is no file, and the next run looks again
        topic, partition = first["topic"][0].as_py(), first["partition"][0].as_py()
        start, end = starting[topic][str(partition)], ending[topic][str(partition)]
        folder = table / f"topic={topic}" / f"partition={partition}"
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"_{uuid.uuid4().hex}"
        names = [name for name in first.schema.names if name not in {"topic", "partition"}]
        schema = first.select(names).schema.with_metadata({END: str(end)})
        rows = 0
        try:
            with unfinished.open("wb") as file:
                with pq.ParquetWriter(file, schema) as parquet:
                    for batch in (first, *batches):
                        parquet.write_batch(batch.select(names).replace_schema_metadata(schema.metadata))
                        rows += batch.num_rows
                file.flush()
                os.fsync(file.fileno())
            os.link(unfinished, folder / f"{start:020}.parquet")
        except FileExistsError:
            return  # another attempt was quicker
        finally:
            unfinished.unlink(missing_ok=True)
        columns = {"topic": [topic], "partition": [partition], "start": [start], "end": [end], "rows": [rows]}
        types = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int64()]
        yield pa.RecordBatch.from_pydict(columns, pa.schema(list(zip(columns, types, strict=True))))

    return write


def reached(table: Path) -> Offsets:
    """Return where the last file of each partition ends."""
    found: Offsets = {}
    for folder in sorted(table.glob("topic=*/partition=*")):
        files = sorted(folder.glob("*.parquet"))
        if files:
            end = int(pq.read_schema(files[-1]).metadata[END])
            found.setdefault(folder.parent.name.split("=")[1], {})[folder.name.split("=")[1]] = end
    return found


def start_spark(master: str, folder: str) -> SparkSession:
    """A quiet Spark that leaves nothing outside of the folder."""
    from pyspark.sql import SparkSession

    from spark_source import register

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master(master).appName("load").config(map=settings).getOrCreate()
    register(spark)
    return spark


if __name__ == "__main__":
    try:
        main()
    except (LegacyConsumerError, PySparkException) as error:
        raise SystemExit(f"Error: {reason_of(error)}") from None
