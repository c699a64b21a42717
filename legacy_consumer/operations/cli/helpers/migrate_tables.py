"""The output of `legacy-consumer migrate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import click

from legacy_consumer.operations.admin.findings import shell_command
from legacy_consumer.operations.admin.migration import (
    Action,
    Direction,
    MigrationPlan,
    MigrationRecord,
    Outcome,
    Verification,
)
from legacy_consumer.operations.cli.helpers.group_tables import count
from legacy_consumer.operations.cli.helpers.tables import Cell, Column, duration, number, print_table, say, say_error

_MOVES = (
    Column("TOPIC", folds=True),
    Column("PARTITION", is_number=True),
    Column("ZOOKEEPER", is_number=True),
    Column("KAFKA", is_number=True),
    Column("ACTION"),
    Column("WHY", folds=True),
)
_RECORDS = (
    Column("GROUP", folds=True),
    Column("PHASE", folds=True),
    Column("SINCE", is_number=True),
    Column("LEFT OUT", is_number=True),
    Column("BACKUP", folds=True),
)
_STYLES = {Action.BLOCKED: "red", Action.WAIT: "yellow", Action.WRITE: "green"}
_SHOWN = 500
"""The most rows of a table for people; --json shows all."""


def show_plan(plan: MigrationPlan) -> None:
    """Print a plan: its summary, each partition, and its notes."""
    phase = plan.look.record.phase.value if plan.look.record is not None else "not begun"
    counts = Counter(move.action for move in plan.moves)
    parts = ", ".join(f"{counts[action]} {_WORDS[action]}" for action in Action if counts[action])
    title = f"Group {plan.group}: {plan.direction.source} to {plan.direction.target}, migration {phase}"
    say(f"{title}: {parts or 'no offsets'}", "bold")
    order = {Action.BLOCKED: 0, Action.WRITE: 1, Action.WAIT: 2, Action.KEEP: 3, Action.SKIP: 4}
    moves = sorted(plan.moves, key=lambda move: (order[move.action], move.tp))
    if moves:
        click.echo()
        print_table(
            _MOVES,
            [
                [
                    move.tp.topic,
                    str(move.tp.partition),
                    number(move.zookeeper),
                    number(move.kafka),
                    Cell(_shown_action(move.action, move.offset), _STYLES.get(move.action, "")),
                    move.reason,
                ]
                for move in moves[:_SHOWN]
            ],
        )
        if len(moves) > _SHOWN:
            say(f"and {len(moves) - _SHOWN} more: --json shows all")
    for note in plan.notes:
        say(f"note: {note}", "yellow")


_WORDS = {
    Action.WRITE: "to write",
    Action.KEEP: "there already",
    Action.WAIT: "for members to commit",
    Action.SKIP: "with nothing to move",
    Action.BLOCKED: "blocked",
}


def _shown_action(action: Action, offset: int | None) -> str:
    return f"write {offset}" if action is Action.WRITE else action.value


def say_refusals(refusals: Iterable[str]) -> None:
    """Print each refusal as a line on standard error."""
    for refusal in refusals:
        say_error(f"Refused: {refusal}")


def say_outcome(group: str, direction: Direction, outcome: Outcome) -> None:
    """Print the result of a step."""
    many = len(outcome.written)
    say(f"{many} partition{'' if many == 1 else 's'} of group {group} written to {direction.target}.", "bold")
    if outcome.passed:
        say(f"{len(outcome.passed)} were left as they are: somebody else had moved on meanwhile.")
    verify = shell_command(group, "migrate", "verify")
    if outcome.waiting:
        say(f"{outcome.waiting} are left to the members that own them: {verify} tells when.")
    if outcome.left_out:
        say(f"Left out, because blocked: {count(outcome.left_out, 'partition')}; {verify} names them.", "yellow")
    say(f"The migration is {outcome.phase.value}; the offsets of both sides before are in {outcome.backup}.")


def show_verification(found: Verification) -> None:
    """Print the findings."""
    phase = found.phase.value if found.phase is not None else "not begun"
    verdict = "sound" if found.is_sound else "not sound"
    sides = f"members in ZooKeeper: {len(found.members)}, on the brokers' side: {len(found.kafka_members)}"
    say(f"Group {found.group}: migration {phase}, {sides}: {verdict}", "bold")
    for finding in found.findings:
        say(f"{'PROBLEM' if finding.is_bad else 'note'}: {finding.text}", "red" if finding.is_bad else "")


def show_records(records: Mapping[str, MigrationRecord | str], now_ms: int) -> None:
    """Print the migrations of a cluster."""
    if not records:
        say_error("No migration of a group was begun.")
        return
    print_table(_RECORDS, [_record_row(group, record, now_ms) for group, record in sorted(records.items())])


def _record_row(group: str, record: MigrationRecord | str, now_ms: int) -> list[Cell | str]:
    if isinstance(record, str):
        return [group, Cell(record, "red"), "-", "-", "-"]
    since = duration(max(0, now_ms - record.at_ms))
    left_out = str(len(record.left_out) or "-")
    return [group, record.phase.value, since, left_out, record.backup or "-"]


def records_document(records: Mapping[str, MigrationRecord | str]) -> list[dict[str, object]]:
    """Return the migrations of a cluster, for programs."""
    return [
        {"group": group, "phase": None, "problem": record}
        if isinstance(record, str)
        else {
            "group": group,
            "phase": record.phase.value,
            "at_ms": record.at_ms,
            "backup": record.backup,
            "left_out": [
                {"topic": tp.topic, "partition": tp.partition, "reason": reason}
                for tp, reason in record.left_out.items()
            ],
        }
        for group, record in sorted(records.items())
    ]


def plan_document(plan: MigrationPlan) -> dict[str, object]:
    """Return a plan, for programs."""
    return {
        "group": plan.group,
        "direction": plan.direction.value,
        "phase": plan.look.record.phase.value if plan.look.record is not None else None,
        "members": [member.consumer_id for member in plan.look.members],
        "kafka_members": list(plan.look.kafka_members),
        "partitions": [
            {
                "topic": move.tp.topic,
                "partition": move.tp.partition,
                "zookeeper": move.zookeeper,
                "kafka": move.kafka,
                "action": move.action.value,
                "offset": move.offset,
                "reason": move.reason,
            }
            for move in plan.moves
        ],
        "refusals": list(plan.refusals),
        "notes": list(plan.notes),
    }


def outcome_document(group: str, outcome: Outcome) -> dict[str, object]:
    """Return the result of a step, for programs."""
    return {
        "group": group,
        "phase": outcome.phase.value,
        "written": [{"topic": tp.topic, "partition": tp.partition, "offset": o} for tp, o in outcome.written.items()],
        "passed": [{"topic": tp.topic, "partition": tp.partition} for tp in outcome.passed],
        "waiting": outcome.waiting,
        "left_out": outcome.left_out,
        "backup": str(outcome.backup),
    }


def verification_document(found: Verification) -> dict[str, object]:
    """Return the findings, for programs."""
    return {
        "group": found.group,
        "phase": found.phase.value if found.phase is not None else None,
        "is_sound": found.is_sound,
        "members": [
            {"consumer_id": one.consumer_id, "in_kafka": one.in_kafka, "partitions": one.partitions}
            for one in found.members
        ],
        "kafka_members": list(found.kafka_members),
        "behind": [{"topic": move.tp.topic, "partition": move.tp.partition} for move in found.behind],
        "findings": [{"is_bad": finding.is_bad, "text": finding.text} for finding in found.findings],
    }
