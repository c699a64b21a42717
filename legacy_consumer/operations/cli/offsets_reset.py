"""`legacy-consumer offsets reset`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import click

from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka import open_log_offsets
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.log_times import BrokerLogTimes
from legacy_consumer.operations.admin.offset_files import OffsetFile
from legacy_consumer.operations.admin.offset_plans import (
    Standing,
    choose_partitions,
    make_plan,
    read_standings,
)
from legacy_consumer.operations.admin.offset_targets import (
    ShiftBy,
    Target,
    ToEarliest,
    ToGiven,
    ToLatest,
    ToOffset,
    ToTime,
    resolve,
)
from legacy_consumer.operations.cli.changes import Safety, carry_out, safety_options
from legacy_consumer.operations.cli.helpers.group_names import check_group
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
from legacy_consumer.operations.cli.helpers.times import parse_duration_s, parse_time_ms, shown_time
from legacy_consumer.operations.cli.helpers.topic_choices import parse_topics
from legacy_consumer.operations.cli.kafka_offsets import warn_of_kafka
from rebalance.clock import SystemClock
from zk_layout.model import TopicPartition


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer offsets reset billing --topic orders --to-earliest --zookeeper localhost:2181/kafka
  legacy-consumer offsets reset billing --to-time 2026-11-21T06:00:00Z --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@safety_options
@click.argument("group")
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:P,P,...]",
    multiple=True,
    help="Only this topic, or these partitions of it; may be repeated. Default: all topics of the group.",
)
@click.option("--to-earliest", is_flag=True, help="To the start of each log.")
@click.option("--to-latest", is_flag=True, help="To the end of each log.")
@click.option("--to-offset", metavar="N", type=click.IntRange(min=0), help="To this offset.")
@click.option(
    "--shift-by",
    metavar="N",
    type=int,
    help="Forward by this number of messages, or back by a negative one, but not out of the log; needs a committed "
    "offset.",
)
@click.option("--to-time", "--to-datetime", metavar="TIME", help="To the first message of this time or later.")
@click.option("--by-duration", metavar="DURATION", help="To the first message of this age or younger: 6h, 1d12h, PT6H.")
@click.option(
    "--from-file", metavar="FILE", help="To the offsets of a file; see `offsets export`. - is standard input."
)
@earlier_option
@click.option("--clamp", is_flag=True, help="Replace an offset outside the log by the nearest one inside.")
def reset(
    safety: Safety,
    output: Output,
    cluster: ClusterOptions,
    group: str,
    topics: tuple[str, ...],
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_time: str | None,
    by_duration: str | None,
    from_file: str | None,
    takes_earlier: bool,
    clamp: bool,
) -> None:
    """Change a group's committed offsets.

    Shows the plan, and carries it out with --execute: first the command writes a backup, then all offsets in one
    transaction, which succeeds only if no client has committed since the plan was made.

    A group with members is refused: their commits would overwrite the change. Stop the members, or add --live if they
    are of legacy-consumer: they stop handing out messages, answer, and continue from the new offsets without a restart.
    JVM members must be stopped.

    The command changes the offsets in ZooKeeper. It warns if the group also has offsets in Kafka
    (offsets.storage=kafka), because its members continue from those, or from the greater of both; also if no broker
    tells whether it has some.

    Nothing is written if an offset lies outside the log, or if a broker that the plan needs does not answer. With
    --clamp, and always with --shift-by, the nearest offset inside the log takes its place. Offsets that a file has for
    an earlier topic of the same name are left out, and the exit code is 1.
    """
    check_group(group)
    chosen = parse_topics(topics)
    if takes_earlier and from_file is None:
        raise click.UsageError("--of-earlier-topics is about the offsets of --from-file FILE.")
    given = None if from_file is None else load_offsets(from_file)
    target = _target(to_earliest, to_latest, to_offset, shift_by, to_time, by_duration, from_file, given, group)
    earlier: list[TopicPartition] = []
    config = load_cluster_config(cluster)
    with open_store(config) as store, closing(open_log_offsets(config, store)) as log_offsets:
        logs = BrokerLogTimes(log_offsets, read_brokers(store))
        once = TopicsOnce(store)
        standings = read_standings(store, group, once)
        if isinstance(target, ToGiven):
            assert given is not None
            assert from_file is not None
            offsets = choose_offsets(from_file, {group: target.offsets}, chosen)[group]
            named = {tp.topic for tp in offsets}
            once.refuse_unreadable(named)
            origins = once.origins(named)
            earlier = [] if takes_earlier else leave_out_earlier(group, offsets, given, origins)
            wanted = {tp: standings.get(tp, Standing()) for tp in offsets if tp not in earlier}
            _check_existence(once, standings, [tp for tp in wanted if offsets[tp] is not None])
        else:
            wanted = choose_partitions(once, standings, chosen)

        def aim(current: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int | None]:
            return resolve(target, current, logs, clamp=clamp)

        after = aim({tp: standing.offset for tp, standing in wanted.items()})
        plan = make_plan(store, group, standings, after, topics=once)
        warn_of_kafka(cluster, store, [plan])
        if isinstance(target, ToTime):
            # show the date: an operator may give digits that count seconds, or write a date
            click.echo(
                f"To the first messages of {shown_time(target.time_ms)} or later.", err=output is not Output.TABLE
            )
        # a shift counts from the last commits of running members; every other target stays as the plan shows it
        again = aim if isinstance(target, ShiftBy) else lambda _: {}
        carry_out(store, [plan], safety, output, name=group, retarget=again)
    if earlier:
        raise click.exceptions.Exit(1)


def _check_existence(
    cluster: TopicsOnce, standings: Mapping[TopicPartition, Standing], partitions: Sequence[TopicPartition]
) -> None:
    """Refuse partitions that do not exist, since a broker that is asked about them may create the topic.

    Raises: NoSuchTopicError, NoSuchPartitionError.
    """
    numbers: dict[str, list[int]] = {}
    for tp in partitions:
        numbers.setdefault(tp.topic, []).append(tp.partition)
    if numbers:
        choose_partitions(cluster, standings, numbers)


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_time: str | None,
    by_duration: str | None,
    from_file: str | None,
    from_offsets: OffsetFile | None,
    group: str,
) -> Target:
    given: list[Target] = []
    if to_earliest:
        given.append(ToEarliest())
    if to_latest:
        given.append(ToLatest())
    if to_offset is not None:
        given.append(ToOffset(to_offset))
    if shift_by is not None:
        given.append(ShiftBy(shift_by))
    if to_time is not None:
        given.append(ToTime(parse_time_ms(to_time)))
    if by_duration is not None:
        given.append(ToTime(max(0, SystemClock().wall_ms() - 1000 * parse_duration_s(by_duration))))
    if from_offsets is not None:
        given.append(ToGiven(from_offsets.of_group(group)))
    if len(given) != 1:
        raise click.UsageError(
            "Say where to, once: --to-earliest, --to-latest, --to-offset N, --shift-by N, --to-time TIME, "
            "--by-duration DURATION or --from-file FILE."
        )
    [target] = given
    if isinstance(target, ToGiven) and not target.offsets:
        raise click.ClickException(f"{from_file} holds no offsets of group {group}")
    return target
