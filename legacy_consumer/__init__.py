"""A full member of Kafka's ZooKeeper consumer groups.

>>> with ConsumerConnector(zookeeper_connect="localhost:2181", group_id="billing") as connector:  # doctest: +SKIP
...     (stream,) = connector.create_message_streams({"orders": 1})["orders"]
...     for message in stream:
...         print(message.partition(), message.offset(), message.value())

A name is imported when it is first used: commands and Spark's workers need a part of this only, and librdkafka's
binding alone takes a third of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from legacy_consumer.config import ClusterConfig, ConsumerConfig
    from legacy_consumer.connector import ConsumerConnector
    from legacy_consumer.errors import (
        BrokersUnavailableError,
        CommitFailedError,
        ConsumerClosedError,
        ConsumerTimeoutError,
        FetchError,
        MessageStreamsExistError,
        MissingListenerError,
        OffsetOutOfRangeError,
    )
    from legacy_consumer.fetcher import Message
    from legacy_consumer.listener import RebalanceListener
    from legacy_consumer.offsets import CommitResult
    from legacy_consumer.progress import Committed, PartitionProgress
    from legacy_consumer.simple_consumer import SimpleConsumer
    from legacy_consumer.stream import KafkaStream
    from rebalance.coordinator import Status
    from rebalance.machine import Phase
    from rebalance.subscription import Blacklist, Whitelist
    from zk_layout.errors import ConfigError, LegacyConsumerError, ZooKeeperError
    from zk_layout.model import ConsumerThreadId, TopicPartition

__all__ = [
    "Blacklist",
    "BrokersUnavailableError",
    "ClusterConfig",
    "CommitFailedError",
    "CommitResult",
    "Committed",
    "ConfigError",
    "ConsumerClosedError",
    "ConsumerConfig",
    "ConsumerConnector",
    "ConsumerThreadId",
    "ConsumerTimeoutError",
    "FetchError",
    "KafkaStream",
    "LegacyConsumerError",
    "Message",
    "MessageStreamsExistError",
    "MissingListenerError",
    "OffsetOutOfRangeError",
    "PartitionProgress",
    "Phase",
    "RebalanceListener",
    "SimpleConsumer",
    "Status",
    "TopicPartition",
    "Whitelist",
    "ZooKeeperError",
]

_PLACES = {
    "legacy_consumer.config": ("ClusterConfig", "ConsumerConfig"),
    "legacy_consumer.connector": ("ConsumerConnector",),
    "legacy_consumer.errors": (
        "BrokersUnavailableError",
        "CommitFailedError",
        "ConsumerClosedError",
        "ConsumerTimeoutError",
        "FetchError",
        "MessageStreamsExistError",
        "MissingListenerError",
        "OffsetOutOfRangeError",
    ),
    "legacy_consumer.fetcher": ("Message",),
    "legacy_consumer.listener": ("RebalanceListener",),
    "legacy_consumer.offsets": ("CommitResult",),
    "legacy_consumer.progress": ("Committed", "PartitionProgress"),
    "legacy_consumer.simple_consumer": ("SimpleConsumer",),
    "legacy_consumer.stream": ("KafkaStream",),
    "rebalance.coordinator": ("Status",),
    "rebalance.machine": ("Phase",),
    "rebalance.subscription": ("Blacklist", "Whitelist"),
    "zk_layout.errors": ("ConfigError", "LegacyConsumerError", "ZooKeeperError"),
    "zk_layout.model": ("ConsumerThreadId", "TopicPartition"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
