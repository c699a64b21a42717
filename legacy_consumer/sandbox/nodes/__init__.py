"""One server of a real cluster in the foreground, as a container runs it, and helpers for the start of a cluster."""

from legacy_consumer.sandbox.nodes.awaiting import await_cluster
from legacy_consumer.sandbox.nodes.flights import produce_flights
from legacy_consumer.sandbox.nodes.kafka import KafkaNode
from legacy_consumer.sandbox.nodes.topics import ensure_topic
from legacy_consumer.sandbox.nodes.zookeeper import ZooKeeperNode

__all__ = ["KafkaNode", "ZooKeeperNode", "await_cluster", "ensure_topic", "produce_flights"]
