"""`legacy-consumer node`: runs one server of a real cluster in the foreground, for a container."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from legacy_consumer.embedded import KAFKA_VERSIONS
from legacy_consumer.operations.cli.helpers.options import ClusterOptions, cluster_options, load_cluster_config
from legacy_consumer.operations.cli.helpers.times import FiniteRange
from legacy_consumer.sandbox.nodes import KafkaNode, ZooKeeperNode, await_cluster, ensure_topic, produce_flights
from zk_layout.signals import Flag

wait_option = click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=FiniteRange(min=0),
    default=60.0,
    show_default=True,
    help="The longest wait for ZooKeeper, brokers and topics that must exist first.",
)
data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for data and configuration, kept over restarts.",
)


@click.group()
def node() -> None:
    """Run one server of a real cluster, as in a container, or prepare a cluster."""


@node.command(
    epilog="""

\b
Example:
  legacy-consumer node zookeeper --id 1 --servers zk1,zk2,zk3 --data /data
"""
)
@click.option("--id", "server_id", type=click.IntRange(1, 255), default=1, show_default=True, help="Its place.")
@click.option(
    "--servers",
    metavar="HOST[:PORT:PORT],...",
    default="localhost",
    show_default=True,
    help="All servers of the ensemble, in the same order everywhere.",
)
@click.option("--client-port", type=click.IntRange(1, 65_535), default=2181, show_default=True, help="For clients.")
@click.option("--heap", default="256m", show_default=True, help="Java's -Xmx.")
@click.option("--set", "lines", metavar="KEY=VALUE", multiple=True, help="A line of zoo.cfg; may be repeated.")
@data_option
def zookeeper(server_id: int, servers: str, client_port: int, heap: str, lines: Sequence[str], data: Path) -> None:
    """Run a ZooKeeper 3.9 server until SIGTERM. Needs Java 17."""
    names = [name.strip() for name in servers.split(",") if name.strip()]
    _become(ZooKeeperNode(server_id, names, data, client_port, heap, _pairs(lines)).prepare())


@node.command(
    epilog="""

\b
Example:
  legacy-consumer node kafka --id 1 --zookeeper zk1:2181 --advertised kafka1:9092 --data /data
"""
)
@cluster_options
@click.option("--id", "broker_id", type=click.IntRange(0, 2**31 - 1), required=True, help="The broker's id.")
@click.option(
    "--advertised",
    metavar="HOST:PORT",
    required=True,
    help="The address at which clients and brokers reach this broker.",
)
@click.option("--kafka", "version", type=click.Choice(KAFKA_VERSIONS), default="1.1.1", show_default=True)
@click.option("--heap", default="384m", show_default=True, help="Java's -Xmx.")
@click.option(
    "--set", "lines", metavar="KEY=VALUE", multiple=True, help="A line of server.properties; may be repeated."
)
@data_option
@wait_option
def kafka(
    cluster: ClusterOptions,
    broker_id: int,
    advertised: str,
    version: str,
    heap: str,
    lines: Sequence[str],
    data: Path,
    wait_s: float,
) -> None:
    """Run a Kafka broker until SIGTERM. Needs Java 17.

    Waits until ZooKeeper answers, and until it no longer lists a broker of this id: a killed broker stays listed until
    its session ends, and a new one would not start.
    """
    config = load_cluster_config(cluster)
    command = KafkaNode(broker_id, config.zookeeper_connect, advertised, data, version, heap, _pairs(lines))
    prepared = command.prepare()
    # the broker itself creates the chroot of zookeeper.connect, so this connection uses none
    hosts, slash, chroot = config.zookeeper_connect.partition("/")
    whole = dataclasses.replace(config, zookeeper_connect=hosts)
    await_cluster(whole, wait_s, without_broker=broker_id, chroot=f"{slash}{chroot}", tell=_tell)
    _become(prepared)


@node.command(
    epilog="""

\b
Example:
  legacy-consumer node topic orders --partitions 6 --replication-factor 3 --zookeeper zk1:2181
"""
)
@click.argument("name")
@cluster_options
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--replication-factor", type=click.IntRange(min=1), default=1, show_default=True)
@wait_option
def topic(cluster: ClusterOptions, name: str, partitions: int, replication_factor: int, wait_s: float) -> None:
    """Create a topic unless it exists, once enough brokers are registered."""
    config = load_cluster_config(cluster)
    await_cluster(config, wait_s, brokers=replication_factor, tell=_tell)
    created = ensure_topic(config, name, partitions, replication_factor)
    click.echo(f"topic {name}, {partitions} partition(s): {'created' if created else 'is there'}")


@node.command(
    epilog="""

\b
Example:
  legacy-consumer node flights --topic flights --rate 2000 --zookeeper zk1:2181
"""
)
@cluster_options
@click.option("--topic", default="flights", show_default=True, help="The topic to produce into.")
@click.option("--rate", type=FiniteRange(min=0), default=0.0, help="Flights a second; 0 for as fast as possible.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="The number of flights; default: all 336,776 once; a larger number starts again with the first.",
)
@wait_option
def flights(cluster: ClusterOptions, topic: str, rate: float, limit: int | None, wait_s: float) -> None:
    """Produce the flights of 2013 from New York City, keyed by carrier, each acknowledged by all replicas."""
    config = load_cluster_config(cluster)
    await_cluster(config, wait_s, brokers=1, topic=topic, tell=_tell)
    # not an Event: its set() would wait for a lock that the interrupted thread may hold in stop.wait()
    stop = Flag()

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    count = produce_flights(config, topic, rate=rate, limit=limit, stop=stop)
    click.echo(f"{count} flights produced into topic {topic}")


@node.command(
    epilog="""

\b
Example:
  legacy-consumer node wait --zookeeper zk1:2181 --brokers 3 --topic orders --wait 120
"""
)
@cluster_options
@click.option(
    "--brokers",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="The number of brokers that must be registered.",
)
@click.option("--topic", help="The topic that must exist.")
@wait_option
def wait(cluster: ClusterOptions, brokers: int, topic: str | None, wait_s: float) -> None:
    """Wait until ZooKeeper answers, brokers are registered and a topic exists; exit code 1 if that takes too long."""
    await_cluster(load_cluster_config(cluster), wait_s, brokers=brokers, topic=topic, tell=_tell)


_tell = functools.partial(click.echo, err=True)


def _become(command: list[str]) -> None:
    """Replace this process by the server, so that the server gets the signals and sets the exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)  # noqa: S606  (no shell is wanted)


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
        pairs[key.strip()] = value.strip()
    return pairs
