"""`legacy-consumer offsets`: moves, saves and restores the offsets of groups in ZooKeeper."""

from __future__ import annotations

import click

from legacy_consumer.operations.cli.helpers.lazy_group import LazyGroup, Place

_COMMANDS = {
    "reset": Place("offsets_reset", "reset", "Change a group's committed offsets."),
    "export": Place("offsets_export", "export", "Write the offsets of groups into a file."),
    "import": Place("offsets_import", "import_command", "Commit the offsets of a file."),
    "copy": Place("offsets_copy", "copy", "Copy a group's offsets to another group."),
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

    A command that changes offsets shows a plan, and carries it out with --execute. First it writes a backup, which
    `offsets import` restores.
    """
