"""`legacy-consumer offsets import`."""

from __future__ import annotations

from contextlib import closing

import click

from legacy_consumer.admin.log_times import BrokerLogTimes
from legacy_consumer.admin.offset_plans import OffsetPlan, Standing, make_plan, read_standings
from legacy_consumer.admin.offset_targets import ToGiven, resolve
from legacy_consumer.cli.changes import Safety, carry_out, safety_options
from legacy_consumer.cli.group_names import check_group
from legacy_consumer.cli.offset_sources import load_offsets
from legacy_consumer.cli.options import ClusterOptions, cluster_options, load_cluster_config, open_store
from legacy_consumer.cli.outputs import Output, output_options
from legacy_consumer.errors import NoSuchGroupError
from legacy_consumer.librdkafka import open_log_offsets, read_brokers
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore


@click.command(
    "import",
    epilog="""

\b
Examples:
  legacy-consumer offsets import offsets.txt --zookeeper localhost:2181/kafka
  legacy-consumer offsets import offsets.json --group billing --execute --zookeeper localhost:2181/kafka
""",
)
@cluster_options
@output_options
@safety_options
@click.argument("file")
@click.option("--group", metavar="GROUP", help="Only this group; needed for a CSV file, which names none.")
@click.option("--clamp", is_flag=True, help="An offset outside the log becomes the nearest that there is.")
@click.option("--no-check", is_flag=True, help="Do not ask the brokers whether the offsets lie in the logs.")
def import_command(
    safety: Safety,
    output: Output,
    cluster: ClusterOptions,
    file: str,
    group: str | None,
    clamp: bool,
    no_check: bool,
) -> None:
    """Put offsets from a file back, of all groups in it.

    Reads the lines of Kafka's ExportZkOffsets, JSON of `offsets export` and of backups, and CSV of
    kafka-consumer-groups. A bad line is named by its number, and nothing is applied. - is standard input.

    Shows the plan and carries it out with --execute, a transaction for each group; see `offsets reset`. Groups that are
    not there are made.
    """
    given = load_offsets(file)
    names = [group] if group is not None else sorted(given.groups)
    if "" in names:
        raise click.UsageError("The file names no group: give --group.")
    for name in names:
        check_group(name)
    wanted = {name: given.of_group(name) for name in names}
    if not any(wanted.values()):
        raise click.ClickException(f"{file} holds no offsets{f' of group {group}' if group else ''}")
    config = load_cluster_config(cluster)
    with open_store(config) as store, closing(open_log_offsets(config, store)) as log_offsets:
        logs = BrokerLogTimes(log_offsets, read_brokers(store))
        plans: list[OffsetPlan] = []
        for name, offsets in wanted.items():
            standings = standings_or_none(store, name)
            current = {tp: standings.get(tp, Standing()).offset for tp in offsets}
            after = resolve(ToGiven(offsets), current, logs, clamp=clamp, check=not no_check)
            plans.append(make_plan(store, name, standings, after))
        carry_out(store, plans, safety, output, name=names[0] if len(names) == 1 else "groups")


def standings_or_none(store: ZkStore, group: str) -> dict[TopicPartition, Standing]:
    """As read_standings; a group that is not there has none."""
    try:
        return read_standings(store, group)
    except NoSuchGroupError:
        return {}
