"""`legacy-consumer topics`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from legacy_consumer.admin.topics import TopicSummary, read_readers, read_topics
from legacy_consumer.cli.group_tables import BAD, ODD
from legacy_consumer.cli.options import ClusterOptions, cluster_options, load_cluster_config, open_store
from legacy_consumer.cli.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.cli.tables import Cell, Column, print_table, say, say_error

_COLUMNS = (
    Column("TOPIC", folds=True),
    Column("PARTITIONS", is_number=True),
    Column("REPLICAS", is_number=True),
    Column("NO LEADER", is_number=True),
    Column("NOT IN SYNC", is_number=True),
    Column("READ BY", folds=True),
)
_FIELDS = ("topic", "partitions", "replicas", "no_leader", "under_replicated", "is_going", "groups", "problem")
_GROUPS_SHOWN = 3


@click.command(
    epilog="""

\b
Example:
  legacy-consumer topics --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@click.pass_context
def topics(ctx: click.Context, output: Output, cluster: ClusterOptions) -> None:
    """Show the topics, whether they can be read, and the groups that have offsets of each.

    NO LEADER and NOT IN SYNC are numbers of partitions. No broker is asked: this is what ZooKeeper says.
    Ends with 1 if a group may not be read; all else is shown.
    """
    with open_store(load_cluster_config(cluster)) as store:
        readers, forbidden = read_readers(store)
        found = read_topics(store, readers)
    match output:
        case Output.JSON:
            print_json([asdict(one) for one in found])
        case Output.CSV:
            print_csv(_FIELDS, [asdict(one) for one in found])
        case Output.TABLE:
            _show(found)
    for group, problem in forbidden.items():
        say_error(f"What group {group} reads is left out: {problem}")
    ctx.exit(1 if forbidden else 0)


def _show(found: Sequence[TopicSummary]) -> None:
    if found:
        print_table(_COLUMNS, [_row(one) for one in found])
    else:
        say_error("There is no topic in /brokers/topics.")
    for one in found:
        if one.problem is not None:
            say(f"* {one.problem}", BAD)


def _row(one: TopicSummary) -> list[Cell | str]:
    name: Cell | str = one.topic
    if one.problem is not None:
        return [Cell(f"{name} *", BAD), "-", "-", "-", "-", _some(one.groups)]
    if one.is_going:
        name = Cell(f"{name} (marked for deletion)", ODD)
    return [
        name,
        str(one.partitions),
        str(one.replicas),
        Cell(str(one.no_leader), BAD if one.no_leader else ""),
        Cell(str(one.under_replicated), ODD if one.under_replicated else ""),
        _some(one.groups),
    ]


def _some(groups: tuple[str, ...]) -> str:
    more = f" and {len(groups) - _GROUPS_SHOWN} more" if len(groups) > _GROUPS_SHOWN else ""
    return ", ".join(groups[:_GROUPS_SHOWN]) + more or "-"
