"""`legacy-consumer groups members`."""

from __future__ import annotations

from dataclasses import asdict

import click

from legacy_consumer.admin.groups import GroupDescription, describe_groups
from legacy_consumer.cli.group_documents import session
from legacy_consumer.cli.group_names import check_wanted, wanted_groups
from legacy_consumer.cli.group_tables import BAD, MEMBER_COLUMNS, count, member_rows
from legacy_consumer.cli.options import ClusterOptions, cluster_options, load_cluster_config, open_store
from legacy_consumer.cli.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.cli.tables import print_table, printable, say
from rebalance.clock import SystemClock

_FIELDS = (
    "group",
    "consumer_id",
    "kind",
    "pattern",
    "subscription",
    "threads",
    "partitions",
    "registered_at_ms",
    "session_id",
    "divides_by",
    "problem",
)


@click.command(
    epilog="""

\b
Example:
  legacy-consumer groups members billing --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@click.argument("groups", metavar="GROUP...", nargs=-1)
@click.option("--all-groups", is_flag=True, help="All groups there are, instead of those named.")
def members(output: Output, cluster: ClusterOptions, groups: tuple[str, ...], all_groups: bool) -> None:
    """Show who is in a group: the client, its subscription, how many streams and partitions it has, since when.

    No broker is asked. A registration that nobody can read is named with the reason: members of the JVM fail every
    rebalance while it is there.
    """
    check_wanted(groups, all_groups=all_groups)
    with open_store(load_cluster_config(cluster)) as store:
        found = describe_groups(store, None, wanted_groups(store, groups, all_groups=all_groups))
    records = [record for one in found for record in _records(one)]
    if output is Output.JSON:
        print_json(records)
    elif output is Output.CSV:
        print_csv(_FIELDS, [{**record, "subscription": _in_a_word(record["subscription"])} for record in records])
    else:
        _show(found)


def _records(found: GroupDescription) -> list[dict[str, object]]:
    empty = dict.fromkeys(_FIELDS)
    readable = [{**empty, "group": found.group, **asdict(one)} for one in found.members]
    for record, one in zip(readable, found.members, strict=True):
        record["session_id"] = session(one.session_id)
    return [*readable, *({**empty, "group": found.group, **asdict(bad)} for bad in found.unreadable)]


def _in_a_word(subscription: object) -> str:
    if not isinstance(subscription, tuple):
        return ""
    return " ".join(f"{topic}:{streams}" for topic, streams in subscription)


def _show(found: list[GroupDescription]) -> None:
    now_ms = SystemClock().wall_ms()
    for number, one in enumerate(found):
        if number:
            click.echo()
        unreadable = f" and {len(one.unreadable)} unreadable" if one.unreadable else ""
        say(f"Group {printable(one.group)}: {count(len(one.members), 'member')}{unreadable}", "bold")
        if one.members or one.unreadable:
            click.echo()
            print_table(MEMBER_COLUMNS, member_rows(one, now_ms))
        for bad in one.unreadable:
            say(f"unreadable: {printable(bad.problem)}", BAD)
