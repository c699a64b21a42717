"""`legacy-consumer`: finds the command, and turns whatever it ends with into one line and an exit code.

0 done; 1 it could not be done, and a line on standard error says why; 2 called in a wrong way; 70 a defect of this
program; 130 Ctrl-C. A reader that closes our standard output (`| head`) is no failure.
"""

from __future__ import annotations

import errno
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from legacy_consumer.cli.help_texts import example_last
from legacy_consumer.cli.logs import set_up_logging, shows_tracebacks
from legacy_consumer.cli.options import verbose_option
from zk_layout.errors import LegacyConsumerError

FAILED = 1
DEFECT = 70
INTERRUPTED = 130

_EXAMPLE = """

\b
Example:
  legacy-consumer groups describe billing --zookeeper localhost:2181/kafka
"""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a command is written, and what it does in a few words."""

    module: str
    name: str
    summary: str


_COMMANDS = {
    "assign": _Place(
        "legacy_consumer.cli.assign", "assign", "What a group of these members would do, without servers."
    ),
    "brokers": _Place("legacy_consumer.cli.brokers", "brokers", "Show the brokers that are registered."),
    "consume": _Place("legacy_consumer.cli.consume", "consume", "Join a group and print its messages."),
    "doctor": _Place("legacy_consumer.cli.doctor", "doctor", "Find what is wrong, and say what to do about it."),
    "embedded": _Place("legacy_consumer.cli.embedded", "embedded", "Run a real ZooKeeper and real Kafka brokers here."),
    "exporter": _Place("legacy_consumer.cli.exporter", "exporter", "Serve all groups' lag to Prometheus."),
    "groups": _Place("legacy_consumer.cli.groups", "groups", "Look at groups, check them, delete them."),
    "migrate": _Place("legacy_consumer.cli.migrate", "migrate", "Move a group's offsets into Kafka, and back."),
    "node": _Place("legacy_consumer.cli.node", "node", "Be one server of a real cluster, as in a container."),
    "offsets": _Place("legacy_consumer.cli.offsets", "offsets", "Reset, copy, save and restore groups' offsets."),
    "quickstart": _Place(
        "legacy_consumer.cli.quickstart", "quickstart", "See a group at work, from nothing to a proof."
    ),
    "topics": _Place("legacy_consumer.cli.topics", "topics", "Show the topics, and which groups read them."),
}


class _OutputClosedError(Exception):
    """Nobody reads our standard output any more. Not an OSError, which click would answer with exit code 1."""


class _Program(click.Group):
    """Imports a command when it is asked for, so that none waits for the libraries of the others.

    Called as a program it ends the process with the exit codes above.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for name, place in _COMMANDS.items() if importlib.util.find_spec(place.module)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        place = _COMMANDS[name]
        command = getattr(importlib.import_module(place.module), place.name)
        assert isinstance(command, click.Command)
        return example_last(command)

    @property  # type: ignore[override]  # click has a dictionary here, which would have to be full from the start
    def commands(self) -> dict[str, click.Command]:
        """All commands; this imports them."""
        ctx = click.Context(self)
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: command for name, command in found.items() if command is not None}

    @commands.setter
    def commands(self, given: dict[str, click.Command]) -> None:
        """Take what click's constructor sets, which is nothing."""
        assert not given

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name].summary) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _OutputClosedError from error

    def main(  # type: ignore[override]  # click's signature has overloads for its own way to end the process
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        standalone_mode: bool = True,
        **extra: object,
    ) -> object:
        run = functools.partial(
            super().main,
            list(args) if args is not None else None,
            prog_name or "legacy-consumer",
            standalone_mode=False,
            **extra,
        )
        if not standalone_mode:
            return run()
        sys.exit(_exit_code_of(run))


def _version() -> str:
    try:
        return importlib.metadata.version("legacy-consumer")
    except importlib.metadata.PackageNotFoundError:
        return "unknown, it is not installed"


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXAMPLE,
)
@click.version_option(_version(), message="legacy-consumer %(version)s")
@verbose_option
def main() -> None:
    """Kafka consumer groups that live in ZooKeeper: join them, and look at them."""


def _exit_code_of(run: Callable[[], object]) -> int:
    set_up_logging(0)
    code = 0
    try:
        result = run()
        code = result if isinstance(result, int) else 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = INTERRUPTED
    except (BrokenPipeError, _OutputClosedError):
        code = 0
    except Exception as error:  # noqa: BLE001  (whatever it is, people get a line and not a traceback)
        code = _explain(error)
    _drop_unread_output()
    return code


def _explain(error: Exception) -> int:
    if shows_tracebacks():
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if isinstance(error, LegacyConsumerError):
        click.echo(f"Error: {error}", err=True)
        return FAILED
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:
        click.echo(f"Error: cannot write: {error.strerror}", err=True)
        return FAILED
    advice = "" if shows_tracebacks() else "; run again with -vv for the traceback"
    what = " ".join(f"{type(error).__name__}: {error}".split())
    click.echo(f"Error: a defect of legacy-consumer: {what}{advice}", err=True)
    return DEFECT


def _drop_unread_output() -> None:
    """What nobody reads any more must not fail again when the interpreter ends."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        try:
            descriptor = sys.stdout.fileno()
        except (OSError, ValueError):
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
