"""Tables for people: drawn on a terminal; plain columns in a pipe, without cuts and colours.

Functions that draw import rich themselves: a command that prints only lines ends before rich would be loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from legacy_consumer.operations.cli.helpers.outputs import is_terminal
from zk_layout.plain_text import printable
from zk_layout.shown import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LONGEST_TEXT = 1000
"""The most characters of a cell. Any client can create a group with a name of half a million characters, and all rows
get as wide as the widest. JSON and CSV have the whole name.
"""
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. A number is aligned to the right."""

    title: str
    is_number: bool = False
    folds: bool = False
    """The column may continue in the next line if the terminal is too narrow."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with a style that only terminals show."""

    text: str
    style: str = ""
    elides: bool = False
    """Its beginning may be left out on a narrow terminal, because another place shows the whole name."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> None:
    """Print a table to standard output."""
    if is_terminal(sys.stdout):
        _terminal().print(drawn_table(columns, rows))
        return
    from rich.cells import cell_len

    # rich takes 5 ms for a table of a few rows: most of the time for a description of a thousand groups
    lines = [[column.title for column in columns], *([_clean(cell).text for cell in row] for row in rows)]
    widths = [max(map(cell_len, texts)) for texts in zip(*lines, strict=True)]
    for line in lines:
        padded = []
        for column, text, width in zip(columns, line, widths, strict=True):
            blanks = " " * (width - cell_len(text))
            padded.append(blanks + text if column.is_number else text + blanks)
        click.echo("  ".join(padded).rstrip())


def drawn_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> Table:
    """Return the table as a terminal shows it, for a caller that draws a screen."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    # padding besides the box's own blank between columns: two in all
    table = Table(box=SIMPLE_HEAD, show_edge=False, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    _fill(table, columns, rows)
    return table


def _fill(table: Table, columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> None:
    from rich.text import Text

    from legacy_consumer.operations.cli.helpers.elided import Elided, telling_length

    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            no_wrap=not column.folds,
            overflow="fold",
        )
    clean = [[_clean(cell) for cell in row] for row in rows]
    telling = [telling_length([c.text for c in column if c.elides]) for column in zip(*clean, strict=True)]
    for cells in clean:
        texts = [Text(c.text, c.style) for c in cells]
        table.add_row(
            *(Elided(text, length) if c.elides else text for c, text, length in zip(cells, texts, telling, strict=True))
        )


def _clean(cell: Cell | str) -> Cell:
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    text = cell.text if len(cell.text) <= _LONGEST_TEXT else f"{cell.text[:_LONGEST_TEXT]}..."
    return replace(cell, text=printable(text))


def say(text: str, style: str = "") -> None:
    """Print a line to standard output; only terminals show the style."""
    text = printable(text)
    if style and is_terminal(sys.stdout):
        _terminal().print(text, style=style, soft_wrap=True)
    else:
        click.echo(text)


def say_error(text: str) -> None:
    """Print a text to standard error as one line, shortened, with control characters escaped."""
    click.echo(printable(shown(text)), err=True)


def say_all(before: str, names: Iterable[str], behind: str) -> None:
    """Print a line to standard error with all of these names: no other output shows them."""
    click.echo(printable(f"{before}{', '.join(map(shown, names))}{behind}"), err=True)


def _terminal() -> Console:
    """Return a console for the terminal at standard output; it does not interpret markup in the text."""
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def duration(ms: int | None) -> str:
    """Return milliseconds roughly, in the largest unit that fits: 850 ms, 12 s, 5 min, 3 h, 4 d."""
    if ms is None:
        return "-"
    seconds = ms // 1000
    if seconds == 0:
        return f"{ms} ms"
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def number(value: int | None) -> str:
    """Return the digits, or a dash for None."""
    return "-" if value is None else str(value)
