"""The group coordinator behind Kafka's protocol, in memory: for tests in which real clients judge it."""

from legacy_consumer.sandbox.servers.coordinator.server import CoordinatorServer

__all__ = ["CoordinatorServer"]
