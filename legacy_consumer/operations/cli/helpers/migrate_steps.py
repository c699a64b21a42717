"""Shows and carries out the plan of `migrate apply` and of `migrate rollback`, which differ only in the direction."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from legacy_consumer.operations.admin.migration import (
    Action,
    Choices,
    Direction,
    apply_migration,
    look_at,
    make_plan,
    roll_back_migration,
)
from legacy_consumer.operations.admin.migration.backup import backup_file
from legacy_consumer.operations.cli.helpers.migrate_options import (
    accept_ahead_option,
    backup_option,
    execute_option,
    json_option,
    rolling_option,
    sides_of,
    skip_blocked_option,
)
from legacy_consumer.operations.cli.helpers.migrate_tables import (
    outcome_document,
    plan_document,
    say_outcome,
    say_refusals,
    show_plan,
)
from legacy_consumer.operations.cli.helpers.options import ClusterOptions
from legacy_consumer.operations.cli.helpers.progress_bar import progress_bar
from legacy_consumer.operations.cli.helpers.tables import say_error

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How to take a step. backup: the file; None: a file with the group and the time in its name."""

    choices: Choices
    execute: bool
    backup: Path | None
    as_json: bool


def step_options(command: Callable[Concatenate[StepOptions, P], R]) -> Callable[P, R]:
    """Add the options of a step to a command, which gets them as its first argument."""

    @rolling_option
    @accept_ahead_option
    @skip_blocked_option
    @execute_option
    @backup_option
    @json_option
    @functools.wraps(command)
    def with_options(*args: P.args, **kwargs: P.kwargs) -> R:
        choices = Choices(*(bool(kwargs.pop(name)) for name in ("rolling", "accept_ahead", "skip_blocked")))
        execute, backup, as_json = bool(kwargs.pop("execute")), kwargs.pop("backup"), bool(kwargs.pop("as_json"))
        assert backup is None or isinstance(backup, Path)
        return command(StepOptions(choices, execute, backup, as_json), *args, **kwargs)

    return with_options


def take_step(cluster: ClusterOptions, group: str, direction: Direction, step: StepOptions) -> None:
    """Show the plan, or carry it out. Raises: Exit(1) if the plan, not carried out, would be refused."""
    with sides_of(cluster, group) as sides:
        found = make_plan(look_at(sides, will_write=step.execute), direction, step.choices)
        if not step.as_json:
            show_plan(found)
        if not step.execute:
            if step.as_json:
                click.echo(json.dumps(plan_document(found), indent=2))
            if found.refusals:
                say_refusals(found.refusals)
                raise click.exceptions.Exit(1)
            say_error("Nothing was written: add --execute to do it.")
            return
        carry_out = apply_migration if direction is Direction.TO_KAFKA else roll_back_migration
        file = step.backup or backup_file(group, sides.clock.wall_ms())
        with progress_bar(f"writing offsets to {direction.target}", len(found.having(Action.WRITE))) as advance:
            outcome = carry_out(sides, found, file, advance)
    if step.as_json:
        click.echo(json.dumps(outcome_document(group, outcome), indent=2))
    else:
        say_outcome(group, direction, outcome)
