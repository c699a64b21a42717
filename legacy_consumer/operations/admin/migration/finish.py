"""The end of a migration: after it, no command takes the group's offsets back to ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from legacy_consumer.errors import MigrationRefusedError
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.deletion import delete_tree
from legacy_consumer.operations.admin.group_acls import read_group_acls
from legacy_consumer.operations.admin.group_trees import GroupTree
from legacy_consumer.operations.admin.migration.apply import Outcome, begin_step
from legacy_consumer.operations.admin.migration.backup import write_backup
from legacy_consumer.operations.admin.migration.picture import Look, Sides
from legacy_consumer.operations.admin.migration.plan import Choices, Direction, counted, make_plan
from legacy_consumer.operations.admin.migration.record import Phase
from legacy_consumer.operations.admin.migration.verify import verify_migration


def finish_refusals(look: Look, *, accept_ahead: bool = False) -> tuple[str, ...]:
    """Return why the migration cannot be finished, nor the group be deleted, now; empty = it can.

    accept_ahead: the operator says that consumers consumed what Kafka has beyond ZooKeeper in left-out partitions.
    """
    if look.members:
        return (f"{counted(len(look.members), 'member')} in ZooKeeper: stop them first",)
    found = verify_migration(look, accept_ahead=accept_ahead)
    return tuple(finding.text for finding in found.findings if finding.is_bad)


def finish_migration(
    sides: Sides,
    look: Look,
    backup: Path,
    *,
    delete: GroupTree | None = None,
    accept_ahead: bool = False,
    progress: ChangeProgress | None = None,
) -> Outcome:
    """Note that the migration is finished; or, after the backup, delete /consumers/G as `delete` holds it.

    delete: read before the look. progress: of the deletion; if nothing was deleted, the backup is deleted, too.
    Twice is harmless. Raises: MigrationRefusedError, also if some offset is not in Kafka; ActiveGroupError if a member
    has registered since the look; as delete_tree.
    """
    refusals = finish_refusals(look, accept_ahead=accept_ahead)
    if refusals:
        raise MigrationRefusedError(look.group, refusals)
    outcome = Outcome(Phase.FINISHED, backup=backup)
    if delete is not None:
        acls = read_group_acls(sides.store, [look.group])
        write_backup(look, Phase.FINISHED.value, sides.clock.wall_ms(), backup, acls)
        progress = progress or ChangeProgress()
        try:
            delete_tree(sides.store, delete, progress=progress)
        except BaseException:
            if not progress.may_be_changed:
                # an import of the backup would move the group
                backup.unlink(missing_ok=True)
            raise
        return outcome
    plan = make_plan(look, Direction.TO_KAFKA, Choices(accept_ahead=accept_ahead))
    begin_step(sides, plan, Phase.FINISHED, backup, no_members=True)
    return outcome
