"""What commands that remove groups have in common: it is said what would go, a backup written, and then it goes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from legacy_consumer.admin.backups import write_backups
from legacy_consumer.admin.deletion import delete_group, delete_topic_of_group
from legacy_consumer.admin.pruning import GroupUse
from legacy_consumer.cli.changes import progress_bar
from legacy_consumer.cli.group_tables import GOOD
from legacy_consumer.cli.tables import printable, say
from zk_layout.errors import LegacyConsumerError
from zk_layout.store import ZkStore

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Removal:
    """How to remove. execute: or only say what would go. backup_dir: where offsets go first; None = nowhere."""

    execute: bool
    backup_dir: Path | None


def removal_options(command: Callable[Concatenate[Removal, P], R]) -> Callable[P, R]:
    """--execute and its kin; the command gets a Removal first."""

    @click.option("--execute", is_flag=True, help="Do it. Without, it is said what would go.")
    @click.option("--dry-run", is_flag=True, help="Only say what would go, which is what happens anyway.")
    @click.option(
        "--backup-dir",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(),
        help="Where to write the backup; the current folder otherwise.",
    )
    @click.option("--no-backup", is_flag=True, help="Write no backup.")
    @functools.wraps(command)
    def with_removal(*args: P.args, **kwargs: P.kwargs) -> R:
        execute, dry_run = bool(kwargs.pop("execute")), bool(kwargs.pop("dry_run"))
        if execute and dry_run:
            raise click.UsageError("Give either --execute or --dry-run.")
        folder, no_backup = kwargs.pop("backup_dir"), kwargs.pop("no_backup")
        assert isinstance(folder, Path)
        return command(Removal(execute, None if no_backup else folder), *args, **kwargs)

    return with_removal


def delete_all(store: ZkStore, use: list[GroupUse], *, topic: str | None, backup_dir: Path | None) -> None:
    """Back up and delete, one group after the other; an error is preceded by a line that says which are gone."""
    if backup_dir is not None and use:
        name = use[0].group if len(use) == 1 else "groups"
        file = write_backups(backup_dir, name, {one.group: one.offsets for one in use})
        click.echo(f"Backup: {file} (legacy-consumer offsets import puts it back)", err=True)
    gone: list[str] = []
    try:
        with progress_bar("deleting groups", len(use)) as advance:
            for one in use:
                if topic is None:
                    delete_group(store, one.group)
                else:
                    delete_topic_of_group(store, one.group, topic)
                gone.append(one.group)
                advance(1)
    except LegacyConsumerError:
        if gone:
            click.echo(
                f"Deleted before the error: {', '.join(map(printable, gone))}; the groups after these are there, "
                "run the same command again without those that are gone.",
                err=True,
            )
        raise
    what = "" if topic is None else f" topic {printable(topic)} of"
    say(f"Deleted{what}: {', '.join(map(printable, gone))}", GOOD)
