"""A full member of Kafka's ZooKeeper consumer groups.

>>> with ConsumerConnector(zookeeper_connect="localhost:2181", group_id="billing") as connector:  # doctest: +SKIP
...     (stream,) = connector.create_message_streams({"orders": 1})["orders"]
...     for message in stream:
...         print(message.partition(), message.offset(), message.value())

The package imports a module when one of its names is first used: commands and Spark's workers need only some of the
names, and the import of librdkafka's binding alone takes a third of a second.
"""

from typing import TYPE_CHECKING

from legacy_consumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from legacy_consumer.config import ClusterConfig, ConsumerConfig
    from legacy_consumer.errors import (
        BrokerRefusedError,
        BrokersUnavailableError,
        CallInProgressError,
        CommitFailedError,
        ConsumerClosedError,
        ConsumerTimeoutError,
        FetchError,
        ForkedConsumerError,
        GroupOffsetsUnavailableError,
        MessageStreamsExistError,
        MissingListenerError,
        NoCommittedOffsetError,
        NoSuchPartitionError,
        NoSuchTopicError,
        NotAssignedError,
        NotJoinedError,
        OffsetError,
        OffsetOutOfRangeError,
        OffsetsNotCommittedError,
        PositionError,
        StreamInUseError,
        UnsubscribeError,
    )
    from legacy_consumer.fetching.fetcher import EARLIEST, LATEST, Message
    from legacy_consumer.member.connector import ConsumerConnector
    from legacy_consumer.member.kafka_stream import KafkaStream
    from legacy_consumer.member.listener import RebalanceListener
    from legacy_consumer.offsets import CommitResult
    from legacy_consumer.offsets.progress import Committed, PartitionProgress
    from legacy_consumer.simple_consumer import SimpleConsumer
    from rebalance.errors import StrategyMismatchError
    from rebalance.led.standing import LedState, Standing
    from rebalance.machine import Phase
    from rebalance.status import Status
    from rebalance.subscription import Blacklist, Whitelist
    from zk_layout.errors import ConfigError, LegacyConsumerError, MalformedZnodeError, ZooKeeperError
    from zk_layout.model import ConsumerThreadId, TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "Blacklist",
    "BrokerRefusedError",
    "BrokersUnavailableError",
    "CallInProgressError",
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
    "ForkedConsumerError",
    "GroupOffsetsUnavailableError",
    "KafkaStream",
    "LedState",
    "LegacyConsumerError",
    "MalformedZnodeError",
    "Message",
    "MessageStreamsExistError",
    "MissingListenerError",
    "NoCommittedOffsetError",
    "NoSuchPartitionError",
    "NoSuchTopicError",
    "NotAssignedError",
    "NotJoinedError",
    "OffsetError",
    "OffsetOutOfRangeError",
    "OffsetsNotCommittedError",
    "PartitionProgress",
    "Phase",
    "PositionError",
    "RebalanceListener",
    "SimpleConsumer",
    "Standing",
    "Status",
    "StrategyMismatchError",
    "StreamInUseError",
    "TopicPartition",
    "UnsubscribeError",
    "Whitelist",
    "ZooKeeperError",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    __all__,
    (
        "zk_layout.errors",
        "zk_layout.model",
        "rebalance.errors",
        "rebalance.machine",
        "rebalance.led.standing",
        "rebalance.subscription",
        "rebalance.status",
        "legacy_consumer.errors",
        "legacy_consumer.config",
        "legacy_consumer.fetching.fetcher",
        "legacy_consumer.member.listener",
        "legacy_consumer.offsets",
        "legacy_consumer.offsets.progress",
        "legacy_consumer.member.kafka_stream",
        "legacy_consumer.simple_consumer",
        "legacy_consumer.member.connector",
    ),
)
