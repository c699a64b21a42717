"""`legacy-consumer config list`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click

from legacy_consumer.config.properties import PROPERTIES, Kind, Property
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.tables import Column, print_table
from rebalance.assignors.seam import Assignor, AssignorProperty
from rebalance.assignors.strategies import STRATEGIES, make_assignors
from rebalance.errors import UnknownAssignorError

_COLUMNS = (
    Column("PROPERTY"),
    Column("READ BY"),
    Column("TYPE", folds=True),
    Column("DEFAULT", folds=True),
    Column("MEANING", folds=True),
)
_FIELDS = ("property", "read_by", "type", "default", "meaning")


class _Row(NamedTuple):
    name: str
    read_by: str
    kind: str
    default: str
    meaning: str


@click.command(
    name="list",
    epilog="""

\b
Example:
  legacy-consumer config list --strategy roundrobin,mypackage.assigning:ByRack --json
""",
)
@click.option(
    "--strategy",
    metavar="NAMES",
    help="Only the properties of these assignors: names as in partition.assignment.strategy, or the import path "
    "of your own.",
)
@output_options
def list_command(output: Output, strategy: str | None) -> None:
    """List every property of consumers and of the built-in assignors.

    Properties of assignors apply to groups that a member or a coordinator leads, and to `assign`.
    """
    rows = [*_of_consumers(), *_of_assignors(_all_assignors())] if strategy is None else _of_assignors(_named(strategy))
    if output is Output.TABLE:
        print_table(_COLUMNS, rows)
        return
    records = [dict(zip(_FIELDS, row, strict=True)) for row in rows]
    if output is Output.JSON:
        print_json(records)
    else:
        print_csv(_FIELDS, records)


def _named(names: str) -> list[type[Assignor]]:
    try:
        return [type(assignor) for assignor in make_assignors(names, {})]
    except UnknownAssignorError as error:
        raise click.BadParameter(str(error), param_hint="--strategy") from error


def _all_assignors() -> list[type[Assignor]]:
    return [strategy.assignor for strategy in STRATEGIES.values()]


def _of_consumers() -> Iterator[_Row]:
    for known in PROPERTIES:
        yield _Row(known.name, "consumer", _kind_of(known), known.default_text, known.meaning)


def _kind_of(known: Property) -> str:
    if known.kind is Kind.WORD:
        return ", ".join(choice or "empty" for choice in known.choices)
    return str(known.kind.value)


def _of_assignors(assignors: list[type[Assignor]]) -> list[_Row]:
    return [
        _Row(known.name, f"assignor {assignor.name}", _assignor_kind(known), _default_of(known), known.meaning)
        for assignor in assignors
        for known in assignor.properties
    ]


def _assignor_kind(known: AssignorProperty) -> str:
    if isinstance(known.default, bool):
        return Kind.BOOLEAN.value
    if isinstance(known.default, int):
        return f"integer from {known.minimum} to {known.maximum}"
    return Kind.TEXT.value


def _default_of(known: AssignorProperty) -> str:
    return str(known.default).lower() if isinstance(known.default, bool) else str(known.default)
