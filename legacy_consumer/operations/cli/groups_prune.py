"""`legacy-consumer groups prune`."""

from __future__ import annotations

import fnmatch
import functools

import click

from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.admin.group_reads import read_apart
from legacy_consumer.operations.admin.pruning import GroupUse, find_unused, read_use, zookeeper_ms
from legacy_consumer.operations.cli.helpers.execution import Execution
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.removals import Removed, delete_all, removal_options, say_migrated
from legacy_consumer.operations.cli.helpers.tables import Cell, Column, duration, print_table, say, say_error
from legacy_consumer.operations.cli.helpers.times import parse_duration_s
from rebalance.clock import SystemClock
from zk_layout.errors import NoNodeError, NotPermittedError
from zk_layout.store import ZkStore

_COLUMNS = (
    Column("GROUP", folds=True),
    Column("TOPICS", is_number=True),
    Column("OFFSETS", is_number=True),
    Column("LAST USED", is_number=True),
)
_APART_MS = 60_000
"""A warning names a larger difference between ZooKeeper's clock and this machine's."""
_FIELDS = ("group", "topics", "offsets", "last_commit_ms", "last_seen_ms", "deleted")


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer groups prune --older-than 90d --zookeeper localhost:2181/kafka
  legacy-consumer groups prune --older-than 7d --name 'console-consumer-*' --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@click.option(
    "--older-than", metavar="DURATION", required=True, help="Unused for longer than this: 30d, 12h, 1d6h, P30D."
)
@click.option(
    "--name", "names", metavar="PATTERN", multiple=True, help="Only groups with this name; * and ? are wildcards."
)
@removal_options
def prune(
    execution: Execution,
    output: Output,
    cluster: ClusterOptions,
    older_than: str,
    names: tuple[str, ...],
) -> None:
    """Remove unused groups: groups without members, and without a commit for the given time.

    The time of the last commit is that of the offset znodes, by ZooKeeper's clock; for a group that never committed it
    is the time at which its znodes were created. A group with offsets in Kafka (offsets.storage=kafka) looks unused
    here as soon as it has no members.

    The command leaves out groups with an open migration, because their rollback data would be lost, groups of which a
    living session still holds a znode, and groups that a client uses before their turn comes. A dry run uses this
    machine's clock, because ZooKeeper tells its own only after a write. With --execute the earlier of the two clocks
    counts, so that no group is removed that a dry run would not list.

    First all offsets are written into one backup, which `offsets import` restores. JSON and CSV say of each group
    whether it was deleted.
    """
    older_than_ms = 1000 * parse_duration_s(older_than)
    # a group's name may hold a bracket, which begins a set of characters for fnmatch
    patterns = [name.replace("[", "[[]") for name in names]
    with open_store(load_cluster_config(cluster)) as store:
        now_ms = SystemClock().wall_ms()
        if execution.execute:
            now_ms = min(now_ms, _zookeeper_ms(store, now_ms))
        groups = [g for g in list_groups(store) if not names or any(fnmatch.fnmatchcase(g, one) for one in patterns)]
        use, forbidden = read_apart(groups, functools.partial(read_use, store))
        unused = find_unused(use, now_ms=now_ms, older_than_ms=older_than_ms)
        if output is Output.TABLE and unused:
            print_table(_COLUMNS, [_row(one, now_ms) for one in unused])
            click.echo()
        say_migrated(unused)
        _say_migrating([one.group for one in use if one.open_migration is not None])
        for group, error in sorted(forbidden.items()):
            say_error(f"Group {group} is left out: {error}")
        removed = Removed()
        if execution.execute and unused:
            removed = delete_all(
                store, unused, topic=None, backup_dir=execution.backup_dir, output=output, leave_used=True
            )
    _print_records(unused, removed, output)
    if output is Output.TABLE and not unused:
        say_error(f"No group of {len(groups)} was unused for so long.")
    elif output is Output.TABLE and not execution.execute:
        say(f"Dry run: nothing was deleted. Add --execute to delete these {len(unused)}.", "bold")
    if forbidden or not removed.is_permitted:
        raise click.exceptions.Exit(1)


def _zookeeper_ms(store: ZkStore, now_ms: int) -> int:
    """Return ZooKeeper's time; this machine's time, now_ms, if ZooKeeper's cannot be read."""
    try:
        found_ms = zookeeper_ms(store)
    except (NotPermittedError, NoNodeError) as error:
        say_error(f"Warning: how late it is this machine's clock says, ZooKeeper's was not asked: {error}")
        return now_ms
    apart_ms = abs(now_ms - found_ms)
    if apart_ms > _APART_MS:
        which = "behind" if now_ms < found_ms else "ahead of"
        say_error(
            f"Note: this machine's clock is {duration(apart_ms)} {which} ZooKeeper's: the one that is behind counts"
        )
    return found_ms


def _print_records(unused: list[GroupUse], removed: Removed, output: Output) -> None:
    records = [
        {
            "group": one.group,
            "topics": one.topics,
            "offsets": len(one.offsets),
            "last_commit_ms": one.last_commit_ms,
            "last_seen_ms": one.last_seen_ms,
            "deleted": one.group in removed.groups,
        }
        for one in unused
    ]
    if output is Output.JSON:
        print_json(records)
    elif output is Output.CSV:
        print_csv(_FIELDS, records)


def _say_migrating(groups: list[str]) -> None:
    if groups:
        some = ", ".join(groups[:3]) + (f" and {len(groups) - 3} more" if len(groups) > 3 else "")
        say_error(f"Left out, a migration is open: {some} (see `legacy-consumer migrate status`)")


def _row(one: GroupUse, now_ms: int) -> list[Cell | str]:
    return [
        one.group,
        str(one.topics),
        str(len(one.offsets)),
        f"{duration(max(0, now_ms - one.last_seen_ms))} ago",
    ]
