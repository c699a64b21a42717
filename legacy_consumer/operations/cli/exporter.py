"""`legacy-consumer exporter`: all groups of a cluster for Prometheus."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import click

from legacy_consumer.fetching.librdkafka import open_log_offsets
from legacy_consumer.metrics import MetricsServer
from legacy_consumer.operations.admin.lag_verdict import DEFAULT, Judging
from legacy_consumer.operations.cli.helpers.ending import Ending
from legacy_consumer.operations.cli.helpers.options import ClusterOptions, cluster_options, load_cluster_config
from legacy_consumer.operations.cli.helpers.times import FiniteRange
from legacy_consumer.operations.metrics.exporter import (
    ClusterJudge,
    ClusterReader,
    CountedReads,
    CountingKazooStore,
    Exporter,
    ExporterSettings,
    Selection,
)
from rebalance.bounded_regex import BoundedPattern
from rebalance.errors import UnsupportedRegexError
from rebalance.java_regex import compile_java_regex

PORT = 9308
_LOOK_S = 0.2
_ENDS_WITHIN_S = 20.0
_LEAVE_WITHIN_S = 2.0
_SWITCH_S = 0.0005


def _regex(_ctx: click.Context, _param: click.Parameter, text: str | None) -> BoundedPattern | None:
    """Compile the option as a topic filter: any client may name a group so that Python's own matching never ends."""
    try:
        return None if text is None else compile_java_regex(text)
    except UnsupportedRegexError as error:
        raise click.BadParameter(f"{text!r} is no regular expression of a topic filter: {error.reason}") from error


@click.command(
    epilog="""

\b
Example:
  legacy-consumer exporter --zookeeper localhost:2181/kafka --port 9308
"""
)
@cluster_options
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen at; 0.0.0.0 for all interfaces."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="The port to listen at; 0 for any free one, which is printed.",
)
@click.option(
    "--interval",
    metavar="SECONDS",
    type=FiniteRange(min=1),
    default=30.0,
    show_default=True,
    help="The time between two readings of the cluster. A scrape returns the last reading.",
)
@click.option(
    "--groups",
    metavar="REGEX",
    callback=_regex,
    help="Only groups whose whole name matches, written as a topic filter (Java).",
)
@click.option("--exclude", metavar="REGEX", callback=_regex, help="Leave out groups whose whole name matches.")
@click.option(
    "--idle-every",
    metavar="N",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Read groups without members at every N-th refresh only.",
)
@click.option(
    "--reads-per-second",
    metavar="N",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="The most znodes to read a second, on average over a refresh.",
)
@click.option("--no-partitions", is_flag=True, help="Serve metrics of groups only, not of single partitions.")
@click.option(
    "--patience",
    metavar="SECONDS",
    type=click.IntRange(min=1),
    default=DEFAULT.patience_ms // 1000,
    show_default=True,
    help="The time for which an offset may stay unchanged while messages wait; must be longer than the members' "
    "auto.commit.interval.ms.",
)
@click.pass_context
def exporter(
    ctx: click.Context,
    cluster: ClusterOptions,
    host: str,
    port: int,
    interval: float,
    groups: BoundedPattern | None,
    exclude: BoundedPattern | None,
    idle_every: int,
    reads_per_second: int,
    no_partitions: bool,
    patience: int,
) -> None:
    """Serve lag and verdict of all groups to Prometheus, until Ctrl-C or SIGTERM.

    /metrics answers from memory, even if ZooKeeper or the brokers do not answer: legacy_consumer_exporter_up and
    _data_age_seconds show that. /healthz and /readyz are for health checks. docs/metrics.md lists the metrics; a
    Grafana dashboard and alert rules are in deploy/observe.

    The exit code is 0 after SIGTERM and 130 after Ctrl-C.
    """
    config = load_cluster_config(cluster)
    reads = CountedReads()
    store = CountingKazooStore(config.zk_settings(), reads)
    judging = Judging(patience_ms=patience * 1000, span_ms=max(DEFAULT.span_ms, 3 * patience * 1000))
    # a refresh of a big cluster computes for seconds: a scrape must not wait 5 ms for each part of its answer
    sys.setswitchinterval(_SWITCH_S)
    log_offsets = open_log_offsets(config, store, timeout_s=_ENDS_WITHIN_S)
    serving = Exporter(
        store,
        log_offsets,
        reads,
        reader=ClusterReader(Selection(_wanted(groups, exclude), idle_every)),
        judge=ClusterJudge(judging),
        settings=ExporterSettings(interval, reads_per_second, with_partitions=not no_partitions),
    )
    with Ending() as ending, MetricsServer(serving.pages(), port=port, host=host) as server:
        click.echo(f"serving {server.url}", err=True)
        ending.wait_for_end()
        serving.start()
        while not ending.requested and serving.failure is None:
            threading.Event().wait(_LOOK_S)
        has_ended = serving.close(_LOOK_S)
        store.close()  # which ends a read of ZooKeeper that is under way
        if has_ended or serving.close(_LEAVE_WITHIN_S):
            log_offsets.close()
        # otherwise brokers do not answer, and close() would wait for them: the process ends without it
    if serving.failure is not None:
        raise serving.failure
    ctx.exit(ending.exit_code)


def _wanted(groups: BoundedPattern | None, exclude: BoundedPattern | None) -> Callable[[str], bool]:
    def is_wanted(group: str) -> bool:
        if groups is not None and not groups.match(group):
            return False
        return exclude is None or not exclude.match(group)

    return is_wanted
