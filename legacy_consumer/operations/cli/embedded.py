"""`legacy-consumer embedded`: real servers in the foreground, for people who want to try something."""

from __future__ import annotations

import json
import re
import threading
from contextlib import ExitStack

import click

from legacy_consumer.config.addresses import parse_address
from legacy_consumer.embedded import KAFKA_VERSIONS, EmbeddedEnsemble, EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.operations.cli.helpers.ending import StopRequestedError, unwound_by_signals

_NO_KAFKA = "none"
_TOPIC = re.compile(r"(?P<name>[^:]+)(:(?P<partitions>[1-9]\d{0,4}))?")
_MOST_REPLICAS = 3
_HIGHEST_PORT = 65_535


class _TopicType(click.ParamType[tuple[str, int]]):
    name = "NAME[:PARTITIONS]"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        found = _TOPIC.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is not NAME or NAME:PARTITIONS", param, ctx)
        return found["name"], int(found["partitions"] or 1)


@click.group()
def embedded() -> None:
    """Run a real ZooKeeper and real Kafka brokers on this machine, without installing either."""


@embedded.command()
@click.option(
    "--kafka",
    "version",
    type=click.Choice([*KAFKA_VERSIONS, _NO_KAFKA]),
    default="1.1.1",
    show_default=True,
    help="Kafka's version; none starts ZooKeeper alone.",
)
@click.option("--brokers", type=click.IntRange(1, 9), default=1, show_default=True, help="The number of brokers.")
@click.option(
    "--zookeeper-port",
    type=click.IntRange(0, _HIGHEST_PORT),
    default=0,
    help="The port of ZooKeeper; 0 or no value for any free one. With --ensemble, the port of the first server.",
)
@click.option(
    "--kafka-port",
    type=click.IntRange(0, _HIGHEST_PORT),
    default=0,
    help="The port of the first broker, the others follow; 0 or no value for any free ports.",
)
@click.option("--ensemble", is_flag=True, help="Three ZooKeeper servers instead of one.")
@click.option("--topic", "topics", type=_TopicType(), multiple=True, help="Create a topic; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON when all servers are ready.")
def up(
    version: str,
    brokers: int,
    zookeeper_port: int,
    kafka_port: int,
    ensemble: bool,
    topics: tuple[tuple[str, int], ...],
    as_json: bool,
) -> None:
    """Start ZooKeeper and Kafka, print their addresses, and stop both at Ctrl-C or SIGTERM. No data is kept.

    Needs Java 17. The first start of a Kafka version downloads its jars.

    \b
    Example:
      legacy-consumer embedded up --kafka 1.1.1 --brokers 3 --topic orders:6
    """  # noqa: D301  (the escape is click's mark for lines that keep their breaks)
    if topics and version == _NO_KAFKA:
        raise click.UsageError("--topic needs a broker, and --kafka none starts none")
    stop = threading.Event()
    try:
        with unwound_by_signals(), ExitStack() as servers:
            zookeeper: EmbeddedZooKeeper | EmbeddedEnsemble
            if ensemble:
                ports = [zookeeper_port + index for index in range(3)] if zookeeper_port else None
                zookeeper = servers.enter_context(EmbeddedEnsemble(ports=ports))
            else:
                zookeeper = servers.enter_context(EmbeddedZooKeeper(port=zookeeper_port))
            kafka = None
            if version != _NO_KAFKA:
                ports = [kafka_port + index for index in range(brokers)] if kafka_port else None
                kafka = servers.enter_context(EmbeddedKafka(version, brokers, zookeeper, ports))
                for name, partitions in topics:
                    kafka.create_topic(name, partitions, min(_MOST_REPLICAS, brokers))
            _show(zookeeper, kafka, topics, as_json=as_json)
            stop.wait()
    except (KeyboardInterrupt, StopRequestedError):
        if not as_json:
            click.echo("stopped")


class _AddressType(click.ParamType[tuple[str, int]]):
    name = "HOST:PORT"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        address = parse_address(value)
        if address is None:
            self.fail(f"{value!r} is not HOST:PORT", param, ctx)
        return address


@embedded.command()
@click.option(
    "--port",
    type=click.IntRange(0, _HIGHEST_PORT),
    default=0,
    help="The port to listen at; 0 or no value for any free port.",
)
@click.option("--broker", type=_AddressType(), help="The broker that receives all requests but group requests.")
@click.option(
    "--initial-rebalance-delay-ms",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The time for which an empty group waits for more members.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON when the port is open.")
def coordinator(port: int, broker: tuple[str, int] | None, initial_rebalance_delay_ms: int, *, as_json: bool) -> None:
    """Serve Kafka's group requests from memory, on 127.0.0.1, until Ctrl-C or SIGTERM. For tests.

    Clients that bootstrap from it join groups here; the command passes their reads and writes to the broker (0.10 or
    newer, without TLS and SASL). Without --broker it answers only group requests. Needs legacy-consumer[fast].

    \b
    Example:
      legacy-consumer embedded coordinator --port 9192 --broker 127.0.0.1:9092
    """  # noqa: D301  (the escape is click's mark for lines that keep their breaks)
    import asyncio

    from legacy_consumer.fetching.fetchers import decoder_obstacle

    if obstacle := decoder_obstacle():
        raise click.ClickException(obstacle)
    from legacy_consumer.sandbox.servers.coordinator import CoordinatorServer
    from rebalance.coordination import Settings

    async def serve() -> None:
        settings = Settings(group_initial_rebalance_delay_ms=initial_rebalance_delay_ms)
        async with CoordinatorServer(port, broker, settings) as server:
            if as_json:
                click.echo(json.dumps({"bootstrap_servers": server.address, "port": server.port}))
            else:
                click.echo(f"coordinator bootstrap.servers={server.address}")
                click.echo("Ctrl-C ends it")
            await asyncio.get_running_loop().create_future()

    try:
        with unwound_by_signals():
            asyncio.run(serve())
    except (KeyboardInterrupt, StopRequestedError):
        if not as_json:
            click.echo("stopped")


def _show(
    zookeeper: EmbeddedZooKeeper | EmbeddedEnsemble,
    kafka: EmbeddedKafka | None,
    topics: tuple[tuple[str, int], ...],
    *,
    as_json: bool,
) -> None:
    nodes = zookeeper.nodes if isinstance(zookeeper, EmbeddedEnsemble) else [zookeeper.node]
    if as_json:
        document = {
            "zookeeper_connect": zookeeper.connect,
            "zookeeper_pids": [node.pid for node in nodes],
            "bootstrap_servers": kafka.bootstrap_servers if kafka else None,
            "kafka_version": kafka.version if kafka else None,
            "broker_pids": [broker.pid for broker in kafka.brokers] if kafka else [],
            "topics": dict(topics),
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"ZooKeeper {zookeeper.version:8} zookeeper.connect={zookeeper.connect}")
    if kafka is not None:
        click.echo(f"Kafka {kafka.version:12} bootstrap.servers={kafka.bootstrap_servers}")
    for name, partitions in topics:
        click.echo(f"topic {name}, {partitions} partition{'' if partitions == 1 else 's'}")
    click.echo("Ctrl-C ends all and removes the data")
