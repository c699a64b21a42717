"""`legacy-consumer groups members`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from legacy_consumer.operations.admin.groups import GroupDescription, GroupMember, UnreadableMember, describe_groups
from legacy_consumer.operations.cli.helpers.group_documents import session
from legacy_consumer.operations.cli.helpers.group_names import check_wanted, refuse_missing, say_if_none, wanted_groups
from legacy_consumer.operations.cli.helpers.group_tables import (
    MEMBER_COLUMNS,
    Line,
    Part,
    TableOf,
    count,
    member_rows,
    unknown_group,
    unreadable_lines,
)
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.showing import drawn, print_parts
from legacy_consumer.operations.cli.helpers.watching import interval_option, watch
from rebalance.clock import SystemClock

_FIELDS = (
    "group",
    "consumer_id",
    "kind",
    "pattern",
    "subscription",
    "threads",
    "partitions",
    "brokers",
    "registered_at_ms",
    "session_id",
    "divides_by",
    "problem",
)


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer groups members billing --zookeeper localhost:2181/kafka
  legacy-consumer groups members --all-groups --watch --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@click.argument("groups", metavar="GROUP...", nargs=-1)
@click.option("--all-groups", is_flag=True, help="All groups, instead of GROUP.")
@interval_option
@click.pass_context
def members(
    ctx: click.Context,
    output: Output,
    cluster: ClusterOptions,
    groups: tuple[str, ...],
    all_groups: bool,
    is_watched: bool,
    interval: float,
) -> None:
    """Show the members of a group: client, subscription, number of streams and partitions, start time.

    The command asks no broker. It names an unreadable registration with the reason: JVM members fail every rebalance
    while it exists. With --watch --json each measurement is one line.

    The exit code is 1 if an ACL forbids to read a group; the others are shown.
    """
    check_wanted(groups, all_groups=all_groups)
    if is_watched and output is Output.CSV:
        raise click.UsageError("--watch prints tables or JSON, one array for each look.")
    with open_store(load_cluster_config(cluster)) as store:

        def look() -> list[GroupDescription]:
            found = describe_groups(store, None, wanted_groups(store, groups, all_groups=all_groups))
            refuse_missing(groups, (one.group for one in found))
            return found

        if not is_watched:
            found = look()
            _print(found, output)
            say_if_none(found)
            ctx.exit(0 if all(one.problem is None for one in found) else 1)

        def print_look() -> None:
            found = look()
            if output is Output.JSON:
                print_json([record for one in found for record in _records(one)], on_one_line=True)
            else:
                _print(found, output)

        title = ", ".join(groups) if groups else "All groups"
        draw = (lambda: drawn(_parts(look()))) if output is Output.TABLE else None
        ctx.exit(watch(draw, print_look, title=title, interval_s=interval))


def _print(found: Sequence[GroupDescription], output: Output) -> None:
    records = [record for one in found for record in _records(one)]
    if output is Output.JSON:
        print_json(records)
    elif output is Output.CSV:
        print_csv(_FIELDS, [{**record, "subscription": _in_a_word(record["subscription"])} for record in records])
    else:
        print_parts(_parts(found))


def _records(found: GroupDescription) -> list[dict[str, object]]:
    empty = dict.fromkeys(_FIELDS)
    if found.problem is not None:
        return [{**empty, "group": found.group, "problem": found.problem}]
    members: list[GroupMember | UnreadableMember] = [*found.members, *found.unreadable]
    return [{**empty, "group": found.group, **asdict(one), "session_id": session(one.session_id)} for one in members]


def _in_a_word(subscription: object) -> str:
    if not isinstance(subscription, tuple):
        return ""
    return " ".join(f"{topic}:{streams}" for topic, streams in subscription)


def _parts(found: Sequence[GroupDescription]) -> list[Part]:
    now_ms = SystemClock().wall_ms()
    parts: list[Part] = []
    for number, one in enumerate(found):
        if number:
            parts.append(Line(""))
        unreadable = f" and {len(one.unreadable)} unreadable" if one.unreadable else ""
        if one.problem is not None:
            parts.append(unknown_group(one))
            continue
        heading = f"Group {one.group}: {count(len(one.members), 'member')}{unreadable}"
        parts.append(Line(heading, "bold"))
        if one.members or one.unreadable:
            parts += [Line(""), TableOf(MEMBER_COLUMNS, member_rows(one, now_ms))]
        if one.unreadable:
            parts.append(Line(""))
        parts += unreadable_lines(one)
    return parts
