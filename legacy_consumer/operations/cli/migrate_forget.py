"""`legacy-consumer migrate forget`."""

from __future__ import annotations

from pathlib import Path

import click

from legacy_consumer.errors import MigrationRefusedError
from legacy_consumer.operations.admin.errors import DamagedRecordError
from legacy_consumer.operations.admin.findings import shell_command
from legacy_consumer.operations.admin.group_trees import record_path
from legacy_consumer.operations.admin.migration.backup import backup_file
from legacy_consumer.operations.admin.migration.record import decode_record, forget_record
from legacy_consumer.operations.cli.helpers.group_names import check_group
from legacy_consumer.operations.cli.helpers.migrate_options import backup_option, execute_option
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.tables import say, say_error
from rebalance.clock import SystemClock


@click.command(
    epilog="""

\b
Example:
  legacy-consumer migrate forget billing --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@execute_option
@backup_option
def forget(cluster: ClusterOptions, group: str, execute: bool, backup: Path | None) -> None:
    """Delete an unreadable record of a migration. Writes with --execute only; the backup holds its data.

    The offsets stay, on both sides. The migration then counts as not begun, so `apply` asks about partitions in which
    Kafka is ahead of ZooKeeper. If all those messages were consumed, `apply --accept-ahead` begins the migration again,
    and a rollback is possible again.
    """
    check_group(group)
    with open_store(load_cluster_config(cluster)) as store:
        [damaged] = store.get_data_many([record_path(group)])
        if damaged is None:
            click.echo(f"Group {group} has no record of a migration.")
            return
        try:
            phase = decode_record(group, damaged).phase.value
        except DamagedRecordError as error:
            say(error.problem)
        else:
            raise MigrationRefusedError(group, (f"its record can be read: the migration is {phase}",))
        if not execute:
            say_error("Nothing was written: add --execute to delete it.")
            return
        file = backup or backup_file(group, SystemClock().wall_ms(), ".record")
        forget_record(store, group, damaged, file)
    anew = shell_command(group, "migrate", "plan")
    click.echo(f"Deleted; its data is in {file}. The offsets stay where they are: see {anew}.")
