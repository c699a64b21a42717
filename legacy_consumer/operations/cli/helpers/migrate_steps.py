"""Shows and carries out the plan of `migrate apply` and of `migrate rollback`, which differ only in the direction."""

from __future__ import annotations

import json
from pathlib import Path

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
from legacy_consumer.operations.cli.helpers.migrate_options import sides_of
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


def take_step(
    cluster: ClusterOptions,
    group: str,
    direction: Direction,
    choices: Choices,
    *,
    execute: bool,
    backup: Path | None,
    as_json: bool,
) -> None:
    """Show the plan, and with execute carry it out. Raises: Exit(1) if the plan, not carried out, would be refused."""
    with sides_of(cluster, group) as sides:
        found = make_plan(look_at(sides, will_write=execute), direction, choices)
        if not as_json:
            show_plan(found)
        if not execute:
            if as_json:
                click.echo(json.dumps(plan_document(found), indent=2))
            if found.refusals:
                say_refusals(found.refusals)
                raise click.exceptions.Exit(1)
            say_error("Nothing was written: add --execute to do it.")
            return
        carry_out = apply_migration if direction is Direction.TO_KAFKA else roll_back_migration
        file = backup or backup_file(group, sides.clock.wall_ms())
        with progress_bar(f"writing offsets to {direction.target}", len(found.having(Action.WRITE))) as advance:
            outcome = carry_out(sides, found, file, advance)
    if as_json:
        click.echo(json.dumps(outcome_document(group, outcome), indent=2))
    else:
        say_outcome(group, direction, outcome)
