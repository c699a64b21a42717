"""The progress of long work, for the person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from legacy_consumer.operations.cli.helpers.outputs import is_terminal


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if that is a terminal; hands out what moves it on."""
    if not is_terminal(sys.stderr) or total == 0:
        yield lambda _: None
        return
    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)
