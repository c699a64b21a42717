"""`python -m spark_source`: a group's offsets and lag, read through a local Spark."""

from __future__ import annotations

import json
import signal
import sys
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING

import click

from legacy_consumer.operations.cli.helpers.outputs import abandon_output
from legacy_consumer.operations.cli.helpers.tables import Cell, Column
from legacy_consumer.operations.cli.helpers.tables import print_table as print_rows
from spark_source.arrow import ColumnType
from spark_source.errors import SparkReadError
from spark_source.offsets import COLUMNS
from spark_source.reasons import reason_of
from zk_layout.plain_text import printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Row

KEY = ("group", "topic", "partition")
SHOWN = (*KEY, "committed_offset", "commit_time", "owner", "log_start", "log_end", "lag", "lag_verdict")
"""The columns of the table for people."""

_EXAMPLE = "Example: python -m spark_source --zookeeper localhost:2181 --group billing --json"


@click.command(epilog=_EXAMPLE)
@click.option("--zookeeper", required=True, metavar="HOST:PORT[/CHROOT]", help="The zookeeper.connect to read.")
@click.option("--group", required=True, metavar="NAMES", help="Groups: names or globs, separated by commas.")
@click.option("--option", "pairs", multiple=True, metavar="KEY=VALUE", help="Any other option of zk_offsets.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line instead of a table.")
def main(zookeeper: str, group: str, pairs: tuple[str, ...], *, as_json: bool) -> None:
    """Read a group's offsets, owners and lag as a Spark DataFrame and print them."""
    options = {"missingGroups": "fail", "zookeeper.connect": zookeeper, "groups": group}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--option")
        options[key] = value
    signal.signal(signal.SIGTERM, _end)
    try:
        rows = _read(options)
    except SparkReadError as error:
        click.echo(printable_lines(f"error: {error}"), err=True)
        sys.exit(1)
    try:
        if as_json:
            for row in rows:
                click.echo(json.dumps(row.asDict(), default=_as_json).replace("\x7f", "\\u007f"))
        else:
            print_table(rows)
    except BrokenPipeError:
        raise  # click ends the program without a word
    except OSError as error:
        abandon_output()
        click.echo(f"error: cannot write: {error.strerror}", err=True)
        sys.exit(1)


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)  # an exception, so that Spark ends and its folder is deleted first


def _read(options: dict[str, str]) -> list[Row]:
    from pyspark.errors import PySparkException

    from spark_source.local_spark import local_spark
    from spark_source.source import register

    try:
        with local_spark("zk_offsets") as spark:
            register(spark)
            try:
                rows = spark.read.format("zk_offsets").options(**options).load().collect()
            except PySparkException as error:
                # while the JVM runs: the text of its errors comes from it
                raise SparkReadError(reason_of(error)) from error
    except PySparkException as error:
        raise SparkReadError(f"Spark does not start: {reason_of(error)}") from error
    return sorted(rows, key=lambda row: tuple(row[name] for name in KEY))


def _as_json(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    raise TypeError(f"{value!r} has no JSON")


def print_table(rows: Sequence[Row]) -> None:
    """Print a table for people, and below it why znodes cannot be read."""
    numbers = {column.name for column in COLUMNS if column.type in {ColumnType.INT, ColumnType.LONG}}
    print_rows(
        [Column(name, is_number=name in numbers, folds=True) for name in SHOWN],
        [[Cell(_as_text(row[name]), elides=name == "owner") for name in SHOWN] for row in rows],
    )
    for row in rows:
        if row["error"]:
            click.echo(printable(f"{row['group']} {row['topic']}/{row['partition']}: {row['error']}"))


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat(" ", "seconds") if isinstance(value, datetime) else str(value)


if __name__ == "__main__":
    main(prog_name="python -m spark_source")
