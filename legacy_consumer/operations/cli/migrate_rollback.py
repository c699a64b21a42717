"""`legacy-consumer migrate rollback`."""

from __future__ import annotations

from pathlib import Path

import click

from legacy_consumer.operations.admin.migration import Choices, Direction
from legacy_consumer.operations.cli.helpers.migrate_options import (
    accept_ahead_option,
    backup_option,
    execute_option,
    json_option,
    rolling_option,
    skip_blocked_option,
)
from legacy_consumer.operations.cli.helpers.migrate_steps import take_step
from legacy_consumer.operations.cli.helpers.options import ClusterOptions, cluster_options


@click.command(
    epilog="""

\b
Example:
  legacy-consumer migrate rollback billing --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@rolling_option
@accept_ahead_option
@skip_blocked_option
@execute_option
@backup_option
@json_option
def rollback(
    cluster: ClusterOptions,
    group: str,
    rolling: bool,
    accept_ahead: bool,
    skip_blocked: bool,
    execute: bool,
    backup: Path | None,
    as_json: bool,
) -> None:
    """Copy offsets from Kafka back to ZooKeeper, if they are ahead. Writes with --execute only.

    Refused while newer consumers are in the group, and after `finish`. Kafka's offsets stay. If another client moved an
    offset in ZooKeeper after `apply`, the command refuses without --accept-ahead or --skip-blocked.
    """
    choices = Choices(rolling, accept_ahead, skip_blocked)
    take_step(cluster, group, Direction.TO_ZOOKEEPER, choices, execute=execute, backup=backup, as_json=as_json)
