"""A progress bar on the terminal for long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from legacy_consumer.operations.cli.helpers.outputs import is_terminal


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error, if that is a terminal. Yields the function that advances it by some steps."""
    if not is_terminal(sys.stderr) or total == 0:
        yield lambda _: None
        return
    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)
