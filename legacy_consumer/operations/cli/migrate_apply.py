"""`legacy-consumer migrate apply`."""

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
  legacy-consumer migrate apply billing --execute --zookeeper localhost:2181/kafka
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
def apply(
    cluster: ClusterOptions,
    group: str,
    rolling: bool,
    accept_ahead: bool,
    skip_blocked: bool,
    execute: bool,
    backup: Path | None,
    as_json: bool,
) -> None:
    """Copy the group's offsets into Kafka. Shows the plan; writes with --execute only.

    Refused while the group has members, unless --rolling. ZooKeeper's offsets stay. You may repeat the command at any
    time: it continues where it stopped, and writes only offsets that are behind.
    """
    choices = Choices(rolling, accept_ahead, skip_blocked)
    take_step(cluster, group, Direction.TO_KAFKA, choices, execute=execute, backup=backup, as_json=as_json)
