"""`legacy-consumer migrate rollback`."""

from __future__ import annotations

import click

from legacy_consumer.operations.admin.migration import Direction
from legacy_consumer.operations.cli.helpers.migrate_steps import StepOptions, step_options, take_step
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
@step_options
def rollback(step: StepOptions, cluster: ClusterOptions, group: str) -> None:
    """Copy offsets from Kafka back to ZooKeeper, if they are ahead. Writes with --execute only.

    Refused while newer consumers are in the group, and after `finish`. Kafka's offsets stay. If another client moved an
    offset in ZooKeeper after `apply`, the command refuses without --accept-ahead or --skip-blocked.
    """
    take_step(cluster, group, Direction.TO_ZOOKEEPER, step)
