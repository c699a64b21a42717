"""Keeps a table of how far groups are behind, and draws it.

    python examples/lag_history.py --zookeeper localhost:2181/kafka --groups 'billing,web-*' --table lag-history
    python examples/lag_history.py --table lag-history --draw billing
    python examples/lag_history.py --table lag-history --draw billing --svg billing.svg

The first takes a snapshot every --every seconds and appends it to Parquet files, until Ctrl-C, SIGTERM or the last of
--snapshots; its checkpoint lies beside the table, so it can be started again. The second draws a group's lag over time
as text, the third also as a picture for a browser, with a line for each topic.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import click
from pyspark.errors import PySparkException

from spark_source import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "group string, topic string, partition int, committed_offset bigint, log_end bigint, lag bigint, read_at timestamp"
)
BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH = 72
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
"""Of the lines; with more topics they come again."""
PICTURE = (900, 360)
LEFT, RIGHT, TOP, BOTTOM = 90, 24, 24, 40
"""The margins of a picture, for its title and its scales; on top comes a line for each topic."""
LINE = 16

History = Sequence[tuple[datetime, int]]
"""(when, lag) of each snapshot."""


@click.command(epilog="Example: python examples/lag_history.py --zookeeper localhost:2181 --table lags --snapshots 9")
@click.option("--table", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder of the table.")
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="The zookeeper.connect to watch.")
@click.option("--groups", default="*", show_default=True, help="Names and globs, separated by commas.")
@click.option("--every", default=10.0, show_default=True, help="Seconds from one snapshot to the next.")
@click.option("--snapshots", type=int, help="Stop after so many.")
@click.option("--draw", metavar="GROUP", help="Draw the lag of this group instead.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="With --draw: a picture into this file.")
def main(
    table: Path,
    zookeeper: str | None,
    groups: str,
    every: float,
    snapshots: int | None,
    draw: str | None,
    svg: Path | None,
) -> None:
    """Keep a history of the lag of groups, or draw it."""
    if (zookeeper is None) == (draw is None) or (svg is not None and draw is None):
        raise click.UsageError("give --zookeeper to keep the history, or --draw to look at it")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Spark and its folder go first
    with started_spark() as spark:
        if draw is not None:
            topics = topics_of(spark, table, draw)
            click.echo(drawing(draw, total(topics)))
            if svg is not None and topics:
                svg.write_text(picture(draw, topics), encoding="utf-8")
                click.echo(f"drawn into {svg}")
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
            for progress in query.recentProgress:
                # between two snapshots Spark reports the number of the next one, without a batch
                if progress["batchId"] > last and "addBatch" in progress["durationMs"]:
                    last = progress["batchId"]
                    taken += 1
                    click.echo(f"snapshot {last}: {progress['numInputRows']} partitions")
            if snapshots is not None and taken >= snapshots:
                break
    except KeyboardInterrupt:
        click.echo("interrupted")
    finally:
        query.stop()


def topics_of(spark: SparkSession, table: Path, group: str) -> dict[str, History]:
    """{topic: its history} of a group, partitions added up; an offset beyond the log's end counts as no lag."""
    from pyspark.sql import functions as f

    rows = (
        spark.read.parquet(str(table / "snapshots"))
        .where((f.col("group") == group) & f.col("lag").isNotNull())
        .groupBy("topic", "read_at")
        .agg(f.sum(f.greatest("lag", f.lit(0))).alias("lag"))
        .orderBy("topic", "read_at")
        .collect()
    )
    topics: dict[str, list[tuple[datetime, int]]] = {}
    for row in rows:
        topics.setdefault(row["topic"], []).append((row["read_at"], row["lag"]))
    return dict(topics)


def total(topics: Mapping[str, History]) -> History:
    """All topics together."""
    sums: dict[datetime, int] = {}
    for history in topics.values():
        for when, lag in history:
            sums[when] = sums.get(when, 0) + lag
    return sorted(sums.items())


def picture(group: str, topics: Mapping[str, History]) -> str:
    """An SVG with a line for each of at least one topic, over the time of all snapshots, the highest lag at the top."""
    width, height = PICTURE
    top = TOP + LINE * len(topics)
    times = [when for history in topics.values() for when, _ in history]
    first, last = min(times), max(times)
    most = max(lag for history in topics.values() for _, lag in history)
    seconds = (last - first).total_seconds() or 1.0

    def place(when: datetime, lag: int) -> str:
        x = LEFT + (width - LEFT - RIGHT) * (when - first).total_seconds() / seconds
        return f"{x:.1f},{height - BOTTOM - (height - top - BOTTOM) * lag / (most or 1):.1f}"

    parts = [f'<text x="{LEFT}" y="{TOP}" font-size="16">lag of {escape(group)}</text>']
    for share in (0.0, 0.5, 1.0):
        y = height - BOTTOM - (height - top - BOTTOM) * share
        parts.append(f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{most * share:,.0f}</text>')
    for when, x, anchor in ((first, LEFT, "start"), (last, width - RIGHT, "end")):
        parts.append(f'<text x="{x}" y="{height - 12}" text-anchor="{anchor}">{when:%Y-%m-%d %H:%M:%S}</text>')
    for number, (topic, history) in enumerate(sorted(topics.items())):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(place(when, lag) for when, lag in history)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = f'x="{width - RIGHT}" y="{TOP + LINE * number}" text-anchor="end" fill="{colour}"'
        parts.append(f"<text {label}>{escape(topic)}: {history[-1][1]:,}</text>")
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{width}" height="{height}" fill="white"/>\n{inside}\n</svg>\n'
    )


def drawing(group: str, history: History) -> str:
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
    try:
        main()
    except PySparkException as error:
        raise SystemExit(f"Error: {reason_of(error)}") from None
