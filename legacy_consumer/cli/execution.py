"""--execute, --dry-run and the backup: what commands that change something for good have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Execution:
    """execute: do it, or only show it. backup_dir: where what stands there is written first; None = nowhere."""

    execute: bool
    backup_dir: Path | None


def execution_options(
    *, without: str, dry_run: str
) -> Callable[[Callable[Concatenate[Execution, P], R]], Callable[P, R]]:
    """The options; the command gets an Execution first.

    without: what happens without --execute, as its help says it. dry_run: what --dry-run does.
    """

    def decorate(command: Callable[Concatenate[Execution, P], R]) -> Callable[P, R]:
        @click.option("--execute", is_flag=True, help=f"Do it. Without, {without}.")
        @click.option("--dry-run", is_flag=True, help=f"Only {dry_run}, which is what happens anyway.")
        @click.option(
            "--backup-dir",
            metavar="DIR",
            type=click.Path(path_type=Path, file_okay=False),
            default=Path(),
            help="Where to write the backup; the current folder otherwise.",
        )
        @click.option("--no-backup", is_flag=True, help="Write no backup.")
        @functools.wraps(command)
        def with_execution(*args: P.args, **kwargs: P.kwargs) -> R:
            execute, only_dry = bool(kwargs.pop("execute")), bool(kwargs.pop("dry_run"))
            if execute and only_dry:
                raise click.UsageError("Give either --execute or --dry-run.")
            folder, no_backup = kwargs.pop("backup_dir"), kwargs.pop("no_backup")
            assert isinstance(folder, Path)
            return command(Execution(execute, None if no_backup else folder), *args, **kwargs)

        return with_execution

    return decorate
