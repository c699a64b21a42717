"""`legacy-consumer groups`: what consumer groups have left in ZooKeeper."""

from __future__ import annotations

import click

from legacy_consumer.operations.cli.helpers.lazy_group import LazyGroup, Place

_COMMANDS = {
    "list": Place("groups_list", "list_command", "Name all groups, one on a line."),
    "describe": Place("groups_describe", "describe", "Show members, owners, offsets and lag."),
    "members": Place("groups_members", "members", "Show who is in a group, and who cannot be read."),
    "verify": Place("groups_verify", "verify", "Check that every partition has one owner, and the right one."),
    "delete": Place("groups_delete", "delete", "Remove groups, or a topic of theirs."),
    "prune": Place("groups_prune", "prune", "Remove groups that nobody has used for long."),
}


@click.group(
    cls=LazyGroup,
    places=_COMMANDS,
    epilog="""

\b
Example:
  legacy-consumer groups list --zookeeper localhost:2181/kafka
""",
)
def groups() -> None:
    """Look at consumer groups in ZooKeeper, check them, and remove those that nobody uses."""
