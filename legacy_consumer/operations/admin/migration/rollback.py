"""The way back: what Kafka's consumers have committed goes to ZooKeeper, where it is ahead. Nothing in Kafka changes.

Each offset znode is written as the plan saw it, all of a request or none of it, so whatever somebody else writes
meanwhile stands. A topic that was made anew since stops it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.offsets import Commit, ZooKeeperOffsetStore
from legacy_consumer.operations.admin.member_fence import read_ids
from legacy_consumer.operations.admin.migration.apply import Outcome, begin_step, end_step, refuse, unfinished
from legacy_consumer.operations.admin.migration.picture import Sides
from legacy_consumer.operations.admin.migration.plan import Action, Direction, MigrationPlan
from legacy_consumer.operations.admin.migration.record import Phase
from legacy_consumer.operations.admin.offset_fence import written_since
from legacy_consumer.operations.admin.topic_fence import check_written, topic_checks
from zk_layout.paths import OffsetPath

_CHUNK = 1000


def roll_back_migration(
    sides: Sides, plan: MigrationPlan, backup: Path, on_progress: Callable[[int], None] = lambda _: None
) -> Outcome:
    """Write to ZooKeeper what the plan says, after the backup, and note it in the group's record.

    on_progress, Raises: as apply_migration.
    """
    refuse(plan, Direction.TO_ZOOKEEPER)
    record = begin_step(sides, plan, Phase.ROLLING_BACK, backup)
    seen = {one.tp: one.zookeeper for one in plan.look.partitions}
    commits = {
        move.tp: Commit(move.offset, seen[move.tp]) for move in plan.having(Action.WRITE) if move.offset is not None
    }
    outcome = Outcome(
        Phase.ROLLED_BACK,
        waiting=len(plan.having(Action.WAIT)),
        left_out=len(plan.having(Action.BLOCKED)),
        backup=backup,
    )
    offsets = ZooKeeperOffsetStore(sides.store, sides.group)
    order = sorted(commits)
    with unfinished(plan, outcome):
        for start in range(0, len(order), _CHUNK):
            _refuse_joined(sides, plan)
            chunk = {tp: commits[tp] for tp in order[start : start + _CHUNK]}
            paths = {tp: OffsetPath(sides.group, *tp).path for tp in chunk}
            since = written_since(sides.store, {path: seen[tp].transaction or None for tp, path in paths.items()})
            passed = [tp for tp in chunk if paths[tp] in since]
            outcome.passed += passed
            chunk = {tp: commit for tp, commit in chunk.items() if tp not in passed}
            topic_checks(sides.store, sides.group, plan.look.creations, {tp.topic for tp in chunk})
            result = offsets.commit(chunk, consumer_id=None, session_id=None, unfenced=True)
            written = {tp: chunk[tp].offset for tp in result.committed}
            check_written(sides.store, sides.group, plan.look.creations, written)
            outcome.written.update(written)
            outcome.passed += sorted(result.foreign)
            result.raise_errors()
            on_progress(len(chunk) + len(passed))
        end_step(sides, record, outcome)
    return outcome


def _refuse_joined(sides: Sides, plan: MigrationPlan) -> None:
    """Raises: ActiveGroupError if somebody has joined since the plan was made."""
    joined = () if plan.choices.rolling else read_ids(sides.store, sides.group)
    joined = joined or sides.kafka_members()
    if joined:
        raise ActiveGroupError(sides.group, joined)
