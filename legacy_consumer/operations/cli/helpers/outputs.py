"""Output for programs: JSON and CSV, beside the tables for people."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import BinaryIO, Concatenate, ParamSpec, TextIO, TypeVar

import click

from zk_layout.plain_text import printable

P = ParamSpec("P")
R = TypeVar("R")


class Output(Enum):
    """The values of --format."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def output_options(command: Callable[Concatenate[Output, P], R]) -> Callable[P, R]:
    """Add --format and --json to a command, which gets an Output as its first argument."""

    @click.option(
        "--format",
        "output_name",
        type=click.Choice([output.value for output in Output]),
        default=Output.TABLE.value,
        show_default=True,
        help="A table for people, JSON or CSV for programs; a spreadsheet must import CSV as text.",
    )
    @click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
    @functools.wraps(command)
    def with_output(*args: P.args, **kwargs: P.kwargs) -> R:
        name = kwargs.pop("output_name")
        as_json = kwargs.pop("as_json")
        if as_json and name == Output.CSV.value:
            raise click.UsageError("Give either --json or --format csv.")
        return command(Output.JSON if as_json else Output(name), *args, **kwargs)

    return with_output


def print_json(document: object, *, on_one_line: bool = False) -> None:
    """Print one JSON document, indented or on one line, in ASCII."""
    text = json.dumps(document, indent=None if on_one_line else 2)
    # DEL is the only control character that json.dumps does not escape
    click.echo(text.replace("\x7f", "\\u007f"))


def print_csv(names: Sequence[str], records: Sequence[Mapping[str, object]]) -> None:
    r"""Print a line of names and one line for each record. None is an empty field, a bool true or false.

    A control character is written as \x1b, so that a record is one line and safe to view; JSON keeps every character.
    A text that begins with = + - or @ is not changed, for programs: the help says that a spreadsheet must import CSV as
    text.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(names)
    for record in records:
        writer.writerow([_field(record[name]) for name in names])
    click.echo(written.getvalue(), nl=False)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal. A standard stream is None if the program was started with it closed."""
    return stream is not None and stream.isatty()


def require_output() -> TextIO:
    """Return standard output, for a command that only prints. Raises: click.ClickException if it is closed."""
    if sys.stdout is None:
        raise click.ClickException("standard output is closed: there is nowhere to print to")
    return sys.stdout


def require_input() -> BinaryIO:
    """Return standard input. Raises: click.ClickException if it is closed."""
    if sys.stdin is None:
        raise click.ClickException("standard input is closed: there is nothing to read")
    return sys.stdin.buffer


def keep_standard_descriptors() -> None:
    """Open /dev/null for closed standard descriptors: a socket with such a number would get what libraries print."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def abandon_output() -> None:
    """Redirect the rest of the output to /dev/null: its reader is gone, and the exit must not wait for it or fail."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    send_nowhere(descriptor)


def send_nowhere(descriptor: int) -> None:
    """Redirect the descriptor to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _field(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return printable(" ".join(map(str, value)))
    if isinstance(value, str):
        return printable(value)
    return "" if value is None else value
