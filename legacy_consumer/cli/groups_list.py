"""`legacy-consumer groups list`."""

from __future__ import annotations

import json

import click

from legacy_consumer.admin.group_table import list_groups
from legacy_consumer.cli.options import ClusterOptions, cluster_options, load_cluster_config, open_store
from legacy_consumer.cli.tables import printable


@click.command(
    "list",
    epilog="""

\b
Example:
  legacy-consumer groups list --zookeeper localhost:2181/kafka
""",
)
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_command(cluster: ClusterOptions, as_json: bool) -> None:
    """Name all groups, one on a line.

    Those are all that ever were in /consumers; `describe` tells whether somebody is in one.
    """
    with open_store(load_cluster_config(cluster)) as store:
        names = list_groups(store)
    if as_json:
        click.echo(json.dumps(names, indent=2))
        return
    for name in names:
        click.echo(printable(name))
    if not names:
        click.echo("There is no group in /consumers.", err=True)
