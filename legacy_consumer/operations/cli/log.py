"""`legacy-consumer log`: reads stored logs, without a broker."""

from __future__ import annotations

import click

from legacy_consumer.operations.cli.helpers.lazy_group import LazyGroup, Place

_COMMANDS = {
    "dump": Place("log_dump", "dump", "Show the contents of a segment, up to the first damage."),
}


@click.group(
    cls=LazyGroup,
    places=_COMMANDS,
    epilog="""

\b
Example:
  legacy-consumer log dump /var/lib/kafka/flights-0
""",
)
def log() -> None:
    """Show log segments that were copied from a broker's disk."""
