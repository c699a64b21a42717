"""The configuration of a consumer, with Kafka's property names."""

from __future__ import annotations

from legacy_consumer.config.cluster_config import ClusterConfig
from legacy_consumer.config.consumer_config import ConsumerConfig
from legacy_consumer.config.java_properties import parse_java_properties
from legacy_consumer.config.properties import PROPERTIES, Kind, Property

__all__ = [
    "PROPERTIES",
    "ClusterConfig",
    "ConsumerConfig",
    "Kind",
    "Property",
    "parse_java_properties",
]
