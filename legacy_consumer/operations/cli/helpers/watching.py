"""Draws a screen repeatedly, until Ctrl-C or SIGTERM, and then clears it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from legacy_consumer.operations.cli.helpers.ending import Ending
from legacy_consumer.operations.cli.helpers.outputs import is_terminal, require_output
from legacy_consumer.operations.cli.helpers.tables import say_error
from legacy_consumer.operations.cli.helpers.times import FiniteRange
from rebalance.clock import Clock, SystemClock
from zk_layout.errors import LegacyConsumerError
from zk_layout.plain_text import printable

_SLICE_S = 0.1


def watch(
    draw: Callable[[], Sequence[RenderableType]] | None,
    print_once: Callable[[], object],
    *,
    title: str,
    interval_s: float,
    clock: Clock | None = None,
) -> int:
    """Look every interval_s seconds; call draw on a terminal, print_once in a pipe. Returns: the exit code.

    draw: None for an output for programs, which is printed on a terminal, too.
    After the first look, a retriable failure does not end the command. The screen shows the failure and keeps the last
    good look. A pipe gets no output for it, and standard error a message, once until a look succeeds again.
    """
    ending = Ending()
    with ending:
        _watch(ending, clock or SystemClock(), draw, print_once, title, interval_s)
    if ending.requested:
        # the process is about to end, and another Ctrl-C must not change its exit code
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return ending.exit_code


def _watch(
    ending: Ending,
    clock: Clock,
    draw: Callable[[], Sequence[RenderableType]] | None,
    print_once: Callable[[], object],
    title: str,
    interval_s: float,
) -> None:
    output = require_output()
    if draw is None or not is_terminal(output):
        print_once()
        ending.wait_for_end()
        output.flush()
        is_told = False
        while _sleep(clock, ending, interval_s):
            with ending.writing():
                try:
                    print_once()
                    is_told = False
                except LegacyConsumerError as error:
                    if not error.retriable:
                        raise
                    if not is_told:
                        say_error(f"Warning: measurements are missing from here on: {error}")
                    is_told = True
                output.flush()
        return
    console = Console(file=output, markup=False, emoji=False, highlight=False)
    shown: Sequence[RenderableType] = draw()
    ending.wait_for_end()
    head = Text(printable(f"{title}, every {interval_s:g} s; Ctrl-C ends"), style="dim")
    with Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live:
        live.update(Group(head, Text(), *shown), refresh=True)
        while _sleep(clock, ending, interval_s):
            trouble: list[RenderableType] = []
            try:
                shown = draw()
            except LegacyConsumerError as error:
                if not error.retriable:
                    raise
                trouble.append(Text(printable(f"what stands below may be old: {error}"), style="red"))
            live.update(Group(head, *trouble, Text(), *shown), refresh=True)


def _sleep(clock: Clock, ending: Ending, seconds: float) -> bool:
    """Wait until the time is over (True) or the end is requested (False).

    Looks at `requested` in short intervals: a signal handler must not set an event, which takes a lock.
    """
    end = clock.monotonic() + seconds
    never = threading.Event()
    while not ending.requested and (left := end - clock.monotonic()) > 0:
        clock.wait(never, min(_SLICE_S, left))
    return not ending.requested


def interval_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add --watch and --interval to a command."""
    command = click.option(
        "--interval",
        metavar="SECONDS",
        type=FiniteRange(min=0.1),
        default=2.0,
        show_default=True,
        help="With --watch: the time between two measurements.",
    )(command)
    return click.option("--watch", "is_watched", is_flag=True, help="Repeat until Ctrl-C.")(command)
