"""Carries out a plan towards Kafka. A repeated call continues: it does not write again what is written.

Kafka has no compare-and-set for an offset. Before each request the offsets are therefore read again, on both sides:
only offsets that are still behind are written, and none that another client wrote in ZooKeeper since the plan. No
other client commits these partitions meanwhile: while members in ZooKeeper live, only partitions without an owner
are written; while consumers on the brokers' side live, none are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from legacy_consumer.errors import (
    ActiveGroupError,
    BrokersUnavailableError,
    MigrationIncompleteError,
    MigrationRefusedError,
)
from legacy_consumer.offsets import KafkaOffset
from legacy_consumer.offsets.judgement import metadata_of
from legacy_consumer.offsets.kafka import committed_in_kafka
from legacy_consumer.operations.admin.errors import ChangeError, OffsetsChangedError, TopicMadeAnewError, cause_of
from legacy_consumer.operations.admin.group_acls import read_group_acls
from legacy_consumer.operations.admin.migration.backup import write_backup
from legacy_consumer.operations.admin.migration.picture import ANSWER_WITHIN_S, PartitionLook, Sides, read_kafka
from legacy_consumer.operations.admin.migration.plan import Action, Direction, MigrationPlan, Move
from legacy_consumer.operations.admin.migration.record import MigrationRecord, Phase, write_record
from legacy_consumer.operations.admin.offset_fence import written_since
from legacy_consumer.operations.admin.topic_fence import topic_checks
from zk_layout.errors import NotPermittedError, ZooKeeperError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdsPath, OffsetPath, OwnerPath

logger = safe_logger(__name__)

_CHUNK = 1000
"""Partitions in one request: about 100 kB, far below any broker's limit."""


@dataclass(slots=True)
class Outcome:
    """The result of a step. written: {partition: offset}. passed: left, since the target was ahead or an owner came.

    waiting: the number that living members commit themselves. left_out: the number that is blocked, and skipped by the
    operator's choice. is_unanswered: a request was sent, and it is not known (yet) whether Kafka wrote its partitions.
    """

    phase: Phase
    written: dict[TopicPartition, int] = field(default_factory=dict)
    passed: list[TopicPartition] = field(default_factory=list)
    waiting: int = 0
    left_out: int = 0
    backup: Path | None = None
    is_unanswered: bool = False


def apply_migration(
    sides: Sides, plan: MigrationPlan, backup: Path, on_progress: Callable[[int], None] = lambda _: None
) -> Outcome:
    """Write a backup, then the plan to Kafka, and note the step in the group's record.

    on_progress: called after each request with its number of partitions.
    Raises: MigrationRefusedError with nothing written; MigrationIncompleteError with what is written; then the same
    command continues.
    """
    refuse(plan, Direction.TO_KAFKA)
    record = begin_step(sides, plan, Phase.APPLYING, backup)
    todo = plan.having(Action.WRITE)
    outcome = Outcome(
        Phase.ROLLING if plan.look.members else Phase.APPLIED,
        waiting=len(plan.having(Action.WAIT)),
        left_out=len(plan.having(Action.BLOCKED)),
        backup=backup,
    )
    looks = {one.tp: one for one in plan.look.partitions}
    with unfinished(plan, outcome):
        for chunk in chunks(todo):
            _write_chunk(sides, plan, chunk, looks, outcome)
            on_progress(len(chunk))
        end_step(sides, record, outcome)
    return outcome


def refuse(plan: MigrationPlan, direction: Direction) -> None:
    """Refuse a plan that has refusals. Raises: MigrationRefusedError with these reasons."""
    assert plan.direction is direction
    if plan.refusals:
        raise MigrationRefusedError(plan.group, plan.refusals)


def begin_step(
    sides: Sides, plan: MigrationPlan, phase: Phase, backup: Path, *, no_members: bool = False
) -> MigrationRecord:
    """Write the backup, then the record, which shows every client that a step is under way.

    If the record is refused, delete the backup.
    no_members, Raises: as write_record.
    """
    at_ms = sides.clock.wall_ms()
    write_backup(plan.look, phase.value, at_ms, backup, read_group_acls(sides.store, [plan.group]))
    logger.info("group %s: migration %s, backup in %s", plan.group, phase.value, backup)
    try:
        return write_record(
            sides.store,
            plan.group,
            plan.look.record,
            phase,
            at_ms=at_ms,
            zxid=plan.look.zxid,
            backup=str(backup),
            left_out=_left_out(plan),
            no_members=no_members,
        )
    except (ActiveGroupError, MigrationRefusedError, NotPermittedError):
        # nothing was written, and an import of the backup would move the group
        backup.unlink(missing_ok=True)
        raise


def _left_out(plan: MigrationPlan) -> dict[TopicPartition, str]:
    """Return the partitions that the migration leaves out. An apply decides them anew; a rollback adds to them."""
    blocked = {move.tp: move.reason for move in plan.having(Action.BLOCKED)}
    before = plan.look.record.left_out if plan.look.record is not None else {}
    return blocked if plan.direction is Direction.TO_KAFKA else {**before, **blocked}


def end_step(sides: Sides, record: MigrationRecord, outcome: Outcome) -> None:
    """Write the reached phase to the record."""
    at_ms = sides.clock.wall_ms()
    done = len(outcome.written)
    write_record(
        sides.store,
        sides.group,
        record,
        outcome.phase,
        at_ms=at_ms,
        zxid=record.zxid,
        partitions=done,
        backup=record.backup,
        left_out=record.left_out,
    )
    logger.info("group %s: migration %s, %d partitions written", sides.group, outcome.phase.value, done)


class unfinished:  # noqa: N801  (used as a with statement's word)
    """Turns an error in the middle of a step into one that says what is written; an interruption is logged."""

    def __init__(self, plan: MigrationPlan, outcome: Outcome) -> None:
        self._plan = plan
        self._outcome = outcome

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and not isinstance(error, Exception):
            logger.warning("%s", self._incomplete("it was interrupted"))
        elif isinstance(error, MigrationRefusedError):
            raise self._incomplete("; ".join(error.reasons)) from error
        elif isinstance(error, (ActiveGroupError, ChangeError, BrokersUnavailableError, ZooKeeperError, _StoppedError)):
            raise self._incomplete(cause_of(str(error), self._plan.group)) from error

    def _incomplete(self, reason: str) -> MigrationIncompleteError:
        plan, done = self._plan, len(self._outcome.written)
        total = len(plan.having(Action.WRITE))
        unknown = self._outcome.is_unanswered
        return MigrationIncompleteError(plan.group, plan.direction.target, done, total, reason, unknown)


class _StoppedError(Exception):
    """A step must not continue; the text is the reason."""


def _write_chunk(
    sides: Sides,
    plan: MigrationPlan,
    chunk: Sequence[Move],
    looks: Mapping[TopicPartition, PartitionLook],
    outcome: Outcome,
) -> None:
    refuse_consumers(sides)
    topic_checks(sides.store, sides.group, plan.look.creations, {move.tp.topic for move in chunk})
    now = read_kafka(sides, [move.tp for move in chunk])
    wanted: dict[TopicPartition, int] = {}
    owned = claimed_since(sides, plan, chunk)
    for move in chunk:
        assert move.offset is not None
        # an offset of an earlier topic may be greater, and counts as none
        there = committed_in_kafka(now[move.tp], looks[move.tp].zookeeper.topic).offset
        if move.tp in owned or (there is not None and there >= move.offset):
            outcome.passed.append(move.tp)
        else:
            wanted[move.tp] = move.offset
    if not wanted:
        return
    paths = {tp: OffsetPath(sides.group, *tp).path for tp in wanted}
    since = written_since(sides.store, {path: looks[tp].zookeeper.transaction or None for tp, path in paths.items()})
    for tp, path in paths.items():
        if path in since:
            raise OffsetsChangedError(sides.group, tp)
    sent = {tp: KafkaOffset(offset, metadata_of(looks[tp].zookeeper.topic)) for tp, offset in wanted.items()}
    outcome.is_unanswered = True
    reason = sides.kafka.write(sent, ANSWER_WITHIN_S)
    try:
        topic_checks(sides.store, sides.group, plan.look.creations, {tp.topic for tp in wanted})
    except TopicMadeAnewError as error:
        raise _StoppedError(f"topic {error.topic!r} was deleted or created in the moment of the write") from error
    stands = read_kafka(sides, wanted)
    for tp, offset in wanted.items():
        if stands[tp].offset == offset:
            outcome.written[tp] = offset
    outcome.is_unanswered = False
    refused = [tp for tp in wanted if tp not in outcome.written]
    if refused:
        raise _StoppedError(f"{refused[0]}: {reason or f'reads back as {stands[refused[0]].offset}'}")


def refuse_consumers(sides: Sides) -> None:
    """Refuse to continue if a newer consumer has joined since the plan was made. Raises: _StoppedError."""
    consumers = sides.kafka_members()
    if consumers:
        raise _StoppedError(f"consumer {consumers[0]} joined the group on the brokers' side meanwhile: stop it")


def claimed_since(sides: Sides, plan: MigrationPlan, chunk: Sequence[Move]) -> set[TopicPartition]:
    """Return the partitions that got an owner since the plan was made.

    Raises: _StoppedError if the plan is for a stopped group, and a member has joined.
    """
    [ids] = sides.store.get_children_many([ConsumerIdsPath(sides.group).path])
    if ids and not plan.choices.rolling:
        raise _StoppedError(f"member {ids[0]} joined meanwhile: stop it")
    if not ids:
        return set()
    stats = sides.store.exists_many([OwnerPath(sides.group, *move.tp).path for move in chunk])
    return {move.tp for move, stat in zip(chunk, stats, strict=True) if stat is not None}


def chunks(moves: Sequence[Move]) -> Iterator[Sequence[Move]]:
    """Split the moves into parts for one request each."""
    for start in range(0, len(moves), _CHUNK):
        yield moves[start : start + _CHUNK]
