"""Tables for people: drawn on a terminal, plain columns in a pipe, where nothing is cut and nothing is coloured.

rich is imported by what draws: a command that prints lines is done before rich would be there.
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
"""Of a cell: anybody makes a group with a name of half a million characters, and all rows are as wide. JSON and CSV
have the whole name."""
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; a word may be as long as a consumer id, a number is aligned to the right."""

    title: str
    is_number: bool = False
    folds: bool = False
    """It gives way where the terminal is too narrow, by going on in the next line."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with a style that only terminals show."""

    text: str
    style: str = ""
    elides: bool = False
    """Its beginning may be left out on a narrow terminal: a name that stands whole elsewhere."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> None:
    """Print to standard output."""
    if is_terminal(sys.stdout):
        _terminal().print(drawn_table(columns, rows))
        return
    from rich.cells import cell_len

    # rich takes 5 ms for a table of a few rows, which is most of what it costs to describe a thousand groups
    lines = [[column.title for column in columns], *([_clean(cell).text for cell in row] for row in rows)]
    widths = [max(map(cell_len, texts)) for texts in zip(*lines, strict=True)]
    for line in lines:
        padded = []
        for column, text, width in zip(columns, line, widths, strict=True):
            blanks = " " * (width - cell_len(text))
            padded.append(blanks + text if column.is_number else text + blanks)
        click.echo("  ".join(padded).rstrip())


def drawn_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> Table:
    """Return the table as a terminal shows it, for a caller that draws on a screen of its own."""
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
    """Print a line to standard output, styled on terminals alone."""
    text = printable(text)
    if style and is_terminal(sys.stdout):
        _terminal().print(text, style=style, soft_wrap=True)
    else:
        click.echo(text)


def say_error(text: str) -> None:
    """Print one line to standard error, whatever others wrote into it."""
    click.echo(printable(shown(text)), err=True)


def say_all(before: str, names: Iterable[str], behind: str) -> None:
    """As say_error, with all of these names, however many: they stand nowhere else."""
    click.echo(printable(f"{before}{', '.join(map(shown, names))}{behind}"), err=True)


def _terminal() -> Console:
    """A console for the terminal that standard output is; nothing that is printed means markup."""
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def duration(ms: int | None) -> str:
    """Milliseconds in the largest unit that says it roughly: 850 ms, 12 s, 5 min, 3 h, 4 d."""
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
    """The digits, or a dash where nothing is known."""
    return "-" if value is None else str(value)
