"""`legacy-consumer quickstart`: demonstrates the main use, with servers that it starts itself."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TypeAlias

import click
from rich.console import Console

from legacy_consumer.operations.cli.helpers.lasting_output import outlasts_reader

_Handler: TypeAlias = "Callable[[int, FrameType | None], object] | int | None"

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupted(BaseException):
    """A signal asks to stop. It is no Exception, so that no `except Exception` takes it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; progress goes to standard error.")
@outlasts_reader()
def quickstart(as_json: bool) -> None:
    """Run a group on real servers and real data, and check that it loses no message.

    Starts a ZooKeeper and a Kafka 1.1.1 on this machine, produces the 336,776 flights that left New York City in 2013,
    and consumes them with a group that grows from one process to four, loses one to kill -9, and shrinks to one. At the
    end the command compares the members' records with the log, and Spark reads the group's offsets.

    Needs Java 17 and legacy-consumer[quickstart]; takes about a minute. Ctrl-C stops all servers and leaves nothing
    behind. The exit code is 1 if a flight is lost or another check fails.

    \b
    Example:
      legacy-consumer quickstart --json
    """  # noqa: D301  (the escape is click's mark for lines that keep their breaks)
    from legacy_consumer.sandbox.quickstart.screen import LiveScreen, PlainScreen, Screen, print_summary
    from legacy_consumer.sandbox.quickstart.story import run_story

    console = Console(stderr=as_json, emoji=False)
    try:
        with _interrupted_by_signals() as ignore_signals, ExitStack() as stack:
            screen: Screen = PlainScreen(console)
            if console.is_terminal and not as_json:
                screen = stack.enter_context(LiveScreen(console))
            report = run_story(screen, before_cleanup=ignore_signals)
    except _Interrupted as interrupted:
        click.echo("stopped: nothing is left behind", err=True)
        sys.exit(128 + interrupted.number)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
        for failure in report.failures:
            click.echo(f"FAILED: {failure}", err=True)
    else:
        print_summary(console, report)
    if report.failures:
        sys.exit(1)


@contextmanager
def _interrupted_by_signals() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C and other signals raise _Interrupted until the caller calls the yielded function; then ignore them.

    Cleaning up takes a moment, and a second Ctrl-C must not end it halfway.
    """
    ignoring = False

    def ignore() -> None:
        nonlocal ignoring
        ignoring = True

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if not ignoring:
            raise _Interrupted(number)

    # a closed terminal must not end a process that nohup started
    numbers = [n for n in _SIGNALS if n is not signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    before: dict[signal.Signals, _Handler] = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield ignore
    except _Interrupted:
        # the process is about to end, and another Ctrl-C must not change its exit code
        before = dict.fromkeys(before, signal.SIG_IGN)
        raise
    finally:
        ignore()
        for number, handler in before.items():
            signal.signal(number, handler)
