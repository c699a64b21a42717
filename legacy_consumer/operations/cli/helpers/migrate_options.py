"""Options that several commands of `legacy-consumer migrate` have, and the access to both sides of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka import open_group_offsets, open_log_offsets
from legacy_consumer.fetching.librdkafka.client_groups import read_kafka_members
from legacy_consumer.operations.admin.migration import Sides
from legacy_consumer.operations.cli.helpers.ending import unwound_by_signals
from legacy_consumer.operations.cli.helpers.lasting_output import outlasts_reader
from legacy_consumer.operations.cli.helpers.options import ClusterOptions, missing_zookeeper_is_misuse, open_store
from zk_layout.store import ZkStore

P = ParamSpec("P")
R = TypeVar("R")

_ANSWER_S = 15.0

rolling_option = click.option(
    "--rolling",
    is_flag=True,
    help="The group has members, which move one by one; write only partitions without an owner.",
)
backup_option = click.option(
    "--backup",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A new file for a backup of both sides' offsets. Default: migration-GROUP-TIME.json in the current folder.",
)
accept_ahead_option = click.option(
    "--accept-ahead",
    is_flag=True,
    help="Messages between the offset in ZooKeeper and the greater one in Kafka were consumed.",
)
skip_blocked_option = click.option("--skip-blocked", is_flag=True, help="Leave out blocked partitions.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def execute_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add --execute. A signal unwinds the command, and a reader that ends early does not end it before it has written.

    So it reports what it has written.
    """
    option = click.option(
        "--execute", is_flag=True, help="Carry it out. Without this option the command only shows the plan."
    )
    return option(unwound_by_signals()(outlasts_reader("execute")(command)))


@contextmanager
def sides_of(cluster: ClusterOptions, group: str) -> Iterator[Sides]:
    """Open ZooKeeper and the brokers for one group, and close them at the end.

    Raises: BrokersUnavailableError for brokers older than 0.9; ConfigError; ZooKeeperError.
    """
    with missing_zookeeper_is_misuse():
        config = ConsumerConfig.load(cluster.config_file, {**cluster.overrides(), "group.id": group})
    with open_store(config) as store:
        _check_brokers(store)
        with (
            closing(open_group_offsets(config, store)) as kafka,
            closing(open_log_offsets(config, store, timeout_s=_ANSWER_S)) as log_offsets,
        ):
            yield Sides(group, store, kafka, log_offsets, lambda: read_kafka_members(config, store, group, _ANSWER_S))


def _check_brokers(store: ZkStore) -> None:
    old = [broker.broker_id for broker in read_brokers(store) if broker.version < 2]
    if old:
        raise BrokersUnavailableError(
            f"broker {old[0]} is a Kafka 0.8, which has no consumers of the newer kind: upgrade to 0.9 or newer first"
        )
