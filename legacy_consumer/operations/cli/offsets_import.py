"""`legacy-consumer offsets import`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import click

from legacy_consumer.errors import NoSuchGroupError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka import open_log_offsets
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.log_times import BrokerLogTimes
from legacy_consumer.operations.admin.offset_files import OffsetFile
from legacy_consumer.operations.admin.offset_plans import OffsetPlan, Standing, make_plan, read_standings
from legacy_consumer.operations.admin.offset_targets import ToGiven, resolve
from legacy_consumer.operations.cli.changes import Safety, carry_out, safety_options
from legacy_consumer.operations.cli.helpers.group_names import check_group
from legacy_consumer.operations.cli.helpers.group_tables import count
from legacy_consumer.operations.cli.helpers.offset_sources import (
    choose_offsets,
    earlier_option,
    leave_out_earlier,
    load_offsets,
)
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options
from legacy_consumer.operations.cli.helpers.tables import say_error
from legacy_consumer.operations.cli.helpers.topic_choices import parse_topics
from legacy_consumer.operations.cli.kafka_offsets import warn_of_kafka
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
@click.option("--group", metavar="GROUP", help="Only this group; required for a file that names no group, as most CSV.")
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:P,P,...]",
    multiple=True,
    help="Only this topic, or these partitions of it; may be repeated.",
)
@click.option("--clamp", is_flag=True, help="Replace an offset outside the log by the nearest one inside.")
@earlier_option
@click.option(
    "--no-check",
    is_flag=True,
    help="Do not ask the brokers whether the offsets lie in the logs, nor for offsets in Kafka.",
)
def import_command(
    safety: Safety,
    output: Output,
    cluster: ClusterOptions,
    file: str,
    group: str | None,
    topics: tuple[str, ...],
    clamp: bool,
    no_check: bool,
    takes_earlier: bool,
) -> None:
    """Commit the offsets of a file, for all groups in it.

    Reads the lines of Kafka's ExportZkOffsets, JSON of `offsets export` and of backups, and CSV of
    kafka-consumer-groups. A bad line is named by its number, and nothing is written. - is standard input. Offsets of a
    topic that does not exist are written too, with a warning: no broker can tell whether they are right. Offsets that
    the file has for an earlier topic of the same name are left out, and the exit code is 1.

    Shows the plan and carries it out with --execute, one transaction for each group; see `offsets reset`. As there, it
    warns if a group also has offsets in Kafka, or if no broker tells. The command creates missing groups; from a backup
    of a secured group, with the ACLs of that group.
    """
    if clamp and no_check:
        raise click.UsageError("--clamp asks the brokers where the logs end: leave out --no-check.")
    given = load_offsets(file)
    _say_untouched(given)
    names = [group] if group is not None else sorted(given.groups)
    if "" in names:
        raise click.UsageError("The file names no group: give --group.")
    for name in names:
        check_group(name)
    chosen = parse_topics(topics)
    wanted = {name: given.of_group(name) for name in names}
    if not any(wanted.values()):
        raise click.ClickException(f"{file} holds no offsets{f' of group {group}' if group else ''}")
    wanted = choose_offsets(file, wanted, chosen)
    _say_unreadable(given, names)
    config = load_cluster_config(cluster)
    with open_store(config) as store, closing(open_log_offsets(config, store)) as log_offsets:
        brokers = read_brokers(store)
        logs = BrokerLogTimes(log_offsets, brokers)
        once = TopicsOnce(store)
        if not no_check and not brokers and not once.names():
            raise click.ClickException(
                "nothing was changed: no broker and no topic is here, so members of these groups are elsewhere: check "
                "the chroot of zookeeper.connect; --no-check puts the offsets here all the same"
            )
        named = {tp.topic for offsets in wanted.values() for tp in offsets}
        once.refuse_unreadable(named)
        origins = once.origins(named)
        plans: list[OffsetPlan] = []
        left_out = 0
        for name, offsets in wanted.items():
            earlier = [] if takes_earlier else leave_out_earlier(name, offsets, given, origins)
            left_out += len(earlier)
            offsets = {tp: offset for tp, offset in offsets.items() if tp not in earlier}  # noqa: PLW2901
            standings = standings_or_none(store, name, once)
            existing = once.existing(offsets.keys())
            gone = {tp: o for tp, o in offsets.items() if tp not in existing}
            current = {tp: (standings or {}).get(tp, Standing()).offset for tp in existing}
            after = {**gone, **resolve(ToGiven(offsets), current, logs, clamp=clamp, check=not no_check)}
            _say_gone(name, gone)
            plans.append(make_plan(store, name, standings, after, given.acls.get(name), topics=once))
        if not no_check:
            warn_of_kafka(cluster, store, plans)
        carry_out(store, plans, safety, output, name=names[0] if len(names) == 1 else "groups")
    if left_out:
        raise click.exceptions.Exit(1)


def standings_or_none(store: ZkStore, group: str, topics: TopicsOnce) -> dict[TopicPartition, Standing] | None:
    """As read_standings; None if there is no such group."""
    try:
        return read_standings(store, group, topics)
    except NoSuchGroupError:
        return None


def _say_untouched(given: OffsetFile) -> None:
    if given.untouched:
        say_error(
            "Note: the command that wrote this file was stopped before it changed "
            f"{count(len(given.untouched), 'group')} ({', '.join(given.untouched[:3])}): left out"
        )


def _say_gone(group: str, gone: Mapping[TopicPartition, int | None]) -> None:
    if any(offset is not None for offset in gone.values()):
        some = ", ".join(str(tp) for tp in sorted(gone)[:3])
        say_error(
            f"Note: {count(len(gone), 'partition')} of group {group} ({some}) without a place in the cluster: "
            "their offsets are put back without a check"
        )


def _say_unreadable(given: OffsetFile, groups: Sequence[str]) -> None:
    many = sum(given.unreadable.get(group, 0) for group in groups)
    if many:
        say_error(
            f"Note: {count(many, 'offset')} could not be read when the file was written: what stood there is in it, "
            "and is not put back"
        )
