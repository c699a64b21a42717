"""The plan of a migration, partition by partition: decided from one look, without any I/O.

The same rules hold in both directions, from ZooKeeper to Kafka and back. A step never moves an offset backwards: if
the target side has the offset or a greater one, it stays. An offset before the log's first message moves to that
message: the ones before it are deleted, and a newer consumer would otherwise begin where auto.offset.reset points,
by default the end. An offset of an earlier topic counts as none, and the present topic begins at its first message.
In Kafka only our own mark tells an earlier topic; an offset without a mark counts as a newer consumer's.

What Kafka has beyond ZooKeeper is the work of this migration's consumers only in partitions that were part of it.
The record names the partitions that were left out: they are judged as if no migration was begun, and a rollback does
not change them.

An operator may rewind the group on purpose, on either side, and a step must not undo that. In ZooKeeper an offset
counts as moved if it was written after the last step had read it, whether or not that step ended; it blocks while
Kafka is ahead. In Kafka an offset without our mark counts as moved if an apply is completed; before that it may be
from an experiment, and the apply that continues must overwrite it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from legacy_consumer.operations.admin.findings import shell_command
from legacy_consumer.operations.admin.migration.picture import Look, PartitionLook
from legacy_consumer.operations.admin.migration.record import MigrationRecord, Phase
from zk_layout.model import TopicPartition


class Direction(Enum):
    """The side that a plan writes."""

    TO_KAFKA = "to kafka"
    TO_ZOOKEEPER = "to zookeeper"

    @property
    def target(self) -> str:
        """The name of the side that is written."""
        return "Kafka" if self is Direction.TO_KAFKA else "ZooKeeper"

    @property
    def source(self) -> str:
        """The name of the side that is read."""
        return "ZooKeeper" if self is Direction.TO_KAFKA else "Kafka"


class Action(Enum):
    """The action for one partition."""

    WRITE = "write"
    KEEP = "keep"
    """The other side has the offset, or is ahead."""
    WAIT = "wait"
    """A living member commits it to both sides, once it is set to do so."""
    SKIP = "skip"
    """There is nothing to move."""
    BLOCKED = "blocked"
    """An operator has to decide."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of an operator.

    rolling: members run and move one by one. accept_ahead: what Kafka has beyond ZooKeeper was consumed, also before
    the migration began, in left-out partitions, and where ZooKeeper's offset was moved since. skip_blocked: leave out
    blocked partitions.
    """

    rolling: bool = False
    accept_ahead: bool = False
    skip_blocked: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: the offsets of both sides, and offset, the one to write if action is WRITE."""

    tp: TopicPartition
    zookeeper: int | None
    kafka: int | None
    action: Action
    offset: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """refusals: why the plan cannot be carried out now, and what to do. notes: what the operator should know before."""

    group: str
    direction: Direction
    choices: Choices
    moves: tuple[Move, ...]
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    look: Look

    def having(self, action: Action) -> tuple[Move, ...]:
        """Return the moves with this action."""
        return tuple(move for move in self.moves if move.action is action)


def make_plan(look: Look, direction: Direction, choices: Choices | None = None) -> MigrationPlan:
    """Decide the action for each partition, and whether the plan may be carried out now."""
    choices = choices or Choices()
    moves = tuple(_decide(look.group, one, direction, choices, look.record) for one in look.partitions)
    return MigrationPlan(
        look.group,
        direction,
        choices,
        moves,
        tuple(_refusals(look, direction, choices, moves)),
        tuple(_notes(look, direction, moves)),
        look,
    )


def _decide(
    group: str, one: PartitionLook, direction: Direction, choices: Choices, record: MigrationRecord | None
) -> Move:
    to_kafka = direction is Direction.TO_KAFKA
    source, target = (one.zookeeper, one.kafka) if to_kafka else (one.kafka, one.zookeeper)

    def move(action: Action, reason: str, offset: int | None = None) -> Move:
        return Move(one.tp, one.zookeeper.offset, one.kafka.offset, action, offset, reason)

    def reset(target: str) -> str:
        return shell_command(group, "offsets", "reset", f"--topic={one.tp.topic}:{one.tp.partition}", target)

    left_out = None if record is None else record.left_out.get(one.tp)
    if not one.exists:
        gone = (
            "the topic does not exist any more" if source.topic is None else "the topic has no such partition any more"
        )
        return move(Action.SKIP, gone)
    if one.problem is not None:
        return move(Action.BLOCKED, f"{one.problem}; {reset('--to-earliest')}, or another target, mends it")
    if left_out is not None and not to_kafka:
        return move(Action.SKIP, f"it was left out of the migration: {left_out}")
    is_ours = choices.accept_ahead or (_is_begun(record) and left_out is None)
    if source.offset is None and source.outlived is None:
        if target.offset is not None and to_kafka and not is_ours:
            return move(Action.BLOCKED, f"Kafka has {target.offset} and ZooKeeper nothing, {_since(record)}")
        return move(Action.SKIP, f"nothing is committed in {direction.source}")
    if one.log is None:
        return move(Action.BLOCKED, "no broker reports the ends of its log: check that it has a leader")
    first, end = one.log
    wanted, reason = source.offset, ""
    if wanted is None:
        wanted, reason = first, "the topic was deleted and created again since: begins anew"
    elif wanted < first:
        wanted, reason = first, f"messages {wanted} to {first - 1} are deleted from the log"
    if wanted > end:
        return move(Action.BLOCKED, f"lies {wanted - end} beyond the end of the log, {end}: reset it first")
    if target.offset is not None and target.offset > end:
        return move(Action.BLOCKED, f"{direction.target}'s lies beyond the end of the log, {end}: reset it first")
    is_open = record is not None and record.phase.is_open and one.owner is None
    if target.offset is not None and target.offset >= wanted:
        ahead = target.offset - wanted
        if ahead and to_kafka and not is_ours:
            why = f" ({reason})" if reason else ""
            return move(Action.BLOCKED, f"Kafka is {ahead} ahead {_since(record)}{why}")
        if ahead and to_kafka and is_open and one.is_moved and not choices.accept_ahead:
            return move(Action.BLOCKED, f"Kafka is {ahead} ahead {_MOVED}")
        return move(Action.KEEP, f"{direction.target} is {ahead} ahead" if ahead else "in both")
    if choices.rolling and one.owner is not None:
        return move(Action.WAIT, f"{one.owner} commits it itself once it is set to offsets.storage=kafka")
    if to_kafka and target.offset is not None and not one.is_marked:
        behind = f"Kafka is {wanted - target.offset} behind, and no step or member of legacy-consumer wrote its offset"
        if record is not None and record.phase is Phase.FINISHED and not one.is_moved:
            return move(Action.KEEP, f"{behind}: a newer consumer goes on from there")
        if record is not None and record.was_applied and one.owner is None:
            back = shell_command(group, "migrate", "rollback")
            return move(
                Action.BLOCKED,
                f"{behind}: it was rewound there; newer consumers go on from it, and {back} with a new apply writes "
                "ZooKeeper's over it",
            )
    if not to_kafka and record is not None and record.phase is Phase.ROLLED_BACK:
        return move(
            Action.BLOCKED,
            f"the migration is rolled back already, and ZooKeeper's offset was moved since: {wanted} in Kafka would "
            f"undo that; if it is right, {reset(f'--to-offset={wanted}')} sets it",
        )
    skips = target.outlived is None and wanted > max(target.offset or 0, first)
    if not to_kafka and is_open and skips and (one.is_moved or one.is_marked) and not choices.accept_ahead:
        return move(Action.BLOCKED, f"Kafka is {wanted - (target.offset or 0)} ahead {_MOVED}")
    if target.outlived is not None:
        reason = f"{reason + '; ' if reason else ''}{direction.target}'s {target.outlived} is of an earlier topic"
    return move(Action.WRITE, reason, wanted)


_MOVED = (
    "because ZooKeeper's offset was moved after the migration, and messages would be skipped: if they were consumed, "
    "give --accept-ahead; if not, reset one side"
)


def _is_begun(record: MigrationRecord | None) -> bool:
    return record is not None and record.phase is not Phase.ROLLED_BACK


def _since(record: MigrationRecord | None) -> str:
    when = "since before the migration" if _is_begun(record) else "though no migration was begun"
    return f"{when}: messages would be skipped; reset one side, or give --accept-ahead if they were consumed"


def _refusals(look: Look, direction: Direction, choices: Choices, moves: Iterable[Move]) -> Iterable[str]:
    phase = look.record.phase if look.record is not None else None
    if phase is Phase.FINISHED:
        yield "the migration is finished, which closed the way back: only the offsets in Kafka count"
    if direction is Direction.TO_ZOOKEEPER and phase is None:
        yield "no migration of this group was begun, so there is nothing to roll back"
    if look.members and not choices.rolling:
        members = counted(len(look.members), "member")
        yield f"{members} in ZooKeeper: stop them first, or move them one by one with --rolling"
    if look.kafka_members:
        yield (
            f"{counted(len(look.kafka_members), 'consumer')} in the group on the brokers' side "
            f"({', '.join(look.kafka_members[:3])}): stop them first"
        )
    blocked = [move for move in moves if move.action is Action.BLOCKED]
    if blocked and not choices.skip_blocked:
        yield (
            f"{counted(len(blocked), 'partition')} blocked, {blocked[0].tp}: {blocked[0].reason}. Mend them, or leave "
            "them out with --skip-blocked"
        )


def _notes(look: Look, direction: Direction, moves: Iterable[Move]) -> Iterable[str]:
    if look.record is not None and look.record.phase is Phase.FINISHED:
        return
    if look.record is not None and look.record.phase in {Phase.APPLYING, Phase.ROLLING_BACK}:
        yield f"the last step, {look.record.phase.value}, did not come to its end: this one goes on from there"
    if direction is Direction.TO_KAFKA and any(move.action is Action.WRITE for move in moves):
        yield (
            "start the newer consumers soon: brokers delete the offsets of a group without members after "
            "offsets.retention.minutes, by default a day before Kafka 2.0 and a week from 2.0 on"
        )
        yield f"the way back stays open until {shell_command(look.group, 'migrate', 'finish')}"


def counted(many: int, what: str) -> str:
    """Return "1 member is", "2 members are"."""
    return f"1 {what} is" if many == 1 else f"{many} {what}s are"
