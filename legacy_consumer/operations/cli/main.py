"""`legacy-consumer`: finds the command, and turns each error into one line and an exit code.

0 success; 1 failure, with the reason in a line on standard error; 2 a wrong call; 70 a defect of this program; 130
Ctrl-C. If a reader closes standard output (`| head`), that is no failure: a command that only prints ends, and
others continue without the output (lasting_output).
"""

from __future__ import annotations

import errno
import functools
import io
import sys
import traceback
from collections.abc import Callable, Sequence

import click

from legacy_consumer.operations.cli.helpers.lazy_group import LazyGroup, Place
from legacy_consumer.operations.cli.helpers.logs import set_up_logging, shows_tracebacks
from legacy_consumer.operations.cli.helpers.options import verbose_option
from legacy_consumer.operations.cli.helpers.outputs import abandon_output, keep_standard_descriptors
from zk_layout.errors import LegacyConsumerError
from zk_layout.plain_text import printable, printable_lines

FAILED = 1
DEFECT = 70
INTERRUPTED = 130

_EXAMPLE = """

\b
Example:
  legacy-consumer groups describe billing --zookeeper localhost:2181/kafka
"""


_COMMANDS = {
    "assign": Place("assign", "assign", "Compute the assignment of a group, without servers."),
    "brokers": Place("brokers", "brokers", "Show the registered brokers."),
    "config": Place("config", "config", "List the properties of consumers and assignors."),
    "consume": Place("consume", "consume", "Join a group and print its messages."),
    "doctor": Place("doctor", "doctor", "Find faults, and suggest a remedy for each."),
    "embedded": Place("embedded", "embedded", "Run a real ZooKeeper and real Kafka brokers here."),
    "exporter": Place("exporter", "exporter", "Serve the lag of all groups to Prometheus."),
    "groups": Place("groups", "groups", "Show, check and delete groups."),
    "log": Place("log", "log", "Show log segments, without a broker."),
    "migrate": Place("migrate", "migrate", "Move a group's offsets into Kafka, and back."),
    "node": Place("node", "node", "Run one server of a real cluster, as in a container."),
    "offsets": Place("offsets", "offsets", "Reset, copy, save and restore groups' offsets."),
    "quickstart": Place("quickstart", "quickstart", "Run a group on real servers and check that it loses no message."),
    "topics": Place("topics", "topics", "Show the topics and the groups that read them."),
}


class _OutputClosedError(Exception):
    """The reader of standard output is gone. It is no OSError, since click would exit with 1 for that."""


class _Program(LazyGroup):
    """The group of all commands. Called as a program, it ends the process with the exit codes above."""

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
        keep_standard_descriptors()
        sys.exit(_exit_code_of(run))


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from importlib import metadata  # only here: this import takes a third of a command's start

    try:
        version = metadata.version("legacy-consumer")
    except metadata.PackageNotFoundError:
        version = "unknown, it is not installed"
    click.echo(f"legacy-consumer {version}")
    ctx.exit()


@click.group(
    cls=_Program,
    places=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXAMPLE,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@verbose_option
def main() -> None:
    """Join and inspect Kafka consumer groups that keep their state in ZooKeeper."""


def _exit_code_of(run: Callable[[], object]) -> int:
    set_up_logging(0)
    code = 0
    try:
        result = run()
        code = result if isinstance(result, int) else 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        click.echo(printable_lines(shown.getvalue()), err=True, nl=False)
        code = error.exit_code
    except click.Abort:
        code = INTERRUPTED
    except (BrokenPipeError, _OutputClosedError):
        code = 0
    except Exception as error:  # noqa: BLE001  (for any error, people get a line instead of a traceback)
        code = _explain(error)
    _drop_unread_output()
    return code


def _explain(error: Exception) -> int:
    if shows_tracebacks():
        # indented, so that no line of an error's text looks like a line of this program
        lines = "".join(traceback.format_exception(error)).splitlines()
        click.echo("\n    ".join(map(printable, lines)), err=True)
    if isinstance(error, LegacyConsumerError):
        click.echo(f"Error: {printable(str(error))}", err=True)
        return FAILED
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:
        click.echo(f"Error: cannot write: {error.strerror}", err=True)
        return FAILED
    advice = "" if shows_tracebacks() else "; run again with -vv for the traceback"
    what = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    click.echo(f"Error: a defect of legacy-consumer: {what}{advice}", err=True)
    return DEFECT


def _drop_unread_output() -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        abandon_output()
