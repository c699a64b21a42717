"""Keeps a table of how far groups are behind, and draws it.

    python examples/lag_history.py --zookeeper localhost:2181/kafka --groups 'billing,web-*' --table lag-history
    python examples/lag_history.py --table lag-history --draw billing

The first takes a snapshot every --every seconds and appends it to Parquet files, until it is interrupted or --snapshots
are taken; its checkpoint lies beside the table, so it can be stopped and started again. The second draws a group's lag
over time as text.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "group string, topic string, partition int, committed_offset bigint, log_end bigint, lag bigint, read_at timestamp"
)
BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH = 72


@click.command(epilog="Example: python examples/lag_history.py --zookeeper localhost:2181 --table lags --snapshots 9")
@click.option("--table", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder of the table.")
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="The zookeeper.connect to watch.")
@click.option("--groups", default="*", show_default=True, help="Names and globs, separated by commas.")
@click.option("--every", default=10.0, show_default=True, help="Seconds from one snapshot to the next.")
@click.option("--snapshots", type=int, help="Stop after so many.")
@click.option("--draw", metavar="GROUP", help="Draw the lag of this group instead.")
def main(
    table: Path, zookeeper: str | None, groups: str, every: float, snapshots: int | None, draw: str | None
) -> None:
    """Keep a history of the lag of groups, or draw it."""
    if (zookeeper is None) == (draw is None):
        raise click.UsageError("give --zookeeper to keep the history, or --draw to look at it")
    with started_spark() as spark:
        if draw is not None:
            click.echo(drawing(draw, history_of(spark, table, draw)))
        elif zookeeper is not None:
            keep(spark, table, zookeeper, groups, every, snapshots)


def keep(spark: SparkSession, table: Path, zookeeper: str, groups: str, every: float, snapshots: int | None) -> None:
    """Append snapshots until it is enough."""
    query = (
        spark.readStream.format("zk_offsets")
        .schema(SCHEMA)
        .option("zookeeper.connect", zookeeper)
        .option("groups", groups)
        .option("snapshotIntervalMs", str(max(1, int(every * 1000))))
        .load()
        .writeStream.format("parquet")
        .option("path", str(table / "snapshots"))
        .option("checkpointLocation", str(table / "checkpoint"))
        .start()
    )
    try:
        taken, last = 0, -1
        while not query.awaitTermination(1):
            for progress in query.recentProgress[-10:]:
                if progress["batchId"] > last:
                    last = progress["batchId"]
                    taken += 1
                    click.echo(f"snapshot {last}: {progress['numInputRows']} partitions")
            if snapshots is not None and taken >= snapshots:
                break
    except KeyboardInterrupt:
        click.echo("interrupted")
    finally:
        query.stop()


def history_of(spark: SparkSession, table: Path, group: str) -> list[tuple[datetime, int]]:
    """(when, lag of all partitions) of each snapshot; an offset beyond the log's end counts as none."""
    from pyspark.sql import functions as f

    rows = (
        spark.read.parquet(str(table / "snapshots"))
        .where((f.col("group") == group) & f.col("lag").isNotNull())
        .groupBy("read_at")
        .agg(f.sum(f.greatest("lag", f.lit(0))).alias("lag"))
        .orderBy("read_at")
        .collect()
    )
    return [(row["read_at"], row["lag"]) for row in rows]


def drawing(group: str, history: Sequence[tuple[datetime, int]]) -> str:
    """One line of blocks, the highest lag a full one."""
    if not history:
        return f"no lag of {group} in this table"
    shown = history[-WIDTH:]
    most = max(lag for _, lag in shown)
    line = "".join(BLOCKS[lag * (len(BLOCKS) - 1) // most if most else 0] for _, lag in shown)
    first, last = (f"{when:%Y-%m-%d %H:%M:%S}" for when in (shown[0][0], shown[-1][0]))
    return f"{group}: lag {shown[-1][1]}, at most {most}\n|{line}|\n{first} to {last}, {len(shown)} snapshots"


@contextmanager
def started_spark() -> Iterator[SparkSession]:
    """A quiet Spark that leaves nothing outside of the table."""
    from pyspark.sql import SparkSession

    from spark_source import register

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="lag-history-", ignore_cleanup_errors=True) as folder:
        spark = (
            SparkSession.builder.master("local[2]")
            .appName("lag-history")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "512m")
            .config("spark.local.dir", folder)
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        register(spark)
        try:
            yield spark
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
