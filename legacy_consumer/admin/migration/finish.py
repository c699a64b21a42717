"""Closes the way back, on purpose: nobody can take the group's offsets back to ZooKeeper after it."""

from __future__ import annotations

from pathlib import Path

from legacy_consumer.admin.deletion import delete_group
from legacy_consumer.admin.migration.apply import Outcome, begin_step, end_step, unfinished
from legacy_consumer.admin.migration.picture import Look, Sides
from legacy_consumer.admin.migration.plan import Choices, Direction, counted, make_plan
from legacy_consumer.admin.migration.record import Phase
from legacy_consumer.admin.migration.verify import verify_migration
from legacy_consumer.errors import MigrationRefusedError


def finish_refusals(look: Look) -> tuple[str, ...]:
    """Why the way back cannot be closed now; none = it can."""
    if look.members:
        return (f"{counted(len(look.members), 'member')} in ZooKeeper: stop them first",)
    phase = look.record.phase if look.record is not None else None
    if phase is Phase.FINISHED:
        return ()
    return tuple(finding.text for finding in verify_migration(look).findings if finding.is_bad)


def finish_migration(sides: Sides, look: Look, backup: Path, *, delete: bool = False) -> Outcome:
    """Note that the migration is finished; with delete remove /consumers/G, all of it, after the backup.

    Twice is harmless. Raises: MigrationRefusedError, also if some offset is not in Kafka; MigrationIncompleteError.
    """
    refusals = finish_refusals(look)
    if refusals:
        raise MigrationRefusedError(look.group, refusals)
    plan = make_plan(look, Direction.TO_KAFKA, Choices(accept_ahead=True))
    outcome = Outcome(Phase.FINISHED, backup=backup)
    record = begin_step(sides, plan, Phase.FINISHED, backup)
    with unfinished(plan, outcome):
        if delete:
            delete_group(sides.store, look.group)
        else:
            end_step(sides, record, outcome)
    return outcome
