"""`legacy-consumer migrate finish`."""

from __future__ import annotations

from pathlib import Path

import click

from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.group_trees import read_trees
from legacy_consumer.operations.admin.migration import finish_migration, look_at
from legacy_consumer.operations.admin.migration.backup import backup_file
from legacy_consumer.operations.admin.migration.finish import finish_refusals
from legacy_consumer.operations.admin.migration.picture import has_offsets_in_kafka
from legacy_consumer.operations.cli.helpers.execution import say_touched
from legacy_consumer.operations.cli.helpers.group_tables import count
from legacy_consumer.operations.cli.helpers.migrate_options import (
    accept_ahead_option,
    backup_option,
    execute_option,
    sides_of,
)
from legacy_consumer.operations.cli.helpers.migrate_tables import say_refusals
from legacy_consumer.operations.cli.helpers.options import ClusterOptions, cluster_options
from legacy_consumer.operations.cli.helpers.tables import say, say_error


@click.command(
    epilog="""

\b
Example:
  legacy-consumer migrate finish billing --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@click.option("--delete", is_flag=True, help="Also delete /consumers/GROUP with all its znodes.")
@accept_ahead_option
@execute_option
@backup_option
def finish(
    cluster: ClusterOptions, group: str, delete: bool, accept_ahead: bool, execute: bool, backup: Path | None
) -> None:
    """End the migration; `rollback` is refused afterwards. Writes with --execute only.

    Refused while the group has members in ZooKeeper, while an offset is missing in Kafka, and while you have not
    decided about a partition that was left out of the migration. --delete is refused for the same reasons, also after a
    finish without it.
    """
    with sides_of(cluster, group) as sides:
        # before the look: what is deleted is not newer than what was looked at
        trees = read_trees(sides.store, [group])
        if delete and not trees and has_offsets_in_kafka(sides):
            click.echo(f"/consumers/{group} is deleted already.")
            return
        look = look_at(sides)
        what = "closes the way back" + (f" and deletes /consumers/{group}" if delete else "")
        moved = sum(one.kafka.offset is not None for one in look.partitions)
        say(f"Group {group}: {what}; {count(moved, 'partition')} of {len(look.partitions)} in Kafka.")
        refusals = finish_refusals(look, accept_ahead=accept_ahead)
        if not execute:
            if refusals:
                say_refusals(refusals)
                raise click.exceptions.Exit(1)
            say_error("Nothing was written: add --execute to do it.")
            return
        file = backup or backup_file(group, sides.clock.wall_ms())
        tree = trees[0] if delete and trees else None
        progress = ChangeProgress()
        try:
            finish_migration(sides, look, file, delete=tree, accept_ahead=accept_ahead, progress=progress)
        except BaseException as error:
            say_touched(error, {group: progress}, ())
            if progress.may_be_changed:
                say_error(f"The offsets of both sides before are in {file}.")
            raise
    click.echo(f"Finished. The offsets of both sides before are in {file}.")
