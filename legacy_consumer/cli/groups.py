"""`legacy-consumer groups`: what consumer groups have left in ZooKeeper."""

from __future__ import annotations

import click

from legacy_consumer.cli.groups_describe import describe
from legacy_consumer.cli.groups_list import list_command


@click.group(
    epilog="""

\b
Example:
  legacy-consumer groups list --zookeeper localhost:2181/kafka
"""
)
def groups() -> None:
    """Look at consumer groups in ZooKeeper."""


groups.add_command(list_command)
groups.add_command(describe)
