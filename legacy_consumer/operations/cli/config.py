"""`legacy-consumer config`: the properties of consumers and assignors."""

from __future__ import annotations

import click

from legacy_consumer.operations.cli.helpers.lazy_group import LazyGroup, Place

_COMMANDS = {
    "list": Place("config_list", "list_command", "List every property: type, default, meaning."),
}


@click.group(
    cls=LazyGroup,
    places=_COMMANDS,
    epilog="""

\b
Example:
  legacy-consumer config list --strategy failover
""",
)
def config() -> None:
    """List the properties of consumers and assignors."""
