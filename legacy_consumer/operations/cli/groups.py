"""`legacy-consumer groups`: commands about consumer groups in ZooKeeper."""

from __future__ import annotations

import click

from legacy_consumer.operations.cli.helpers.lazy_group import LazyGroup, Place

_COMMANDS = {
    "list": Place("groups_list", "list_command", "List all groups, one a line."),
    "describe": Place("groups_describe", "describe", "Show members, owners, offsets and lag."),
    "members": Place("groups_members", "members", "Show the members of groups, and unreadable registrations."),
    "verify": Place("groups_verify", "verify", "Check that every partition has exactly one owner, and the right one."),
    "delete": Place("groups_delete", "delete", "Remove groups, or one topic from them."),
    "prune": Place("groups_prune", "prune", "Remove groups that have been unused for a long time."),
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
    """Show and check consumer groups in ZooKeeper, and remove unused ones."""
