"""`legacy-consumer migrate`: moves a group's offsets from ZooKeeper to Kafka, and back."""

from __future__ import annotations

import click

from legacy_consumer.operations.cli.helpers.lazy_group import LazyGroup, Place

_COMMANDS = {
    "plan": Place("migrate_plan", "plan", "Show the planned change of each partition, and the obstacles."),
    "apply": Place("migrate_apply", "apply", "Copy the group's offsets into Kafka."),
    "rollback": Place("migrate_rollback", "rollback", "Copy offsets from Kafka back to ZooKeeper, if they are ahead."),
    "verify": Place("migrate_verify", "verify", "Compare both sides, and name partitions at risk."),
    "finish": Place("migrate_finish", "finish", "End the migration; `rollback` is refused afterwards."),
    "forget": Place("migrate_forget", "forget", "Delete an unreadable record of a migration."),
    "status": Place("migrate_status", "status", "List every group with a migration, and its state."),
}


@click.group(
    cls=LazyGroup,
    places=_COMMANDS,
    epilog="""

\b
Example:
  legacy-consumer migrate plan billing --zookeeper localhost:2181/kafka
""",
)
def migrate() -> None:
    """Move a group's offsets from ZooKeeper into Kafka, and back.

    For a stopped group: stop its members, `apply`, start the newer consumers, `verify`, and when no rollback is needed
    any more, `finish`. To go back before that: stop the newer consumers, `rollback`, start the members.

    If the members must not stop together: restart each with offsets.storage=kafka and dual.commit.enabled=true;
    `verify` names the members that remain. Then `apply --rolling` for partitions without an owner, stop all members,
    `apply` and start the newer consumers. An offset that is ahead on the other side stays.
    """
