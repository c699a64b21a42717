"""`legacy-consumer migrate plan`."""

from __future__ import annotations

import json

import click

from legacy_consumer.operations.admin.migration import Choices, Direction, look_at, make_plan
from legacy_consumer.operations.cli.helpers.lasting_output import outlasts_reader
from legacy_consumer.operations.cli.helpers.migrate_options import (
    accept_ahead_option,
    json_option,
    rolling_option,
    sides_of,
    skip_blocked_option,
)
from legacy_consumer.operations.cli.helpers.migrate_tables import plan_document, say_refusals, show_plan
from legacy_consumer.operations.cli.helpers.options import ClusterOptions, cluster_options


@click.command(
    epilog="""

\b
Example:
  legacy-consumer migrate plan billing --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@rolling_option
@click.option("--back", is_flag=True, help="Show the plan of a rollback: from Kafka to ZooKeeper.")
@accept_ahead_option
@skip_blocked_option
@json_option
@outlasts_reader()
def plan(
    cluster: ClusterOptions,
    group: str,
    rolling: bool,
    back: bool,
    accept_ahead: bool,
    skip_blocked: bool,
    as_json: bool,
) -> None:
    """Show the planned change of each partition, and the obstacles. Writes nothing.

    The exit code is 1 if the step would be refused now.
    """
    direction = Direction.TO_ZOOKEEPER if back else Direction.TO_KAFKA
    with sides_of(cluster, group) as sides:
        found = make_plan(look_at(sides), direction, Choices(rolling, accept_ahead, skip_blocked))
    if as_json:
        click.echo(json.dumps(plan_document(found), indent=2))
    else:
        show_plan(found)
    if found.refusals:
        say_refusals(found.refusals)
        raise click.exceptions.Exit(1)
