"""A topic that must be there before anything else begins."""

from __future__ import annotations

from legacy_consumer.config import ClusterConfig
from legacy_consumer.sandbox.servers.topics import TopicZnodes, check_topic_name, spread_replicas
from zk_layout.errors import ConfigError, NodeExistsError
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import BrokerIdsPath, broker_ids


def ensure_topic(config: ClusterConfig, topic: str, partitions: int, replication_factor: int) -> bool:
    """Create the topic unless it is there; True if it was created.

    Raises: ConfigError for a name that brokers refuse, for fewer brokers than replicas or too many partitions, and if
    the topic is there with another number of partitions; ZooKeeperError.
    """
    check_topic_name(topic)
    store = KazooStore(config.zk_settings())
    try:
        store.start()
        znodes = TopicZnodes(store, "")
        brokers = broker_ids(store.get_children(BrokerIdsPath().path))
        try:
            znodes.create_topic(topic, spread_replicas(range(partitions), brokers, replication_factor), {})
        except NodeExistsError:
            found = len(znodes.partitions(topic))
            if found != partitions:
                raise ConfigError(
                    "partitions", partitions, f"topic {topic} has {found}: leave it so, or delete the topic first"
                ) from None
            return False
        return True
    finally:
        store.close()
