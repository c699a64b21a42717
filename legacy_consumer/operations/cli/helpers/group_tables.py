"""A group as lines and tables for people. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from legacy_consumer.offsets.judgement import Verdict as Judged
from legacy_consumer.operations.admin.findings import some
from legacy_consumer.operations.admin.groups import GroupDescription, GroupMember, Hold, PartitionLag
from legacy_consumer.operations.admin.lag_verdict import Kind, Verdict
from legacy_consumer.operations.admin.lag_watch import judge_whole
from legacy_consumer.operations.admin.led_groups import LedGroup
from legacy_consumer.operations.cli.helpers.tables import Cell, Column, duration, number
from rebalance.clock import SystemClock
from rebalance.group_strategy import CLASSIC_STRATEGIES
from zk_layout.model import TopicPartition

BAD = "red"
ODD = "yellow"
GOOD = "green"

_STYLES = {Kind.OK: GOOD, Kind.UNKNOWN: ODD, Kind.WARNING: ODD}
_SAID = (Kind.OK, Kind.UNKNOWN, Kind.ERROR)
_REASONS_SHOWN = 10
_TOPICS_SHOWN = 20

_PARTITIONS = (
    Column("TOPIC", folds=True),
    Column("PARTITION", is_number=True),
    Column("COMMITTED", is_number=True),
    Column("LOG END", is_number=True),
    Column("LAG", is_number=True),
    Column("VERDICT"),
    Column("AGE", is_number=True),
    Column("HELD", is_number=True),
    Column("OWNER", folds=True),
)
MEMBER_COLUMNS = (
    Column("MEMBER", folds=True),
    Column("CLIENT", folds=True),
    Column("SUBSCRIPTION", folds=True),
    Column("STREAMS", is_number=True),
    Column("PARTITIONS", is_number=True),
    Column("BROKERS", is_number=True),
    Column("JOINED", is_number=True),
)
_BEYOND = "! the committed offset lies beyond the end of the log: the topic was made anew, or the offset set by hand"
_EARLIER = (
    "^ the offset was committed for an earlier topic of that name: it counts as none, all of the log is to be read"
)
_HOLDS = {
    Hold.GONE: (
        "?",
        "? the owner is no registered member of the group: it blocks the partition until its session ends",
    ),
    Hold.OTHER: ("~", "~ the claim is of an earlier session of its member: it goes away when that one expires"),
    Hold.PERMANENT: ("#", "# the owner znode is not ephemeral: it blocks the partition until somebody deletes it"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text; an empty one for a gap."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class TableOf:
    """A table."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]


Part: TypeAlias = Line | TableOf


def unknown_group(found: GroupDescription) -> Line:
    """Return the only line for a group that cannot be read."""
    return Line(f"Group {found.group} cannot be shown: {found.problem or ''}", BAD)


def group_parts(found: GroupDescription, verdicts: Mapping[TopicPartition, Verdict]) -> list[Part]:
    """Return the totals, partitions and members, and then what is unusual."""
    if found.problem is not None:
        return [unknown_group(found)]
    now_ms = SystemClock().wall_ms()
    parts: list[Part] = [Line(_totals(found, verdicts), "bold")]
    notes: dict[str, None] = {}
    if found.partitions:
        parts += [
            Line(""),
            TableOf(_PARTITIONS, [_partition_row(row, verdicts, notes, now_ms) for row in found.partitions]),
        ]
    if found.members or found.unreadable:
        parts += [Line(""), TableOf(MEMBER_COLUMNS, member_rows(found, now_ms))]
    below: list[Part] = [Line(note, ODD) for note in notes]
    if found.reset is not None:
        below.append(Line(f"reset: {found.reset.text}; {found.reset.advice}", ODD if found.reset.is_running else BAD))
    below += unreadable_lines(found)
    below += _some_lines([Line(f"topic left out: {problem}", BAD) for problem in found.topic_problems])
    below += _reasons(found, {tp: verdict for tp, verdict in verdicts.items() if tp not in found.left})
    if found.left:
        left = some(found.left_names)
        below.append(Line(f"not counted, because they are gone or no member subscribes to them: {left}"))
    if found.led is not None:
        below += _led_lines(found.led)
    elif _is_telling(found.divides_by):
        below.append(Line(f"owners as divided by {', '.join(found.divides_by)}"))
    below += _some_lines([Line(f"warning: {warning.text}", ODD) for warning in found.warnings])
    return [*parts, Line(""), *below] if below else parts


def _led_lines(led: LedGroup) -> list[Line]:
    by = f", by {led.strategy}" if led.strategy else ""
    state = f"generation {led.generation}{by}, {led.state}, {count(led.members, 'member')} joined"
    if led.followers_of_none:
        some = ", ".join(led.followers_of_none[:3]) + (" ..." if len(led.followers_of_none) > 3 else "")
        lines = [Line(f"coordination: classic, for these follow no leader: {some}", ODD)]
    elif led.leader is None:
        lines = [Line(f"coordination: leader, nobody leads now: {state}", ODD)]
    else:
        lines = [Line(f"coordination: led by {led.leader}: {state}")]
    lines += _some_lines([Line(f"refused: {name}: {why}", BAD) for name, why in sorted(led.refused.items())])
    if led.problem is not None:
        lines.append(Line(f"unreadable: {led.problem}", BAD))
    return lines


def unreadable_lines(found: GroupDescription) -> list[Line]:
    """Return why members cannot be read."""
    return _some_lines([Line(f"unreadable: {bad.problem}", BAD) for bad in found.unreadable])


def _some_lines(lines: list[Line]) -> list[Line]:
    """Return the first lines and the number of the others: any client may register thousands of members.

    JSON has all of them.
    """
    if len(lines) <= _REASONS_SHOWN:
        return lines
    return [*lines[:_REASONS_SHOWN], Line(f"and {len(lines) - _REASONS_SHOWN} more of these", lines[0].style)]


def member_rows(found: GroupDescription, now_ms: int) -> list[list[Cell | str]]:
    """Return one row for each member, unreadable members last."""
    rows = [_member_row(member, now_ms) for member in found.members]
    for bad in found.unreadable:
        joined = duration(max(0, now_ms - bad.registered_at_ms))
        name = Cell(bad.consumer_id, BAD)
        rows.append([name, bad.kind, Cell("unreadable, see below", BAD), "-", "-", "-", joined])
    return rows


def _reasons(found: GroupDescription, verdicts: Mapping[TopicPartition, Verdict]) -> list[Part]:
    """Return why partitions are not well, without what their rows in the table say."""
    unowned = {TopicPartition(row.topic, row.partition) for row in found.partitions if not row.owner_is_member}
    stopped = [tp for tp, v in verdicts.items() if v.kind is Kind.STOP and tp in unowned]
    lines: list[Part] = []
    if stopped:
        lines.append(Line(f"stop: messages wait in {count(len(stopped), 'partition')} that no member owns", BAD))
    rows = {TopicPartition(row.topic, row.partition): row for row in found.partitions}
    said = {tp for tp in stopped if tp in unowned}
    said |= {
        tp for tp, v in verdicts.items() if v.kind in _SAID and rows[tp].judgement.verdict is not Judged.BEFORE_LOG
    }
    bad = [(tp, v) for tp, v in verdicts.items() if tp not in said]
    bad.sort(key=lambda pair: -pair[1].kind.severity)
    lines += [Line(f"{v.kind.value}: {tp}: {v.reason}", _STYLES.get(v.kind, BAD)) for tp, v in bad[:_REASONS_SHOWN]]
    unknown = [tp for tp, v in verdicts.items() if v.kind is Kind.UNKNOWN]
    fresh = [tp for tp in unknown if rows[tp].log_end is not None]
    if fresh:
        many = count(len(fresh), "partition")
        lines.append(Line(f"unknown: nothing is committed in {many} whose logs hold messages", ODD))
    silent = [tp for tp in unknown if rows[tp].log_end is None]
    if silent and found.no_log_ends is None:
        some = ", ".join(str(tp) for tp in silent[:3]) + (" ..." if len(silent) > 3 else "")
        lines.append(
            Line(f"unknown: no leader reports the end of {some}: see `legacy-consumer topics TOPIC` and `doctor`", ODD)
        )
    if len(bad) > _REASONS_SHOWN:
        lines.append(Line(f"and {len(bad) - _REASONS_SHOWN} more partitions that are not well", BAD))
    return lines


def _is_telling(divides_by: Collection[str]) -> bool:
    """Return whether the strategies tell something: in a small group every strategy may give the same assignment."""
    return 0 < len(divides_by) < len(CLASSIC_STRATEGIES)


def _totals(found: GroupDescription, verdicts: Mapping[TopicPartition, Verdict]) -> str:
    members = count(len(found.members), "member")
    if found.unreadable:
        members += f" and {len(found.unreadable)} unreadable"
    parts = [members, count(len(found.partitions), "partition")]
    if found.unowned:
        parts.append(f"{found.unowned} without owner")
    if found.partitions:
        known = "lag unknown" if found.total_lag is None else f"lag {found.total_lag}"
        more = f" and {found.unknown_lags} unknown" if found.total_lag is not None and found.unknown_lags else ""
        parts.append(known + more)
    whole = judge_whole(found, verdicts)
    if whole.reason:
        parts.append(whole.reason)
    return f"Group {found.group}: {', '.join(parts)}"


def count(many: int, what: str) -> str:
    """Return "1 member", "2 members"."""
    return f"{many} {what}{'' if many == 1 else 's'}"


def _partition_row(
    row: PartitionLag, verdicts: Mapping[TopicPartition, Verdict], notes: dict[str, None], now_ms: int
) -> list[Cell | str]:
    lag: Cell | str = number(row.lag)
    if row.lag is not None and row.lag < 0:
        lag = Cell(f"{row.lag} !", BAD)
        notes[_BEYOND] = None
    owner: Cell | str = Cell("-", ODD)
    if row.owner is not None:
        owner = Cell(row.owner, elides=row.owner_is_member)
        if row.hold in _HOLDS:
            mark, note = _HOLDS[row.hold]
            owner = Cell(f"{owner.text} {mark}", ODD)
            notes[note] = None
    committed: Cell | str = number(row.committed)
    if row.judgement.outlived is not None:
        committed = Cell(f"{row.judgement.outlived} ^", BAD)
        notes[_EARLIER] = None
    if row.error is not None:
        committed = Cell(f"{committed} *", BAD)
        notes[f"* {row.error}"] = None
    verdict = verdicts.get(TopicPartition(row.topic, row.partition))
    held_ms = None if row.owned_since_ms is None else max(0, now_ms - row.owned_since_ms)
    return [
        row.topic,
        str(row.partition),
        committed,
        number(row.log_end),
        lag,
        "-" if verdict is None else Cell(verdict.kind.value, _STYLES.get(verdict.kind, BAD)),
        duration(row.committed_age_ms),
        duration(held_ms),
        owner,
    ]


def _member_row(member: GroupMember, now_ms: int) -> list[Cell | str]:
    some = member.subscription[:_TOPICS_SHOWN]
    topics = ", ".join(f"{topic} x {streams}" if streams != 1 else topic for topic, streams in some)
    if len(member.subscription) > _TOPICS_SHOWN:
        topics += f" and {len(member.subscription) - _TOPICS_SHOWN} more"
    pattern = "" if member.pattern == "static" else f"{member.pattern} "
    return [
        member.consumer_id,
        member.kind,
        pattern + topics,
        str(member.threads),
        str(member.partitions),
        str(member.brokers),
        duration(max(0, now_ms - member.registered_at_ms)),
    ]
