"""`legacy-consumer migrate verify`."""

from __future__ import annotations

import json

import click

from legacy_consumer.operations.admin.migration import look_at, verify_migration
from legacy_consumer.operations.cli.helpers.lasting_output import outlasts_reader
from legacy_consumer.operations.cli.helpers.migrate_options import json_option, sides_of
from legacy_consumer.operations.cli.helpers.migrate_tables import show_verification, verification_document
from legacy_consumer.operations.cli.helpers.options import ClusterOptions, cluster_options


@click.command(
    epilog="""

\b
Example:
  legacy-consumer migrate verify billing --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@json_option
@outlasts_reader()
def verify(cluster: ClusterOptions, group: str, as_json: bool) -> None:
    """Compare both sides, and name partitions whose messages would be lost or read twice.

    The command finds offsets that are missing in Kafka, members that commit only to ZooKeeper, and partitions that both
    sides read. The exit code is 0 if no message would be lost or read twice, else 1, with a remedy for each finding.
    """
    with sides_of(cluster, group) as sides:
        found = verify_migration(look_at(sides))
    if as_json:
        click.echo(json.dumps(verification_document(found), indent=2))
    else:
        show_verification(found)
    if not found.is_sound:
        raise click.exceptions.Exit(1)
