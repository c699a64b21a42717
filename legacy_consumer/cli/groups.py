"""`legacy-consumer groups`: what consumer groups have left in ZooKeeper."""

from __future__ import annotations

import click

from legacy_consumer.cli.groups_delete import delete
from legacy_consumer.cli.groups_describe import describe
from legacy_consumer.cli.groups_list import list_command
from legacy_consumer.cli.groups_members import members
from legacy_consumer.cli.groups_prune import prune
from legacy_consumer.cli.groups_verify import verify


@click.group(
    epilog="""

\b
Example:
  legacy-consumer groups list --zookeeper localhost:2181/kafka
"""
)
def groups() -> None:
    """Look at consumer groups in ZooKeeper, check them, and remove those that nobody uses."""


groups.add_command(list_command)
groups.add_command(describe)
groups.add_command(members)
groups.add_command(verify)
groups.add_command(delete)
groups.add_command(prune)
