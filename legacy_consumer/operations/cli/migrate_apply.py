"""`legacy-consumer migrate apply`."""

from __future__ import annotations

import click

from legacy_consumer.operations.admin.migration import Direction
from legacy_consumer.operations.cli.helpers.migrate_steps import StepOptions, step_options, take_step
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
@step_options
def apply(step: StepOptions, cluster: ClusterOptions, group: str) -> None:
    """Copy the group's offsets into Kafka. Shows the plan; writes with --execute only.

    Refused while the group has members, unless --rolling. ZooKeeper's offsets stay. You may repeat the command at any
    time: it continues where it stopped, and writes only offsets that are behind.
    """
    take_step(cluster, group, Direction.TO_KAFKA, step)
