"""`legacy-consumer consume`: joins a group and prints its messages, like Kafka's console consumer."""

from __future__ import annotations

import codecs
import dataclasses
import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import click

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.config.sources import gather
from legacy_consumer.errors import BrokersUnavailableError, NoSuchTopicError
from legacy_consumer.fetching.fetchers import make_fetchers
from legacy_consumer.member.connector import ConsumerConnector
from legacy_consumer.member.kafka_stream import KafkaStream
from legacy_consumer.metrics import serve
from legacy_consumer.offsets.topic_partitions import TopicsOnce, is_topic_name
from legacy_consumer.operations.admin.deletion import delete_group, delete_tree
from legacy_consumer.operations.admin.offsets_in_kafka import read_offsets_in_kafka
from legacy_consumer.operations.admin.pruning import read_use, refuse_removal
from legacy_consumer.operations.cli.console_consumer import Printer, consume_to
from legacy_consumer.operations.cli.helpers.ending import Ending
from legacy_consumer.operations.cli.helpers.logs import name_member
from legacy_consumer.operations.cli.helpers.message_lines import FORMATS, lines_in
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    missing_zookeeper_is_misuse,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import require_output
from legacy_consumer.operations.cli.helpers.times import FiniteRange
from legacy_consumer.sandbox.nodes.awaiting import await_cluster
from rebalance.subscription import Blacklist, TopicFilter, Whitelist
from zk_layout.codecs import MOST_STREAMS
from zk_layout.errors import ConfigError, LegacyConsumerError, NoNodeError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import BrokerIdsPath, GroupPath, OffsetsPath, TopicPath, TopicsPath, broker_ids
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_LONGEST_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The topics to consume: one by name, or all that a filter allows."""

    topic: str | None
    topic_filter: TopicFilter | None
    streams: int

    def subscribe(self, connector: ConsumerConnector) -> list[KafkaStream]:
        if self.topic_filter is not None:
            return connector.create_message_streams_by_filter(self.topic_filter, self.streams)
        assert self.topic is not None
        return connector.create_message_streams({self.topic: self.streams})[self.topic]


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer consume --zookeeper localhost:2181 --group billing --topic orders
  legacy-consumer consume --zookeeper localhost:2181 --whitelist 'orders.*' --from-beginning --format json
"""
)
@cluster_options
@click.option("--topic", metavar="TOPIC", help="The topic to consume.")
@click.option("--whitelist", metavar="REGEX", help="Instead: all topics whose whole name matches, now and later.")
@click.option("--blacklist", metavar="REGEX", help="Instead: all topics whose whole name does not match.")
@click.option("--group", metavar="GROUP", help="The group to join: the property group.id.")
@click.option("--from-beginning", is_flag=True, help="Without a committed offset begin with the oldest message.")
@click.option(
    "--delete-consumer-offsets",
    is_flag=True,
    help="Delete the group's znodes in ZooKeeper before joining it; refused with offsets.storage=kafka, and while a "
    "migration of the group is open.",
)
@click.option("--max-messages", metavar="N", type=click.IntRange(min=1), help="End after this number of messages.")
@click.option(
    "--timeout-ms", metavar="N", type=click.IntRange(1, _LONGEST_MS), help="End when no message came for this time."
)
@click.option(
    "--streams",
    metavar="N",
    type=click.IntRange(1, MOST_STREAMS),
    default=1,
    show_default=True,
    help="The number of streams.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    default="value",
    show_default=True,
    help="The parts of each message to print, on a line of its own.",
)
@click.option(
    "--key-separator",
    metavar="TEXT",
    default="\\t",
    show_default=True,
    help="The text between key and value; escapes such as \\t are allowed.",
)
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=FiniteRange(min=0),
    default=0.0,
    help="Wait at most this long for ZooKeeper, a broker and the topic, for example if all start together.",
)
@click.option(
    "--metrics-port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    help="Serve /metrics, /healthz and /readyz of this member at this port; 0 for any free port, which is printed.",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address at which to serve them.")
@click.pass_context
def consume(
    ctx: click.Context,
    cluster: ClusterOptions,
    topic: str | None,
    whitelist: str | None,
    blacklist: str | None,
    group: str | None,
    from_beginning: bool,
    delete_consumer_offsets: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    streams: int,
    format_name: str,
    key_separator: str,
    wait_s: float,
    metrics_port: int | None,
    metrics_host: str,
) -> None:
    """Join a group and print its messages, until Ctrl-C or SIGTERM, or until the terminal is closed.

    Without --group, and without group.id in the configuration, the group is console-consumer-<number>, and its znodes
    in ZooKeeper are deleted at the end.

    Whatever delivery.rule says, the command commits only the offsets of messages that it has written to standard output
    and flushed, so another member, or the next run, begins with the first message that was not printed. With
    auto.commit.enable=false it commits nothing. For a partition of which a run printed no message, it commits where the
    run began to read: without --from-beginning and an earlier offset that is the end of the log at that time.

    Formats: value and key-value print the bytes unchanged, and null for a missing key or value. json prints an object
    with topic, partition, offset, timestamp (ms), key and value; a key or value that is not UTF-8 is printed in base64
    as key_base64 or value_base64. none prints nothing, for counting.

    The exit code is 0 after SIGTERM, --max-messages, --timeout-ms and when the reader closes the output; it is 130
    after Ctrl-C. A reader that stops reading does not block the command's end: after drain.timeout.ms it drops the
    batch that it is writing, and does not commit it.
    """
    wanted = _wanted(topic, whitelist, blacklist, streams)
    lines = lines_in(format_name, _separator(key_separator))
    output = require_output()
    config, own_group = _load_config(cluster, group, from_beginning=from_beginning)
    with Ending() as ending:
        if wait_s:
            await_cluster(config, wait_s, brokers=1, topic=topic, tell=functools.partial(click.echo, err=True))
        with open_store(config) as store:
            config = _unused_group(store, config) if own_group else config
            _check(store, config, wanted, from_beginning=from_beginning, delete_offsets=delete_consumer_offsets)
        printer = Printer(lines, output.buffer)
        try:
            with ConsumerConnector(config) as connector:
                name_member(connector)
                if metrics_port is not None:
                    click.echo(f"serving {serve(connector, metrics_port, host=metrics_host).url}", err=True)
                if delete_consumer_offsets:
                    # last: if the port is taken, or a setting is wrong, the command must have deleted nothing
                    with open_store(config) as store:
                        _check_access(store, connector)
                        use = read_use(store, [config.group_id])
                        refuse_removal(use, None)
                        for one in use:
                            delete_tree(store, one.tree)
                joined = wanted.subscribe(connector)
                ending.wait_for_end(config.drain_timeout_ms / 1000)
                if timeout_ms is None and config.consumer_timeout_ms >= 0:
                    timeout_ms = config.consumer_timeout_ms
                consume_to(connector, joined, printer, ending, max_messages=max_messages, timeout_ms=timeout_ms)
        finally:
            try:
                click.echo(f"Processed a total of {printer.printed} messages", err=True)
            finally:
                # also if standard error is closed, as after `2>&1 | head`
                if own_group:
                    _delete_own(config)
    ctx.exit(ending.exit_code)


def _wanted(topic: str | None, whitelist: str | None, blacklist: str | None, streams: int) -> _Wanted:
    if sum(choice is not None for choice in (topic, whitelist, blacklist)) != 1:
        raise click.UsageError("Give exactly one of --topic, --whitelist and --blacklist.")
    if whitelist is not None:
        return _Wanted(None, Whitelist(whitelist), streams)
    if blacklist is not None:
        return _Wanted(None, Blacklist(blacklist), streams)
    return _Wanted(topic, None, streams)


def _separator(text: str) -> bytes:
    r"""Return the bytes of a text with escapes: \t, \n, \x00 and the like stand for bytes that are hard to type."""
    try:
        return codecs.escape_decode(text.encode("utf-8", "surrogateescape"))[0]
    except ValueError as error:
        raise click.UsageError(f"--key-separator {text!r}: {error}") from error


def _load_config(cluster: ClusterOptions, group: str | None, *, from_beginning: bool) -> tuple[ConsumerConfig, bool]:
    """Return the configuration, and whether this command made up the group's name."""
    overrides = cluster.overrides()
    given = gather(cluster.config_file, overrides, {}).given
    own_group = group is None and not given.get("group.id")
    if own_group:
        overrides["group.id"] = _group_name()
    elif group is not None:
        overrides["group.id"] = group
    if from_beginning:
        reset = given.get("auto.offset.reset", "smallest")
        if reset != "smallest":
            raise click.UsageError(f"--from-beginning contradicts auto.offset.reset={reset}: remove one of them.")
        overrides["auto.offset.reset"] = "smallest"
    with missing_zookeeper_is_misuse():
        config = ConsumerConfig.load(cluster.config_file, overrides)
    if config.topics_by_hand:
        what = "no member of this command knows where these topics go on: leave it out, and choose a --group of its own"
        raise ConfigError("offsets.by.hand", config.offsets_by_hand, what)
    # with another rule it would commit messages that it has not written, or none
    return dataclasses.replace(config, delivery_rule="at_least_once"), own_group


def _group_name() -> str:
    return f"console-consumer-{random.randrange(100_000)}"  # noqa: S311  (as Kafka's tool names it; no secret)


def _unused_group(store: ZkStore, config: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration with an unused group, because the command deletes its group at the end."""
    name = config.group_id
    while store.exists(GroupPath(name).path) is not None:
        name = _group_name()
    return dataclasses.replace(config, group_id=name)


def _delete_own(config: ConsumerConfig) -> None:
    """Delete the group whose name this command made up. Raises: click.ClickException that names the group."""
    try:
        with open_store(config) as store:
            delete_group(store, config.group_id)
    except (LegacyConsumerError, click.ClickException) as error:
        reason = error.message if isinstance(error, click.ClickException) else error
        raise click.ClickException(f"group {config.group_id} stays in ZooKeeper: {reason}") from error


def _check(
    store: ZkStore, config: ConsumerConfig, wanted: _Wanted, *, from_beginning: bool, delete_offsets: bool
) -> None:
    """Refuse to join where the options cannot have their effect. Raises: LegacyConsumerError, ClickException."""
    if not broker_ids(_children(store, BrokerIdsPath().path)):
        raise BrokersUnavailableError(
            "no broker is registered in ZooKeeper: start one, or check the chroot of zookeeper.connect"
        )
    topics = _check_topics(store, config, wanted)
    is_in_kafka = config.offsets_storage == "kafka"
    if delete_offsets and is_in_kafka:
        raise click.ClickException(
            "--delete-consumer-offsets deletes znodes, and with offsets.storage=kafka the offsets of group "
            f"{config.group_id} are in Kafka: choose another --group"
        )
    if delete_offsets:
        return
    if from_beginning and _children(store, OffsetsPath(config.group_id).path):
        raise click.ClickException(
            f"group {config.group_id} has committed offsets and would go on from there: "
            "add --delete-consumer-offsets to delete them, choose another --group, or drop --from-beginning"
        )
    if from_beginning and is_in_kafka and _offsets_in_kafka(store, config, topics):
        raise click.ClickException(
            f"group {config.group_id} has committed offsets in Kafka and would go on from there: "
            "choose another --group, or drop --from-beginning"
        )


def _check_topics(store: ZkStore, config: ConsumerConfig, wanted: _Wanted) -> list[str]:
    """Return the existing topics that are wanted. Raises: NoSuchTopicError."""
    if wanted.topic is not None:
        if not is_topic_name(wanted.topic) or store.exists(TopicPath(wanted.topic).path) is None:
            raise NoSuchTopicError(wanted.topic)
        return [wanted.topic]
    assert wanted.topic_filter is not None
    passes = functools.partial(wanted.topic_filter.allows, exclude_internal_topics=config.exclude_internal_topics)
    topics = [topic for topic in _children(store, TopicsPath().path) if passes(topic)]
    if not topics:
        logger.warning("no topic passes %s; waiting for one", wanted.topic_filter.raw)
    return topics


def _check_access(store: ZkStore, connector: ConsumerConnector) -> None:
    """Check whether the brokers accept the connector. Raises: MissingListenerError, BrokerRefusedError."""
    assert connector.fetcher_choice is not None
    fetchers = make_fetchers(connector.config, store, connector.fetcher_choice)
    try:
        fetchers.check_access()
    finally:
        fetchers.close()


def _offsets_in_kafka(store: ZkStore, config: ConsumerConfig, topics: Sequence[str]) -> dict[TopicPartition, int]:
    """Return the group's offsets of these topics. Raises: BrokersUnavailableError, MissingListenerError."""
    from legacy_consumer.fetching.librdkafka import open_group_offsets  # only if needed: it takes 30 ms and 8 MB

    lives = TopicsOnce(store).lives(topics)
    partitions = [TopicPartition(topic, number) for topic, life in lives.items() for number in life.partitions]
    return read_offsets_in_kafka(store, lambda: open_group_offsets(config, store), partitions)


def _children(store: ZkStore, path: str) -> tuple[str, ...]:
    try:
        return store.get_children(path)
    except NoNodeError:
        return ()
