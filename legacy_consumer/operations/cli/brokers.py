"""`legacy-consumer brokers`."""

from __future__ import annotations

import click

from legacy_consumer.operations.admin.brokers import KAFKA_OF_VERSION, BrokerSummary, read_broker_summaries
from legacy_consumer.operations.cli.helpers.group_tables import BAD
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.tables import Cell, Column, duration, print_table, say, say_error
from rebalance.clock import SystemClock

_COLUMNS = (
    Column("BROKER", is_number=True),
    Column("LISTENERS", folds=True),
    Column("RACK", folds=True),
    Column("KAFKA"),
    Column("UP", is_number=True),
    Column("CONTROLLER"),
)
_FIELDS = ("broker", "endpoints", "rack", "kafka", "registered_at_ms", "is_controller", "controller_epoch", "problem")


@click.command(
    epilog="""

\b
Example:
  legacy-consumer brokers --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
def brokers(output: Output, cluster: ClusterOptions) -> None:
    """Show the registered brokers: their listeners, their start time, and the controller.

    KAFKA is the range of versions that write registrations of this format. The epoch is the number of controllers so
    far. `doctor` checks whether brokers can be reached.
    """
    with open_store(load_cluster_config(cluster)) as store:
        found = read_broker_summaries(store)
    if output is Output.JSON:
        print_json([_record(one) for one in found])
        return
    if output is Output.CSV:
        print_csv(_FIELDS, [_record(one) for one in found])
        return
    now_ms = SystemClock().wall_ms()
    if found:
        print_table(_COLUMNS, [_row(one, now_ms) for one in found])
    else:
        say_error("No broker is registered: check the chroot of zookeeper.connect.")
    for one in found:
        if one.problem is not None:
            say(f"* {one.problem}", BAD)


def _endpoints(one: BrokerSummary) -> list[str]:
    if one.broker is None:
        return []
    return [f"{e.listener_name}://{e.host}:{e.port}" for e in one.broker.endpoints]


def _record(one: BrokerSummary) -> dict[str, object]:
    broker = one.broker
    return {
        "broker": one.broker_id,
        "endpoints": _endpoints(one),
        "rack": None if broker is None else broker.rack,
        "kafka": None if broker is None else KAFKA_OF_VERSION.get(broker.version),
        "registered_at_ms": one.since_ms,
        "is_controller": one.is_controller,
        "controller_epoch": one.controller_epoch,
        "problem": one.problem,
    }


def _row(one: BrokerSummary, now_ms: int) -> list[Cell | str]:
    up = "-" if one.since_ms is None else duration(max(0, now_ms - one.since_ms))
    if one.broker is None:
        return [Cell(f"{one.broker_id} *", BAD), "-", "-", "-", up, "-"]
    return [
        one.broker_id,
        ", ".join(_endpoints(one)),
        one.broker.rack or "-",
        KAFKA_OF_VERSION.get(one.broker.version, "unknown"),
        up,
        _controller(one),
    ]


def _controller(one: BrokerSummary) -> str:
    if not one.is_controller:
        return ""
    return "yes" if one.controller_epoch is None else f"yes, epoch {one.controller_epoch}"
