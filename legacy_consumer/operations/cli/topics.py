"""`legacy-consumer topics`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from legacy_consumer.operations.admin.leadership import PartitionLeadership, read_leadership
from legacy_consumer.operations.admin.topics import TopicSummary, read_readers, read_topics
from legacy_consumer.operations.cli.helpers.group_tables import BAD, ODD
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.tables import Cell, Column, number, print_table, say, say_error

_COLUMNS = (
    Column("TOPIC", folds=True),
    Column("PARTITIONS", is_number=True),
    Column("REPLICAS", is_number=True),
    Column("NO LEADER", is_number=True),
    Column("NOT IN SYNC", is_number=True),
    Column("READ BY", folds=True),
)
_PARTITION_COLUMNS = (
    Column("TOPIC", folds=True),
    Column("PARTITION", is_number=True),
    Column("LEADER", is_number=True),
    Column("EPOCH", is_number=True),
    Column("REPLICAS"),
    Column("IN SYNC"),
    Column("NEXT", is_number=True),
    Column("ASKED FOR", folds=True),
)
_PARTITION_FIELDS = (
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "preferred_leader",
    "replicas",
    "in_sync",
    "next_leader",
    "reassigned_to",
    "is_electing",
)
_FIELDS = (
    "topic",
    "partitions",
    "replicas",
    "no_leader",
    "under_replicated",
    "is_going",
    "groups",
    "problem",
    "closed",
)
_GROUPS_SHOWN = 3
_PROBLEMS_SHOWN = 10


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer topics --zookeeper localhost:2181/kafka
  legacy-consumer topics flights --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@click.pass_context
def topics(ctx: click.Context, output: Output, cluster: ClusterOptions, names: tuple[str, ...]) -> None:
    """Show the topics, their state, and the groups that have offsets of each.

    NO LEADER and NOT IN SYNC are numbers of partitions. The command asks no broker: it shows the state in ZooKeeper.
    The exit code is 1 if an ACL forbids to read a group or a topic; the rest is shown.

    With TOPIC the command shows the partitions of these topics: the leader and its epoch, the replicas (the first one
    is the preferred leader) and the replicas in sync. NEXT is the broker that would lead if the leader failed now: the
    first replica that is alive and in sync. The exit code is 1 if a topic or the state of a partition cannot be read.
    """
    with open_store(load_cluster_config(cluster)) as store:
        if names:
            partitions, problems = read_leadership(store, dict.fromkeys(names))
            _show_partitions(partitions, output)
            for unknown in problems[:_PROBLEMS_SHOWN]:
                say_error(f"Not known: {unknown}")
            if len(problems) > _PROBLEMS_SHOWN:
                say_error(f"and {len(problems) - _PROBLEMS_SHOWN} more of these")
            ctx.exit(1 if problems else 0)
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
    ctx.exit(1 if forbidden or any(one.closed is not None for one in found) else 0)


def _show_partitions(found: Sequence[PartitionLeadership], output: Output) -> None:
    records = [{**asdict(one), "preferred_leader": one.preferred_leader} for one in found]
    match output:
        case Output.JSON:
            print_json(records)
        case Output.CSV:
            print_csv(_PARTITION_FIELDS, records)
        case Output.TABLE:
            print_table(_PARTITION_COLUMNS, [_partition_row(one) for one in found])


def _partition_row(one: PartitionLeadership) -> list[Cell | str]:
    in_sync = one.in_sync or ()
    lacks = set(one.replicas) - set(in_sync)
    asked = "" if one.reassigned_to is None else f"moves to {_brokers(one.reassigned_to)}"
    if one.is_electing:
        asked = f"{asked}{', ' if asked else ''}preferred leader is asked for"
    is_preferred = one.leader is not None and one.leader == one.preferred_leader
    return [
        one.topic,
        str(one.partition),
        Cell(number(one.leader), BAD if one.leader is None else "" if is_preferred else ODD),
        number(one.leader_epoch),
        _brokers(one.replicas),
        Cell(_brokers(in_sync), ODD if lacks else ""),
        number(one.next_leader),
        asked,
    ]


def _brokers(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def _show(found: Sequence[TopicSummary]) -> None:
    if found:
        print_table(_COLUMNS, [_row(one) for one in found])
    else:
        say_error("There is no topic in /brokers/topics.")
    for one in found:
        if (problem := one.problem or one.closed) is not None:
            say(f"* {problem}", BAD)


def _row(one: TopicSummary) -> list[Cell | str]:
    name: Cell | str = one.topic
    if one.problem is not None or (one.closed is not None and not one.partitions):
        return [Cell(f"{name} *", BAD), "-", "-", "-", "-", _some(one.groups)]
    if one.closed is not None:
        name = Cell(f"{name} *", BAD)
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
