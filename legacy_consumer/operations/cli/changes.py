"""The common part of commands that change offsets: show the plan, write a backup, carry the plan out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.operations.admin.backups import Backup
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.live_resets import Retarget, write_live
from legacy_consumer.operations.admin.offset_plans import OffsetChange, OffsetPlan
from legacy_consumer.operations.admin.offset_writes import write_plan
from legacy_consumer.operations.cli.helpers.execution import (
    Execution,
    back_up,
    execution_options,
    narrow,
    say_touched,
    touched,
)
from legacy_consumer.operations.cli.helpers.group_tables import BAD, GOOD, ODD, count
from legacy_consumer.operations.cli.helpers.outputs import Output, print_csv, print_json
from legacy_consumer.operations.cli.helpers.progress_bar import progress_bar
from legacy_consumer.operations.cli.helpers.tables import Cell, Column, number, print_table, say, say_all, say_error
from legacy_consumer.operations.cli.helpers.times import FiniteRange
from rebalance.member_kinds import MemberKind
from zk_layout.store import ZkStore

P = ParamSpec("P")
R = TypeVar("R")

_COLUMNS = (
    Column("GROUP", folds=True),
    Column("TOPIC", folds=True),
    Column("PARTITION", is_number=True),
    Column("NOW", is_number=True),
    Column("THEN", is_number=True),
    Column("MOVES BY", is_number=True),
    Column("OWNER", folds=True),
)
_ROWS_SHOWN = 200
_FIELDS = ("group", "topic", "partition", "before", "after", "owner")


@dataclass(frozen=True, slots=True)
class Safety(Execution):
    """How to make a change. force: also while members live. live: running members follow, within timeout_s."""

    force: bool
    live: bool
    timeout_s: float


def safety_options(command: Callable[Concatenate[Safety, P], R]) -> Callable[P, R]:
    """Add --execute and the related options to a command, which gets a Safety as its first argument."""

    @execution_options(without="the plan is shown and nothing is written", dry_run="show the plan")
    @click.option(
        "--live",
        is_flag=True,
        help="Running members of legacy-consumer follow without a restart; JVM members cannot and must be stopped.",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=FiniteRange(min=0.1),
        default=10.0,
        show_default=True,
        help="With --live: the longest wait for the members' answers.",
    )
    @click.option(
        "--force",
        is_flag=True,
        help="Write although the group has members, which will overwrite the offsets with their commits.",
    )
    @functools.wraps(command)
    def with_safety(execution: Execution, /, *args: P.args, **kwargs: P.kwargs) -> R:
        live, force, timeout_s = bool(kwargs.pop("live")), bool(kwargs.pop("force")), kwargs.pop("timeout_s")
        if live and force:
            raise click.UsageError("Give either --live or --force.")
        assert isinstance(timeout_s, float)
        safety = Safety(execution.execute, execution.backup_dir, force, live, timeout_s)
        return command(safety, *args, **kwargs)

    return with_safety


@dataclass(slots=True)
class _Done:
    groups: list[str] = field(default_factory=list)
    backup: Backup | None = None
    """The last backup: with --live each group has its own."""
    backups: dict[str, str] = field(default_factory=dict)
    """{group: its backup file}"""
    partitions: int = 0
    live: dict[str, OffsetPlan] = field(default_factory=dict)
    """{group: the plan that was written while its members held the partitions}"""


def carry_out(
    store: ZkStore,
    plans: Sequence[OffsetPlan],
    safety: Safety,
    output: Output,
    *,
    name: str,
    retarget: Retarget = lambda _: {},
) -> None:
    """Show the plans; with --execute, write a backup and the plans, one multi for each group.

    name: for the backup's file. retarget: as in write_live.
    Raises: ActiveGroupError and others before anything is written. Before an error between several groups, a line on
    standard error says what was done.
    """
    if safety.live:
        plans = [plan.for_members() if plan.members else plan for plan in plans]
    if output is Output.TABLE:
        _show(plans)
    living = [plan for plan in plans if plan.members and plan.to_write]
    if living and not safety.force and not safety.live:
        if safety.execute:
            ids = tuple(member.consumer_id for member in living[0].members)
            _advise_live(living)
            raise ActiveGroupError(living[0].group, ids)
        _warn_of_members(living)
    elif safety.live:
        _warn_of_jvm(living)
    done = _Done()
    if safety.execute:
        _write_all(store, plans, safety, done, name, retarget)
    shown = _records(plans)
    plans = [done.live.get(plan.group, plan) for plan in plans]
    match output:
        case Output.JSON:
            print_json(
                {
                    "executed": safety.execute,
                    "backup": _only_one({*done.backups.values()}),
                    "groups": [
                        {
                            "group": plan.group,
                            "members": [m.consumer_id for m in plan.members],
                            "backup": done.backups.get(plan.group),
                        }
                        for plan in plans
                    ],
                    "changes": _records(plans),
                }
            )
        case Output.CSV:
            print_csv(_FIELDS, _records(plans))
        case Output.TABLE if safety.execute:
            if _records(plans) != shown:
                say("Offsets or owners changed after the plan was made. This was written:")
                _show(plans)
            say(f"Written: {count(done.partitions, 'offset')} of {count(len(done.groups), 'group')}.", GOOD)
        case Output.TABLE:
            say("Dry run: nothing was written. Add --execute to do it.", "bold")


def _write_all(
    store: ZkStore, plans: Sequence[OffsetPlan], safety: Safety, done: _Done, name: str, retarget: Retarget
) -> None:
    wanted = [plan for plan in plans if plan.to_write]
    if wanted and safety.backup_dir is not None and not safety.live:
        _back_up(store, done, safety.backup_dir, name, wanted)
    total = sum(len(plan.to_write) for plan in wanted)
    begun: dict[str, ChangeProgress] = {}
    try:
        with progress_bar("writing offsets", total) as advance:
            for plan in wanted:
                if done.backup is not None:
                    done.backup.begin(plan.group)
                progress = begun[plan.group] = ChangeProgress()
                if safety.live and plan.members:
                    _write_live(store, plan, safety, done, progress, retarget)
                    advance(len(plan.to_write))
                else:
                    if safety.live and safety.backup_dir is not None:
                        _back_up(store, done, safety.backup_dir, plan.group, [plan])
                    start = done.partitions
                    written = write_plan(
                        store,
                        plan,
                        force=safety.force,
                        on_progress=functools.partial(_advance, done, start, advance),
                        progress=progress,
                    )
                    done.partitions = start + len(written.partitions)
                    if written.joined:
                        say_error(
                            f"Warning: {', '.join(written.joined[:3])} joined group "
                            f"{plan.group} meanwhile and may have read the old offsets: restart it"
                        )
                done.groups.append(plan.group)
    except BaseException as error:
        if done.groups:
            say_all(
                "Done before it stopped: ",
                done.groups,
                "; the groups after these are not done, run the same command again for them.",
            )
        say_touched(error, begun, done.groups)
        raise
    finally:
        narrow(done.backup, touched(begun))


def _advance(done: _Done, start: int, advance: Callable[[int], None], written: int) -> None:
    """Advance the progress bar; `written` counts the written partitions of the plan that began at `start`."""
    advance(start + written - done.partitions)
    done.partitions = start + written


def _write_live(
    store: ZkStore, plan: OffsetPlan, safety: Safety, done: _Done, progress: ChangeProgress, retarget: Retarget
) -> None:
    done.backup = None

    def begin(now: OffsetPlan) -> None:
        # the last try wrote nothing, so its backup is deleted
        narrow(done.backup, ())
        if safety.backup_dir is not None:
            _back_up(store, done, safety.backup_dir, plan.group, [now])

    followed = write_live(
        store, plan, timeout_s=safety.timeout_s, before_write=begin, progress=progress, retarget=retarget
    )
    done.live[plan.group] = followed.plan
    done.partitions += len(followed.written.partitions)
    for member in followed.written.joined[:3]:
        say_error(
            f"Warning: {member} joined group {plan.group} in the moment of the write: if it is of the JVM it may have "
            "read the old offsets: restart it"
        )
    for owner in followed.unanswered:
        say_error(
            f"Warning: the offsets are written, but {owner} has not said that it goes on from them: "
            "see `groups describe`, and restart it if it does not"
        )


def _back_up(store: ZkStore, done: _Done, folder: Path, name: str, plans: Sequence[OffsetPlan]) -> None:
    unreadable = {plan.group: plan.unreadable for plan in plans}
    marks = {topic: mark for plan in plans for topic, mark in plan.marks.items()}
    done.backup = back_up(store, folder, name, {plan.group: plan.backup for plan in plans}, unreadable, marks)
    done.backups.update(dict.fromkeys(done.backup.groups, str(done.backup.file)))


def _only_one(files: Collection[str]) -> str | None:
    return next(iter(files)) if len(files) == 1 else None


def _show(plans: Sequence[OffsetPlan]) -> None:
    rows = [_row(plan, change) for plan in plans for change in plan.changes]
    print_table(_COLUMNS, rows[:_ROWS_SHOWN])
    if len(rows) > _ROWS_SHOWN:
        click.echo(f"... and {len(rows) - _ROWS_SHOWN} more; --format csv shows all")
    click.echo()
    for plan in plans:
        back = sum(change.moves_by is not None and change.moves_by < 0 for change in plan.changes)
        ahead = sum(change.moves_by is not None and change.moves_by > 0 for change in plan.changes)
        new = sum(change.before.offset is None and change.after is not None for change in plan.changes)
        gone = sum(change.before.offset is not None and change.after is None for change in plan.changes)
        kept = len(plan.changes) - len(plan.to_write)
        again = sum(change.moves_by == 0 for change in plan.to_write)
        parts = [(back, "back"), (ahead, "ahead"), (new, "new"), (gone, "removed")]
        parts += [(again, "written again"), (kept, "unchanged")]
        words = ", ".join(f"{many} {what}" for many, what in parts if many) or "nothing to do"
        say(f"Group {plan.group}: {words}")


def _row(plan: OffsetPlan, change: OffsetChange) -> list[Cell | str]:
    by = change.moves_by
    tp, before = change.partition, change.before
    now: Cell | str = Cell("unreadable", BAD) if before.problem is not None else number(before.offset)
    if before.outlived is not None:
        now = Cell(f"{before.outlived} of an earlier topic", ODD)
    moves: Cell | str = "-" if by is None else Cell(f"{by:+d}" if by else "0", ODD if by < 0 else "")
    owner = "-" if before.owner is None else before.owner
    return [plan.group, tp.topic, str(tp.partition), now, number(change.after), moves, owner]


def _records(plans: Sequence[OffsetPlan]) -> list[dict[str, object]]:
    return [
        {
            "group": plan.group,
            "topic": change.partition.topic,
            "partition": change.partition.partition,
            "before": change.before.offset,
            "after": change.after,
            "owner": change.before.owner,
        }
        for plan in plans
        for change in plan.changes
    ]


_MAY_FOLLOW = frozenset({MemberKind.KAFKA, MemberKind.KAFKA_0_8_2, MemberKind.LED})
"""The kinds of legacy-consumer's members. JVM members have the same kinds, except LED."""


def _warn_of_members(living: Collection[OffsetPlan]) -> None:
    for plan in living:
        say_error(
            f"{count(len(plan.members), 'member')} of group {plan.group} live: --execute will refuse. Stop them first. "
            "With --live the members of legacy-consumer follow while they run; JVM members must be stopped."
        )


def _warn_of_jvm(living: Collection[OffsetPlan]) -> None:
    for plan in living:
        other = [m for m in plan.members if m.kind not in _MAY_FOLLOW]
        named = f" {', '.join(m.consumer_id for m in other[:3])} cannot." if other else ""
        say_error(
            f"{count(len(plan.members), 'member')} of group {plan.group} will be asked to follow; if the "
            f"owner of a partition does not answer, as members of the JVM never do, nothing is written.{named}"
        )


def _advise_live(living: Collection[OffsetPlan]) -> None:
    if any(m.kind in _MAY_FOLLOW for plan in living for m in plan.members):
        say_error("Members of legacy-consumer can follow while they run: --live. Those of the JVM must be stopped.")
