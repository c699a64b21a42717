"""`legacy-consumer offsets`: moves, saves and restores what groups have committed to ZooKeeper."""

from __future__ import annotations

import click

from legacy_consumer.operations.cli.helpers.lazy_group import LazyGroup, Place

_COMMANDS = {
    "reset": Place("offsets_reset", "reset", "Move a group to other offsets."),
    "export": Place("offsets_export", "export", "Write the offsets of groups into a file."),
    "import": Place("offsets_import", "import_command", "Put offsets from a file back."),
    "copy": Place("offsets_copy", "copy", "Give a group the offsets of another one."),
}


@click.group(
    cls=LazyGroup,
    places=_COMMANDS,
    epilog="""

\b
Example:
  legacy-consumer offsets reset billing --to-earliest --zookeeper localhost:2181/kafka
""",
)
def offsets() -> None:
    """Reset, copy, save and restore the offsets that groups have in ZooKeeper.

    What changes something shows a plan, and does it with --execute. Before that a backup is written, a file that
    `offsets import` puts back.
    """
