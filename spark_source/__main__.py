"""`python -m spark_source`: a group's offsets and lag, read through a local Spark."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from spark_source.errors import reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Row

KEY = ("group", "topic", "partition")

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
    try:
        rows = _read(options)
    except Exception as error:  # noqa: BLE001 - whatever Spark and py4j raise, a person gets one line
        click.echo(f"error: {reason_of(error)}", err=True)
        sys.exit(1)
    if as_json:
        for row in rows:
            click.echo(json.dumps(row.asDict(), default=_as_json))
    else:
        Console().print(_table(rows))


def _read(options: dict[str, str]) -> Sequence[Row]:
    from spark_source.local_spark import local_spark
    from spark_source.source import register

    with local_spark("zk_offsets") as spark:
        register(spark)
        rows = spark.read.format("zk_offsets").options(**options).load().collect()
    return sorted(rows, key=lambda row: tuple(row[name] for name in KEY))


def _as_json(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    raise TypeError(f"{value!r} has no JSON")


def _table(rows: Sequence[Row]) -> Table:
    table = Table()
    names = list(rows[0].asDict()) if rows else list(KEY)
    with_errors = any(row["error"] for row in rows)
    names = [name for name in names if name != "error" or with_errors]
    for name in names:
        table.add_column(name, justify="left" if name in {"group", "topic", "owner", "error"} else "right")
    for row in rows:
        table.add_row(*("" if row[name] is None else str(row[name]) for name in names))
    return table


if __name__ == "__main__":
    main(prog_name="python -m spark_source")
