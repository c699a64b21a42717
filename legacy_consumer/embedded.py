"""A real ZooKeeper and real Kafka brokers, for trying, testing and measuring."""

from legacy_consumer.sandbox.servers.broker import KafkaBroker
from legacy_consumer.sandbox.servers.ensemble import EmbeddedEnsemble
from legacy_consumer.sandbox.servers.jars import KAFKA_VERSIONS, kafka_jars
from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.kafka import EmbeddedKafka
from legacy_consumer.sandbox.servers.zookeeper import EmbeddedZooKeeper, ZooKeeperNode, four_letter_word
from legacy_consumer.sandbox.servers.zookeeper_jars import ZOOKEEPER_VERSIONS

__all__ = [
    "KAFKA_VERSIONS",
    "ZOOKEEPER_VERSIONS",
    "EmbeddedEnsemble",
    "EmbeddedKafka",
    "EmbeddedZooKeeper",
    "KafkaBroker",
    "ZooKeeperNode",
    "find_java",
    "four_letter_word",
    "kafka_jars",
]
