"""--execute, --dry-run and the backup: the common options of commands that change or delete something."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from legacy_consumer.operations.admin.backups import Backup, how_to_put_back, write_backups
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.findings import shell_command
from legacy_consumer.operations.admin.group_acls import read_group_acls
from legacy_consumer.operations.admin.offset_files import Offsets, Unreadable
from legacy_consumer.operations.cli.helpers.ending import unwound_by_signals
from legacy_consumer.operations.cli.helpers.lasting_output import lasting_output
from legacy_consumer.operations.cli.helpers.tables import say_error
from zk_layout.errors import ConnectionLostError, SessionExpiredError
from zk_layout.store import ZkStore

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Execution:
    """execute: make the change, or only show it. backup_dir: the folder for the backup; None = no backup."""

    execute: bool
    backup_dir: Path | None


def execution_options(
    *, without: str, dry_run: str
) -> Callable[[Callable[Concatenate[Execution, P], R]], Callable[P, R]]:
    """Add the options to a command, which gets an Execution as its first argument.

    without: what happens without --execute, for the help. dry_run: what --dry-run does.
    """

    def decorate(command: Callable[Concatenate[Execution, P], R]) -> Callable[P, R]:
        @click.option("--execute", is_flag=True, help=f"Carry it out. Without this option {without}.")
        @click.option("--dry-run", is_flag=True, help=f"Only {dry_run}; this is the default.")
        @click.option(
            "--backup-dir",
            metavar="DIR",
            type=click.Path(path_type=Path, file_okay=False),
            help="The folder for the backup; default: the current folder.",
        )
        @click.option("--no-backup", is_flag=True, help="Write no backup.")
        @functools.wraps(command)
        def with_execution(*args: P.args, **kwargs: P.kwargs) -> R:
            execute, only_dry = bool(kwargs.pop("execute")), bool(kwargs.pop("dry_run"))
            if execute and only_dry:
                raise click.UsageError("Give either --execute or --dry-run.")
            folder, no_backup = kwargs.pop("backup_dir"), kwargs.pop("no_backup")
            if folder is not None and no_backup:
                raise click.UsageError("Give either --backup-dir or --no-backup.")
            assert folder is None or isinstance(folder, Path)
            # groups that were not changed are removed from the backup, whichever signal ends the command
            with unwound_by_signals(), lasting_output() if execute else nullcontext():
                return command(Execution(execute, None if no_backup else folder or Path()), *args, **kwargs)

        return with_execution

    return decorate


def back_up(
    store: ZkStore,
    folder: Path,
    name: str,
    groups: Mapping[str, Offsets],
    unreadable: Mapping[str, Unreadable],
    topics: Mapping[str, str],
) -> Backup:
    """Write the present offsets into a file before a change, and print the command that restores them.

    topics: {topic: the mark by which its offsets were judged}; a topic may have been created again since.
    Raises: BackupError.
    """
    acls = read_group_acls(store, list(groups))
    file = write_backups(folder, name, groups, unreadable, acls=acls, topics=topics, one_by_one=True)
    say_error(
        f"Backup: {file} ({how_to_put_back(file)}, with this --zookeeper or --config, shows what it would restore, and "
        "restores it with --execute)"
    )
    return Backup(file, groups, unreadable, acls, topics)


def say_touched(error: BaseException, begun: Mapping[str, ChangeProgress], done: Collection[str]) -> None:
    """Name the groups whose change was not finished when the command was stopped, or lost ZooKeeper."""
    if isinstance(error, Exception) and not isinstance(error, (ConnectionLostError, SessionExpiredError)):
        return
    for group in touched(begun).difference(done):
        known = f"Group {group} is changed, at least in part"
        unknown = f"It is not known whether group {group} is changed"
        look = shell_command(group, "offsets", "export")
        say_error(f"{known if begun[group].is_changed else unknown}: see {look}")


def touched(begun: Mapping[str, ChangeProgress]) -> set[str]:
    """Return the groups that may be changed: the change of each has begun."""
    return {group for group, progress in begun.items() if progress.may_be_changed}


def narrow(backup: Backup | None, changed: Collection[str]) -> None:
    """Take unchanged groups out of the backup: their members continue, and an import would move their offsets."""
    if backup is None:
        return
    try:
        backup.keep_only(changed)
    except OSError as error:
        say_error(f"Warning: {backup.file} could not be finished: {error.strerror}")
        return
    if backup.groups.keys() <= set(changed):
        return
    is_kept = not backup.groups.keys().isdisjoint(changed)
    say_error(
        "The backup holds only the groups that were changed." if is_kept else "Nothing was changed: the backup is gone."
    )
