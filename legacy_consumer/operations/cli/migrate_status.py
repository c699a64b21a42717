"""`legacy-consumer migrate status`."""

from __future__ import annotations

import json

import click

from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.admin.migration import read_records
from legacy_consumer.operations.cli.helpers.migrate_options import json_option
from legacy_consumer.operations.cli.helpers.migrate_tables import records_document, show_records
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from rebalance.clock import SystemClock


@click.command(
    epilog="""

\b
Example:
  legacy-consumer migrate status --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@json_option
def status(cluster: ClusterOptions, as_json: bool) -> None:
    """List every group with a migration, its state, and the number of partitions that were left out.

    The exit code is 1 if a record cannot be read; the others are shown.
    """
    with open_store(load_cluster_config(cluster)) as store:
        records = read_records(store, list_groups(store))
    if as_json:
        click.echo(json.dumps(records_document(records), indent=2))
    else:
        show_records(records, SystemClock().wall_ms())
    if any(isinstance(record, str) for record in records.values()):
        raise click.exceptions.Exit(1)
