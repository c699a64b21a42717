"""`legacy-consumer offsets`: moves, saves and restores what groups have committed to ZooKeeper."""

from __future__ import annotations

import click

from legacy_consumer.cli.offsets_copy import copy
from legacy_consumer.cli.offsets_export import export
from legacy_consumer.cli.offsets_import import import_command
from legacy_consumer.cli.offsets_reset import reset


@click.group(
    epilog="""

\b
Example:
  legacy-consumer offsets reset billing --to-earliest --zookeeper localhost:2181/kafka
"""
)
def offsets() -> None:
    """Reset, copy, save and restore the offsets that groups have in ZooKeeper.

    What changes something shows a plan, and does it with --execute. Before that a backup is written, a file that
    `offsets import` puts back.
    """


offsets.add_command(reset)
offsets.add_command(export)
offsets.add_command(import_command)
offsets.add_command(copy)
