"""A group's offsets in Kafka: commands that change its offsets in ZooKeeper warn of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError, MissingListenerError
from legacy_consumer.fetching.librdkafka import open_group_offsets
from legacy_consumer.operations.admin.offset_plans import OffsetPlan
from legacy_consumer.operations.admin.offsets_in_kafka import read_offsets_in_kafka
from legacy_consumer.operations.cli.helpers.group_tables import count
from legacy_consumer.operations.cli.helpers.options import ClusterOptions
from legacy_consumer.operations.cli.helpers.tables import say_error
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore

_SHOWN = 3


def warn_of_kafka(cluster: ClusterOptions, store: ZkStore, plans: Sequence[OffsetPlan]) -> None:
    """Warn of groups that also have offsets in Kafka, which a command for ZooKeeper does not change."""
    for number, plan in enumerate(plans, 1):
        found = find_offsets_in_kafka(cluster, store, plan.group, [change.partition for change in plan.changes])
        if found is None:
            if number < len(plans):
                say_error(f"Kafka was not asked about the other {count(len(plans) - number, 'group')}.")
            return
        if found:
            say_error(
                f"Warning: group {plan.group} has offsets in Kafka too ({shown_offsets(found)}): members with "
                "offsets.storage=kafka go on from those, or from the greater of both; only the offsets in ZooKeeper "
                "are changed here"
            )


def find_offsets_in_kafka(
    cluster: ClusterOptions, store: ZkStore, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int] | None:
    """Return {partition: offset} of the group in Kafka; warn and return None if no broker can answer."""
    try:
        config = config_of_member(cluster, group)
        if config is None:
            return {}
        return read_offsets_in_kafka(store, lambda: open_group_offsets(config, store), partitions)
    except (BrokersUnavailableError, MissingListenerError, ConfigError) as error:
        say_error(
            f"Warning: it is not known whether group {group} has offsets in Kafka, where members with "
            f"offsets.storage=kafka go on: {error}"
        )
        return None


def config_of_member(cluster: ClusterOptions, group: str) -> ConsumerConfig | None:
    """Return the configuration of a member of the group; None if no member can have this group.id and commit to Kafka.

    Any client can create a group with such a name in ZooKeeper. Raises: ConfigError.
    """
    try:
        return ConsumerConfig.load(cluster.config_file, {**cluster.overrides(), "group.id": group})
    except ConfigError as error:
        if error.key == "group.id":
            return None
        raise


def shown_offsets(found: Mapping[TopicPartition, int]) -> str:
    """Return the first few offsets as text, and the number of the others."""
    some = ", ".join(f"{tp} at {found[tp]}" for tp in sorted(found)[:_SHOWN])
    return some + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
