"""`legacy-consumer groups list`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.cli.helpers.group_names import say_if_none
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.tables import Cell, Column, duration, print_table, say, say_error
from zk_layout.store import ZkStore

if TYPE_CHECKING:
    from legacy_consumer.operations.admin.pruning import GroupUse

_COLUMNS = (
    Column("GROUP", folds=True),
    Column("MEMBERS", is_number=True),
    Column("TOPICS", is_number=True),
    Column("OFFSETS", is_number=True),
    Column("LAST COMMIT", is_number=True),
)
_FIELDS = ("group", "members", "topics", "offsets", "last_commit_ms")


@click.command(
    "list",
    epilog="""

\b
Examples:
  legacy-consumer groups list --zookeeper localhost:2181/kafka
  legacy-consumer groups list --details --format csv --zookeeper localhost:2181/kafka
""",
)
@cluster_options
@output_options
@click.option(
    "--details", is_flag=True, help="Also show the number of members and offsets of each group, and its last commit."
)
@click.pass_context
def list_command(ctx: click.Context, output: Output, cluster: ClusterOptions, details: bool) -> None:
    """List all groups, one a line.

    The list contains every group below /consumers, also without members; --details shows the number of members and the
    last commit. The exit code is 1 if an ACL forbids to read a group; the others are shown.
    """
    forbidden: Mapping[str, Exception] = {}
    with open_store(load_cluster_config(cluster)) as store:
        names = list_groups(store)
        use, forbidden = _read_use(store, names) if details else ([], {})
    if details:
        _print_details(use, output)
    elif output is Output.JSON:
        print_json(names)
    elif output is Output.CSV:
        print_csv(("group",), [{"group": name} for name in names])
    else:
        for name in names:
            say(name)
    say_if_none(names)
    for group, problem in forbidden.items():
        say_error(f"Group {group} is left out: {problem}")
    ctx.exit(1 if forbidden else 0)


def _read_use(store: ZkStore, names: Sequence[str]) -> tuple[list[GroupUse], Mapping[str, Exception]]:
    from legacy_consumer.operations.admin.group_reads import read_apart
    from legacy_consumer.operations.admin.pruning import (
        read_use,  # what reads groups takes as long to load as the names to list
    )

    return read_apart(names, lambda some: read_use(store, some))


def _print_details(use: list[GroupUse], output: Output) -> None:
    records = [
        {
            "group": one.group,
            "members": one.members,
            "topics": one.topics,
            "offsets": len(one.offsets),
            "last_commit_ms": one.last_commit_ms,
        }
        for one in use
    ]
    if output is Output.JSON:
        print_json(records)
    elif output is Output.CSV:
        print_csv(_FIELDS, records)
    elif use:
        from rebalance.clock import SystemClock

        now_ms = SystemClock().wall_ms()
        print_table(_COLUMNS, [_row(one, now_ms) for one in use])


def _row(one: GroupUse, now_ms: int) -> list[Cell | str]:
    age = "never" if one.last_commit_ms is None else f"{duration(max(0, now_ms - one.last_commit_ms))} ago"
    return [one.group, str(one.members), str(one.topics), str(len(one.offsets)), age]
