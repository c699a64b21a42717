"""Carries out a plan towards ZooKeeper as an offset reset does, only while the offsets in Kafka are as in the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from legacy_consumer.offsets.kafka import committed_in_kafka
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.errors import OffsetsChangedError
from legacy_consumer.operations.admin.migration.apply import (
    Outcome,
    begin_step,
    chunks,
    claimed_since,
    end_step,
    refuse,
    refuse_consumers,
    unfinished,
)
from legacy_consumer.operations.admin.migration.picture import PartitionLook, Sides, read_kafka
from legacy_consumer.operations.admin.migration.plan import Action, Direction, MigrationPlan, Move
from legacy_consumer.operations.admin.migration.record import Phase
from legacy_consumer.operations.admin.offset_plans import OffsetChange, OffsetPlan, Standing
from legacy_consumer.operations.admin.offset_writes import write_plan


def roll_back_migration(
    sides: Sides, plan: MigrationPlan, backup: Path, on_progress: Callable[[int], None] = lambda _: None
) -> Outcome:
    """Write a backup, then the plan to ZooKeeper, and note the step in the group's record.

    on_progress, Raises: as apply_migration.
    """
    refuse(plan, Direction.TO_ZOOKEEPER)
    record = begin_step(sides, plan, Phase.ROLLING_BACK, backup)
    outcome = Outcome(
        Phase.ROLLED_BACK,
        waiting=len(plan.having(Action.WAIT)),
        left_out=len(plan.having(Action.BLOCKED)),
        backup=backup,
    )
    with unfinished(plan, outcome):
        for chunk in chunks(plan.having(Action.WRITE)):
            _write_chunk(sides, plan, chunk, outcome)
            on_progress(len(chunk))
        end_step(sides, record, outcome)
    return outcome


def _write_chunk(sides: Sides, plan: MigrationPlan, chunk: Sequence[Move], outcome: Outcome) -> None:
    refuse_consumers(sides)
    owned = claimed_since(sides, plan, chunk)
    outcome.passed += sorted(owned)
    todo = {move.tp: move.offset for move in chunk if move.tp not in owned}
    looks = {one.tp: one for one in plan.look.partitions if one.tp in todo}
    for tp, now in read_kafka(sides, todo).items():
        if committed_in_kafka(now, looks[tp].zookeeper.topic) != looks[tp].kafka:
            raise OffsetsChangedError(sides.group, tp)
    changes = tuple(OffsetChange(tp, _standing(looks[tp]), offset) for tp, offset in todo.items())

    def note(many: int) -> None:
        done = changes[:many]
        outcome.written.update({change.partition: change.after for change in done if change.after is not None})

    wanted = OffsetPlan(sides.group, changes, creations=plan.look.creations)
    progress = ChangeProgress()
    try:
        write_plan(sides.store, wanted, force=plan.choices.rolling, on_progress=note, progress=progress)
    finally:
        outcome.is_unanswered = progress.is_unanswered


def _standing(one: PartitionLook) -> Standing:
    seen = one.zookeeper
    return Standing(seen.offset, seen.version, outlived=seen.outlived, zxid=seen.transaction or None)
