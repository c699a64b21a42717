"""`legacy-consumer doctor`."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import chain

import click

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.config.properties import BY_NAME, Kind
from legacy_consumer.config.sources import gather
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka import LibrdkafkaLogOffsets, open_log_offsets
from legacy_consumer.operations.admin.doctor_cluster import (
    examine_brokers,
    examine_config,
    examine_topics,
    examine_zookeeper,
)
from legacy_consumer.operations.admin.doctor_groups import examine_groups
from legacy_consumer.operations.admin.findings import Finding, Severity, as_far_as_it_comes, permitted, sort_findings
from legacy_consumer.operations.admin.log_times import BrokerLogTimes
from legacy_consumer.operations.cli.helpers.group_tables import BAD, GOOD, ODD, count
from legacy_consumer.operations.cli.helpers.lasting_output import outlasts_reader
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.tables import say
from legacy_consumer.operations.cli.helpers.times import parse_duration_s
from rebalance.clock import SystemClock
from zk_layout.errors import NotPermittedError
from zk_layout.store import ZkStore

_FIELDS = ("severity", "code", "subject", "text", "advice", "commands")
_SECRET = re.compile("password|secret|digest|jaas|key|token|credential", re.IGNORECASE)
"""A property with one of these words in its name counts as a secret, if this project does not know the property.

librdkafka and a user's assignor have properties that this project does not know.
"""
_STYLES = {Severity.ERROR: BAD, Severity.WARNING: ODD, Severity.NOTE: ""}


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer doctor --zookeeper localhost:2181/kafka
  legacy-consumer doctor --config consumer.properties --json
"""
)
@cluster_options
@output_options
@click.option(
    "--stale-after",
    metavar="DURATION",
    default="30d",
    show_default=True,
    help="A group without members counts as stale after this time.",
)
@click.pass_context
@outlasts_reader()
def doctor(ctx: click.Context, output: Output, cluster: ClusterOptions, stale_after: str) -> None:
    """Examine the configuration, ZooKeeper, the brokers and every group; report faults, each with a remedy.

    Looks for: servers that cannot be reached, listeners and versions that do not fit, settings that contradict each
    other, topics without leaders, members of foreign clients, partitions without owner, offsets outside the log,
    unreadable znodes, groups that have no members or make no progress while messages wait, and unused groups. Changes
    nothing.

    With the --config of a consumer it checks all settings of that consumer. Commands follow a suggestion: they show
    their effect, and carry it out with --execute. The exit code is 1 if there is an error, for example a group without
    members that has messages waiting; it is 0 if there are only warnings and notes.
    """
    stale_after_ms = 1000 * parse_duration_s(stale_after)
    config = _load(cluster)
    looked: Counter[str] = Counter()
    found = list(examine_zookeeper(config))
    with open_store(config) as store, closing(open_log_offsets(config, store)) as log_offsets:
        found += as_far_as_it_comes(
            chain(
                examine_config(config, store.session_timeout_ms),
                permitted(examine_brokers(store, config, looked)),
                permitted(examine_topics(store, looked)),
                permitted(_examine_groups(store, log_offsets, stale_after_ms, looked)),
            )
        )
    found = sort_findings(found)
    commands = [[_command(cluster, words) for words in finding.commands if words] for finding in found]
    records = [
        {**asdict(finding), "severity": finding.severity.value, "commands": typed}
        for finding, typed in zip(found, commands, strict=True)
    ]
    if output is Output.JSON:
        print_json(records)
    elif output is Output.CSV:
        print_csv(
            _FIELDS, [{**record, "commands": "; ".join(typed)} for record, typed in zip(records, commands, strict=True)]
        )
    else:
        _show(found, commands)
    seen = ", ".join(count(looked[what], what) for what in ("broker", "topic", "group", "partition"))
    click.echo(f"Looked at {seen}.", err=output is not Output.TABLE)
    ctx.exit(1 if any(finding.severity is Severity.ERROR for finding in found) else 0)


def _examine_groups(
    store: ZkStore, log_offsets: LibrdkafkaLogOffsets, stale_after_ms: int, looked: Counter[str]
) -> Iterator[Finding]:
    try:
        times = BrokerLogTimes(log_offsets, read_brokers(store))
    except NotPermittedError:  # the examination of the brokers reports it
        times = None
    now_ms = SystemClock().wall_ms()
    yield from examine_groups(
        store, log_offsets, now_ms=now_ms, stale_after_ms=stale_after_ms, times=times, looked=looked
    )


def _load(cluster: ClusterOptions) -> ClusterConfig:
    """Return a consumer's settings if they name a group, otherwise a cluster's. Raises: ConfigError."""
    config = load_cluster_config(cluster)
    if gather(cluster.config_file, cluster.overrides(), {}).given.get("group.id"):
        return ConsumerConfig.load(cluster.config_file, cluster.overrides())
    return config


def _command(cluster: ClusterOptions, words: Sequence[str]) -> str:
    """Return a command for a shell with the options of this command; values of secrets are replaced by "..."."""
    options = [] if cluster.zookeeper is None else ["--zookeeper", cluster.zookeeper]
    options += [] if cluster.config_file is None else ["--config", str(cluster.config_file)]
    for key, value in cluster.properties:
        options += ["--property", f"{key}={'...' if _is_secret(key) else value}"]
    end = words.index("--") if "--" in words else len(words)
    return shlex.join(["legacy-consumer", *words[:end], *options, *words[end:]])


def _is_secret(key: str) -> bool:
    known = BY_NAME.get(key)
    return _SECRET.search(key) is not None if known is None else known.kind is Kind.SECRET


def _show(found: Sequence[Finding], commands: Sequence[Sequence[str]]) -> None:
    for finding, typed in zip(found, commands, strict=True):
        say(f"{finding.severity.value}: {finding.text}", _STYLES[finding.severity])
        say(f"    -> {finding.advice}")
        for command in typed:
            # a command that a shell cannot take as printed is not shown
            if command.isprintable():
                say(f"       $ {command}")
    counts = {severity: sum(finding.severity is severity for finding in found) for severity in Severity}
    if found:
        click.echo()
        say(", ".join(count(many, severity.value) for severity, many in counts.items()), "bold")
    else:
        say("Nothing is wrong.", GOOD)
