"""A group's offsets in Kafka, which operators see when a command changes the group's offsets in ZooKeeper."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError, MissingListenerError
from legacy_consumer.fetching.librdkafka import open_group_offsets
from legacy_consumer.operations.admin.offsets_in_kafka import read_offsets_in_kafka
from legacy_consumer.operations.cli.helpers.options import ClusterOptions
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore

logger = logging.getLogger(__name__)

_SHOWN = 3


def find_offsets_in_kafka(
    cluster: ClusterOptions, store: ZkStore, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return {partition: offset}, as far as Kafka has offsets; {} if no broker can tell, which is logged."""
    try:
        config = ConsumerConfig.load(cluster.config_file, {**cluster.overrides(), "group.id": group})
        return read_offsets_in_kafka(store, lambda: open_group_offsets(config, store), partitions)
    except (BrokersUnavailableError, MissingListenerError, ConfigError) as error:
        logger.info("group %s: cannot find out whether it has offsets in Kafka: %s", group, error)
        return {}


def shown_offsets(found: Mapping[TopicPartition, int]) -> str:
    """A few of them, for a line."""
    some = ", ".join(f"{tp} at {found[tp]}" for tp in sorted(found)[:_SHOWN])
    return some + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
