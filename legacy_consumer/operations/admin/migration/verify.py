"""Findings about a migration: whether the group can switch to Kafka, or runs as it should afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from legacy_consumer.operations.admin.findings import shell_command
from legacy_consumer.operations.admin.migration.picture import Look
from legacy_consumer.operations.admin.migration.plan import (
    Action,
    Choices,
    Direction,
    MigrationPlan,
    Move,
    counted,
    make_plan,
)
from legacy_consumer.operations.admin.migration.record import Phase

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """is_bad: the switch would lose or repeat messages. text: the finding, and what to do about it."""

    is_bad: bool
    text: str


@dataclass(frozen=True, slots=True)
class MemberStand:
    """A member in ZooKeeper: how many of its partitions have their offset in Kafka as well, of how many."""

    consumer_id: str
    in_kafka: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Verification:
    """members: the members in ZooKeeper. behind: partitions whose offset in Kafka is missing or behind."""

    group: str
    phase: Phase | None
    members: tuple[MemberStand, ...]
    kafka_members: tuple[str, ...]
    behind: tuple[Move, ...]
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        """Return whether no finding is bad."""
        return not any(finding.is_bad for finding in self.findings)


def verify_migration(look: Look, *, accept_ahead: bool = False) -> Verification:
    """Compare both sides. No I/O.

    accept_ahead: the operator says that consumers consumed what Kafka has beyond ZooKeeper in left-out partitions.
    """
    is_begun = look.record is not None and look.record.phase is not Phase.ROLLED_BACK
    # before a migration, offsets in Kafka are no problem yet: the only finding is that none was begun
    plan = make_plan(look, Direction.TO_KAFKA, Choices(accept_ahead=accept_ahead or not is_begun))
    behind = plan.having(Action.WRITE)
    missing = {move.tp for move in behind}
    stands = tuple(
        MemberStand(
            member.consumer_id,
            sum(one.tp not in missing for one in look.partitions if one.owner == member.consumer_id),
            sum(one.owner == member.consumer_id for one in look.partitions),
        )
        for member in look.members
    )
    phase = look.record.phase if look.record is not None else None
    findings = tuple(_findings(look, phase, plan, stands))
    return Verification(look.group, phase, stands, look.kafka_members, behind, findings)


def _findings(
    look: Look,
    phase: Phase | None,
    plan: MigrationPlan,
    stands: tuple[MemberStand, ...],
) -> Iterable[Finding]:
    behind = plan.having(Action.WRITE)
    if phase is None:
        yield Finding(True, f"no migration was begun: {shell_command(look.group, 'migrate', 'apply')}")
    elif phase in {Phase.APPLYING, Phase.ROLLING_BACK}:
        yield Finding(True, f"a step, {phase.value}, did not come to its end: give the same command again")
    elif phase is Phase.ROLLED_BACK:
        anew = shell_command(look.group, "migrate", "apply")
        yield Finding(True, f"it was rolled back: ZooKeeper's offsets count; {anew} begins anew")
    if stands and look.kafka_members:
        yield Finding(
            True,
            f"{counted(len(stands), 'member')} in ZooKeeper and {counted(len(look.kafka_members), 'consumer')} on the "
            "brokers' side, so each message is read twice: stop one kind",
        )
    for move in plan.moves:
        left_out = look.record is not None and move.tp in look.record.left_out
        if move.action is Action.BLOCKED:
            yield Finding(True, f"{move.tp}{' was left out of the migration' if left_out else ''}: {move.reason}")
        elif left_out and phase is not None and phase.is_open:
            yield Finding(
                False,
                f"{move.tp} was left out of the migration, and nothing has to be decided any more: "
                f"{move.reason or 'it is as any other partition'}",
            )
    if behind:
        yield Finding(
            True,
            f"{counted(len(behind), 'partition')} behind in Kafka, {behind[0].tp} at "
            f"{'nothing' if behind[0].kafka is None else behind[0].kafka} instead of {behind[0].offset}: "
            f"{_mend_behind(look.group, phase, stands, behind)}",
        )
    for stand in stands:
        if stand.in_kafka < stand.partitions:
            yield Finding(
                True,
                f"{stand.consumer_id} commits to ZooKeeper alone (of its {stand.partitions} partitions "
                f"{stand.partitions - stand.in_kafka} behind in Kafka): restart it with offsets.storage=kafka and "
                "dual.commit.enabled=true, and let it commit",
            )
    if stands and not look.kafka_members:
        yield Finding(
            False,
            f"{counted(len(stands), 'member')} in ZooKeeper: stop them all before the first newer consumer starts",
        )
    if phase in {Phase.APPLIED, Phase.ROLLING}:
        yield Finding(False, f"the way back is open: {shell_command(look.group, 'migrate', 'rollback')}")


def _mend_behind(group: str, phase: Phase | None, stands: tuple[MemberStand, ...], behind: Sequence[Move]) -> str:
    if phase is Phase.FINISHED:
        if behind[0].kafka is not None:
            return (
                "a member went on in ZooKeeper after the finish; stop it, and see from where the newer consumers go on"
            )
        written = [
            shlex.join(
                [
                    *("kafka-consumer-groups", "--bootstrap-server", "HOST:PORT", f"--group={group}"),
                    *("--reset-offsets", f"--topic={move.tp.topic}:{move.tp.partition}"),
                    *(f"--to-offset={move.offset}", "--execute"),
                ]
            )
            for move in behind[:_SHOWN]
        ]
        more = f" and so on for {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
        commands = ", ".join(f"`{command}`" for command in written)
        return f"the brokers forgot it, and ZooKeeper has the only copy; write it with {commands}{more}"
    if stands:
        rolling = shell_command(group, "migrate", "apply", "--rolling")
        return f"see the members below; {rolling} writes the partitions without an owner"
    return f"{shell_command(group, 'migrate', 'apply')} again"
