"""`legacy-consumer groups describe`."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import closing
from dataclasses import asdict

import click

from legacy_consumer.admin.groups import GroupDescription, GroupMember, PartitionLag, describe_group
from legacy_consumer.cli.options import ClusterOptions, cluster_options, load_cluster_config, open_store
from legacy_consumer.cli.tables import Cell, Column, duration, number, print_table, printable, say
from legacy_consumer.librdkafka import open_log_offsets
from rebalance.clock import SystemClock
from rebalance.group_strategy import STRATEGIES
from zk_layout.errors import ConfigError

_BEYOND = (
    "! the committed offset lies beyond the end of the log: the topic was made anew, or the offset was set by hand"
)
_BAD = "red"
_ODD = "yellow"

_PARTITIONS = (
    Column("TOPIC", folds=True),
    Column("PARTITION", is_number=True),
    Column("COMMITTED", is_number=True),
    Column("LOG END", is_number=True),
    Column("LAG", is_number=True),
    Column("AGE", is_number=True),
    Column("OWNER", folds=True),
)
_MEMBERS = (
    Column("MEMBER", folds=True),
    Column("CLIENT", folds=True),
    Column("SUBSCRIPTION", folds=True),
    Column("STREAMS", is_number=True),
    Column("PARTITIONS", is_number=True),
    Column("JOINED", is_number=True),
)


@click.command(
    epilog="""

\b
Example:
  legacy-consumer groups describe billing --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def describe(cluster: ClusterOptions, group: str, as_json: bool) -> None:
    """Show members, owners, offsets and lag.

    LAG is the log's end less the committed offset; below 0 the offset lies beyond the log. AGE tells when the offset
    was committed, JOINED when the member registered. A dash stands for what is not there or not known.

    CLIENT is who seems to have written a member's registration; most versions of Kafka, and legacy-consumer, write the
    same. Below the tables stand the strategy that the owners show and what cannot work in this group.
    """
    if not group or group in {".", ".."} or "/" in group or not group.isprintable():
        raise ConfigError("group", printable(group), "is no name that a group can have")
    config = load_cluster_config(cluster)
    with open_store(config) as store, closing(open_log_offsets(config, store)) as log_offsets:
        found = describe_group(store, log_offsets, group)
    if as_json:
        click.echo(json.dumps(_document(found), indent=2))
    else:
        _show(found)
    if found.no_log_ends:
        click.echo(f"Warning: log ends and lag are not known: {found.no_log_ends}", err=True)


def _document(found: GroupDescription) -> dict[str, object]:
    return {**asdict(found), "total_lag": found.total_lag, "unowned": found.unowned}


def _show(found: GroupDescription) -> None:
    now_ms = SystemClock().wall_ms()
    say(_totals(found), "bold")
    notes: dict[str, None] = {}
    if found.partitions:
        click.echo()
        print_table(_PARTITIONS, [_partition_row(row, notes) for row in found.partitions])
    if found.members or found.unreadable:
        click.echo()
        rows = [_member_row(member, now_ms) for member in found.members]
        for bad in found.unreadable:
            joined = duration(max(0, now_ms - bad.registered_at_ms))
            name = Cell(printable(bad.consumer_id), _BAD)
            rows.append([name, bad.kind, Cell("unreadable, see below", _BAD), "-", "-", joined])
        print_table(_MEMBERS, rows)
    if notes or found.unreadable or found.warnings or _is_telling(found.divides_by):
        click.echo()
    for note in notes:
        say(note, _ODD)
    for bad in found.unreadable:
        say(f"unreadable: {printable(bad.problem)}", _BAD)
    if _is_telling(found.divides_by):
        say(f"owners as divided by {', '.join(found.divides_by)}")
    for warning in found.warnings:
        say(f"warning: {printable(warning.text)}", _ODD)


def _is_telling(divides_by: Collection[str]) -> bool:
    """Of a small group every strategy may make the same."""
    return 0 < len(divides_by) < len(STRATEGIES)


def _totals(found: GroupDescription) -> str:
    members = _count(len(found.members), "member")
    if found.unreadable:
        members += f" and {len(found.unreadable)} unreadable"
    parts = [members, _count(len(found.partitions), "partition")]
    if found.unowned:
        parts.append(f"{found.unowned} without owner")
    unknown = sum(row.lag is None for row in found.partitions)
    known = f"lag {found.total_lag}"
    if unknown:
        known = f"lag {found.total_lag} and {unknown} unknown" if unknown < len(found.partitions) else "lag unknown"
    if found.partitions:
        parts.append(known)
    return f"Group {printable(found.group)}: {', '.join(parts)}"


def _count(many: int, what: str) -> str:
    return f"{many} {what}{'' if many == 1 else 's'}"


def _partition_row(row: PartitionLag, notes: dict[str, None]) -> list[Cell | str]:
    lag: Cell | str = number(row.lag)
    if row.lag is not None and row.lag < 0:
        lag = Cell(f"{row.lag} !", _BAD)
        notes[
            "! the committed offset lies beyond the end of the log: the topic was made anew, or the offset set by hand"
        ] = None
    owner: Cell | str = Cell("-", _ODD)
    if row.owner is not None:
        owner = printable(row.owner)
        if not row.owner_is_member:
            owner = Cell(f"{owner} ?", _ODD)
            notes["? the owner is no registered member of the group"] = None
    committed: Cell | str = number(row.committed)
    if row.error is not None:
        committed = Cell(f"{committed} *", _BAD)
        notes[f"* {printable(row.error)}"] = None
    return [
        printable(row.topic),
        str(row.partition),
        committed,
        number(row.log_end),
        lag,
        duration(row.committed_age_ms),
        owner,
    ]


def _member_row(member: GroupMember, now_ms: int) -> list[Cell | str]:
    topics = ", ".join(f"{topic} x {streams}" if streams != 1 else topic for topic, streams in member.subscription)
    pattern = "" if member.pattern == "static" else f"{member.pattern} "
    return [
        printable(member.consumer_id),
        member.kind,
        printable(pattern + topics),
        str(member.threads),
        str(member.partitions),
        duration(max(0, now_ms - member.registered_at_ms)),
    ]
