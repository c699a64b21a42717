"""`legacy-consumer offsets copy`."""

from __future__ import annotations

import click

from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.group_acls import read_group_acls
from legacy_consumer.operations.admin.offset_plans import choose_partitions, make_plan, read_standings, readable_offsets
from legacy_consumer.operations.cli.changes import Safety, carry_out, safety_options
from legacy_consumer.operations.cli.helpers.group_names import check_group
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options
from legacy_consumer.operations.cli.helpers.tables import say_error
from legacy_consumer.operations.cli.helpers.topic_choices import parse_topics
from legacy_consumer.operations.cli.kafka_offsets import find_offsets_in_kafka, shown_offsets, warn_of_kafka
from legacy_consumer.operations.cli.offsets_import import standings_or_none


@click.command(
    epilog="""

\b
Example:
  legacy-consumer offsets copy billing billing-test --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@safety_options
@click.argument("source")
@click.argument("target")
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:P,P,...]",
    multiple=True,
    help="Only this topic, or these partitions of it; may be repeated.",
)
def copy(
    safety: Safety,
    output: Output,
    cluster: ClusterOptions,
    source: str,
    target: str,
    topics: tuple[str, ...],
) -> None:
    """Copy the offsets of the group SOURCE, which may be running, to the group TARGET.

    The command creates TARGET if it does not exist, with the ACLs of SOURCE. It shows the plan and carries it out with
    --execute; see `offsets reset`.
    """
    check_group(source)
    check_group(target)
    if source == target:
        raise click.UsageError("SOURCE and TARGET are the same group.")
    chosen = parse_topics(topics)
    with open_store(load_cluster_config(cluster)) as store:
        once = TopicsOnce(store)
        standings = read_standings(store, source, once)
        if chosen:
            standings = choose_partitions(once, standings, chosen)
        after = readable_offsets(source, standings)
        if not after:
            raise click.ClickException(f"group {source} has committed nothing that could be copied")
        in_kafka = find_offsets_in_kafka(cluster, store, source, after)
        ahead = {tp: offset for tp, offset in (in_kafka or {}).items() if offset > after[tp]}
        if ahead:
            say_error(
                f"Warning: {source} is ahead in Kafka ({shown_offsets(ahead)}): its members with offsets.storage=kafka "
                "go on from there; the offsets in ZooKeeper are copied"
            )
        acls = read_group_acls(store, [source]).get(source)
        plan = make_plan(store, target, standings_or_none(store, target, once), after, acls, topics=once)
        if in_kafka is not None:
            warn_of_kafka(cluster, store, [plan])
        else:
            say_error(f"Kafka was not asked about group {target}.")
        carry_out(store, [plan], safety, output, name=target)
