"""`legacy-consumer groups describe`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeAlias

import click
from rich.console import RenderableType

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError, MissingListenerError, NoSuchTopicError
from legacy_consumer.fetching.fetcher import LogOffsets
from legacy_consumer.fetching.fetchers import choose_fetcher
from legacy_consumer.fetching.librdkafka import open_group_offsets, open_log_offsets
from legacy_consumer.offsets.topic_partitions import TopicsOnce, list_topic_names
from legacy_consumer.operations.admin.groups import GroupDescription, Hold, describe_groups
from legacy_consumer.operations.admin.lag_verdict import Kind, Verdict
from legacy_consumer.operations.admin.lag_watch import GroupWatch, judge_whole
from legacy_consumer.operations.admin.offsets_in_kafka import read_offsets_in_kafka, seen_from_kafka
from legacy_consumer.operations.cli.helpers.group_documents import PARTITION_FIELDS, group_document, partition_records
from legacy_consumer.operations.cli.helpers.group_names import check_wanted, refuse_missing, say_if_none, wanted_groups
from legacy_consumer.operations.cli.helpers.group_tables import ODD, Line, group_parts
from legacy_consumer.operations.cli.helpers.kafka_formats import KAFKA_FORMATS, kafka_lines
from legacy_consumer.operations.cli.helpers.lasting_output import outlasts_reader
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.showing import drawn, print_parts
from legacy_consumer.operations.cli.helpers.tables import say, say_error
from legacy_consumer.operations.cli.helpers.watching import interval_option, watch
from legacy_consumer.operations.cli.kafka_offsets import config_of_member
from rebalance.clock import SystemClock
from zk_layout.model import TopicPartition
from zk_layout.paths import OwnersPath
from zk_layout.store import ZkStore


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer groups describe billing --zookeeper localhost:2181/kafka
  legacy-consumer groups describe --all-groups --watch --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@click.argument("groups", metavar="GROUP...", nargs=-1)
@click.option("--all-groups", is_flag=True, help="All groups, instead of GROUP.")
@click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="Only this topic; may be repeated.")
@interval_option
@click.option(
    "--check",
    is_flag=True,
    help="Exit code 1 unless every group is healthy: verdicts ok, members readable, members and owners "
    "ephemeral, and no request for a reset without a running command.",
)
@click.option(
    "--kafka-format",
    type=click.Choice(KAFKA_FORMATS),
    help="The columns of Kafka's own tool of that version, for scripts; checker is ConsumerOffsetChecker.",
)
@click.pass_context
@outlasts_reader("check")
def describe(
    ctx: click.Context,
    output: Output,
    cluster: ClusterOptions,
    groups: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    is_watched: bool,
    interval: float,
    check: bool,
    kafka_format: str | None,
) -> None:
    """Show members, owners, offsets and lag.

    LAG is the log's end minus the committed offset; if it is negative, the offset lies beyond the log. An offset that
    was committed for an earlier topic of the same name counts as none: the lag is the whole log. AGE is the time since
    the commit, HELD the time since the owner claimed the partition, JOINED the time since the member registered.
    BROKERS is the number of brokers that lead the member's partitions, to which it must connect. A dash means that a
    value does not exist or is not known.

    VERDICT is one of: ok, warning (the lag does not fall), stall (the partition has an owner, but the offset does not
    move), stop (messages wait, and no member owns the partition), rewind (an offset went back), error (the offset is
    impossible), unknown (no broker reports the end of the log, or the owner has committed nothing yet although the log
    holds messages). One measurement shows little; with --watch the verdict covers the last ten minutes, and the reason
    follows the table.

    The exit code is 1 if a group or one of its topics cannot be read; the rest is shown.

    CLIENT is the client that probably wrote a member's registration; most versions of Kafka, and legacy-consumer, write
    the same. Below the tables the command prints the strategy that the owners imply, the settings of the group that
    cannot work, and the fetcher of a member that has the settings of this command.

    With --watch --json each measurement is one line. --kafka-format shows the same as Kafka's tools: the offset in
    Kafka if the group has one there (offsets.storage=kafka), otherwise the one in ZooKeeper. Everything else in the
    output is about ZooKeeper.
    """
    check_wanted(groups, all_groups=all_groups)
    if kafka_format is not None and output is not Output.TABLE:
        raise click.UsageError("--kafka-format is a format of its own: leave out --format and --json.")
    if check and is_watched:
        raise click.UsageError("--check is about one look: leave out --watch.")
    if is_watched and output is Output.CSV:
        raise click.UsageError("--watch prints tables or JSON, one object for each look.")
    config = load_cluster_config(cluster)
    with open_store(config) as store, closing(open_log_offsets(config, store)) as log_offsets:
        look = _Look(store, log_offsets, groups, all_groups=all_groups, topics=frozenset(topics))
        fetches_with = str(choose_fetcher(_member_config(cluster)))
        in_kafka = _OffsetsInKafka(cluster, store)
        printer = _Printer(
            look, output, kafka_format, fetches_with, in_kafka, one=len(groups) == 1, in_a_row=is_watched
        )
        if not is_watched:
            printed = printer.print()
            ctx.exit(1 if any(_is_lacking(one) or (check and not _is_well(one, v)) for one, v in printed) else 0)
        title = ", ".join(groups) if groups else "All groups"
        draw = printer.draw if output is Output.TABLE and kafka_format is None else None
        ctx.exit(watch(draw, printer.print, title=title, interval_s=interval))


def _is_lacking(found: GroupDescription) -> bool:
    return found.problem is not None or bool(found.topic_problems)


def _is_well(found: GroupDescription, verdicts: Mapping[TopicPartition, Verdict]) -> bool:
    has_bad_request = found.reset is not None and not found.reset.is_running
    stays = not all(member.session_id for member in found.members)
    stays |= any(row.hold is Hold.PERMANENT for row in found.partitions)
    if found.unreadable or has_bad_request or stays:
        return False
    return judge_whole(found, verdicts).kind is Kind.OK


_Described: TypeAlias = tuple[GroupDescription, Mapping[TopicPartition, Verdict]]


@dataclass(slots=True)
class _Look:
    """Describes the groups repeatedly, and judges each partition from all descriptions so far."""

    store: ZkStore
    log_offsets: LogOffsets
    groups: Sequence[str]
    all_groups: bool = field(kw_only=True)
    topics: frozenset[str] = field(kw_only=True)
    _watches: dict[str, GroupWatch] = field(default_factory=dict)

    def take(self) -> list[_Described]:
        """Describe the groups once.

        Raises: NoSuchGroupError; NoSuchTopicError for a topic that neither the cluster nor one of the groups has.
        """
        names = wanted_groups(self.store, self.groups, all_groups=self.all_groups)
        wanted = self.topics.__contains__ if self.topics else None
        found = describe_groups(self.store, self.log_offsets, names, topics=wanted)
        refuse_missing(self.groups, (one.group for one in found))
        unknown = self.topics - {row.topic for one in found for row in one.partitions}
        missing = sorted(unknown - set(list_topic_names(self.store) if unknown else ()))
        if missing:
            raise NoSuchTopicError(missing[0])
        seen_at_ms = int(SystemClock().monotonic() * 1000)
        self._watches = {name: self._watches.get(name) or GroupWatch() for name in names}
        return [(one, self._watches[one.group].judge(one, seen_at_ms)) for one in found]

    def owned_topics(self, groups: Sequence[str]) -> dict[str, set[str]]:
        """Return {group: the existing topics with a directory under its owners}."""
        children = self.store.get_children_many([OwnersPath(group).path for group in groups])
        lives = TopicsOnce(self.store).lives({topic for names in children for topic in names or ()})
        return {group: set(names or ()) & lives.keys() for group, names in zip(groups, children, strict=True)}


@dataclass(slots=True)
class _OffsetsInKafka:
    """Asks each group's coordinator. Once one does not answer, the rest of this look uses the offsets in ZooKeeper."""

    cluster: ClusterOptions
    store: ZkStore
    _silence: str = ""
    _told: str = ""

    def begin_look(self) -> None:
        """Begin a look: ask coordinators again. A warning that the last look gave is not repeated."""
        self._told, self._silence = self._silence, ""

    def read(self, found: GroupDescription, topics: Collection[str]) -> dict[TopicPartition, int]:
        wanted = [TopicPartition(row.topic, row.partition) for row in found.partitions if row.topic in topics]
        if self._silence:
            return {}
        config = config_of_member(self.cluster, found.group)
        if config is None:
            return {}
        try:
            return read_offsets_in_kafka(self.store, lambda: open_group_offsets(config, self.store), wanted)
        except (BrokersUnavailableError, MissingListenerError) as error:
            self._silence = str(error)
            if self._silence != self._told:
                say_error(f"Warning: offsets are those in ZooKeeper, Kafka does not tell its own: {error}")
            return {}


@dataclass(slots=True)
class _Printer:
    look: _Look
    output: Output
    kafka_format: str | None
    fetches_with: str
    in_kafka: _OffsetsInKafka
    one: bool = field(kw_only=True)
    in_a_row: bool = field(kw_only=True)
    _warned: str | None = None

    def print(self) -> list[_Described]:
        found = self.look.take()
        match self.output:
            case Output.JSON:
                documents = [
                    {**group_document(one, verdicts), "fetches_with": self.fetches_with} for one, verdicts in found
                ]
                document = documents[0] if self.one else documents
                print_json(document, on_one_line=self.in_a_row)
            case Output.CSV:
                print_csv(
                    PARTITION_FIELDS, [row for one, verdicts in found for row in partition_records(one, verdicts)]
                )
                _say_left_out([one for one, _ in found])
            case Output.TABLE:
                if self.kafka_format is not None:
                    self._print_as_kafka([one for one, _ in found])
                else:
                    self._print_tables(found)
        say_if_none(found)
        self._warn(found)
        return found

    def draw(self) -> list[RenderableType]:
        found = self.look.take()
        warning = _warning(found)
        above = [Line(warning, ODD), Line("")] if warning else []
        return drawn([*above, *(part for one in found for part in [*group_parts(*one), Line("")])])

    def _print_tables(self, found: Sequence[_Described]) -> None:
        for number, one in enumerate(found):
            if number or (self.in_a_row and self._warned is not None):
                click.echo()
            print_parts(group_parts(*one))
        if not found:
            return
        say(f"a member with the settings of this command would fetch with {self.fetches_with}", "dim")

    def _print_as_kafka(self, found: Sequence[GroupDescription]) -> None:
        assert self.kafka_format is not None
        _say_left_out(found)
        readable = [one for one in found if one.problem is None]
        owned = self.look.owned_topics([one.group for one in readable])
        self.in_kafka.begin_look()
        for one in readable:
            seen = seen_from_kafka(one, self.in_kafka.read(one, owned[one.group]))
            for line in kafka_lines(self.kafka_format, seen, owned[one.group]):
                say(line)

    def _warn(self, found: Sequence[_Described]) -> None:
        warning = _warning(found)
        if warning and warning != self._warned:
            say_error(warning)
        self._warned = warning


def _warning(found: Sequence[_Described]) -> str:
    """Return why no lag is known; empty if some lags may be known."""
    reason = next((one.no_log_ends for one, _ in found if one.no_log_ends), "")
    return f"Warning: log ends and lag are not known: {reason}" if reason else ""


def _say_left_out(found: Sequence[GroupDescription]) -> None:
    """Name on standard error the groups and topics that the output leaves out."""
    for one in found:
        if one.problem is not None:
            say_error(f"Group {one.group} cannot be shown: {one.problem}")
    for problem in dict.fromkeys(problem for one in found for problem in one.topic_problems):
        say_error(f"Topic left out: {problem}")


def _member_config(cluster: ClusterOptions) -> ConsumerConfig:
    """Return the configuration of a member with these settings, in any group."""
    return ConsumerConfig.load(cluster.config_file, {"group.id": "any", **cluster.overrides()})
