"""Prints the lines and tables of a group, or makes them for a screen."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from legacy_consumer.operations.cli.helpers.group_tables import Part, TableOf
from legacy_consumer.operations.cli.helpers.tables import drawn_table, print_table, say
from zk_layout.plain_text import printable


def print_parts(parts: Iterable[Part]) -> None:
    """Print the parts to standard output."""
    for part in parts:
        if isinstance(part, TableOf):
            print_table(part.columns, part.rows)
        else:
            say(part.text, part.style)


def drawn(parts: Iterable[Part]) -> list[RenderableType]:
    """Return the parts as rich draws them on a screen."""
    return [
        drawn_table(part.columns, part.rows) if isinstance(part, TableOf) else Text(printable(part.text), part.style)
        for part in parts
    ]
