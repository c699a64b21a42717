"""The brokers' metadata of their cluster: brokers, and the leaders and replicas of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from legacy_consumer.errors import BrokersUnavailableError, FetchError, KafkaError
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Broker ids. leader: -1 = none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The metadata of one broker's answer. brokers: {id: (host, port)} of living brokers. partitions: of the requested
    topics that exist.

    refused: {topic: why the broker has no answer for it, see refusal}, without topics that do not exist.
    registration_version: the version of the registration that this broker would write to ZooKeeper; below 3 it cannot
    report its protocol versions. The other brokers count as of the same version.
    """

    brokers: Mapping[int, tuple[str, int]]
    partitions: Mapping[TopicPartition, PartitionMetadata]
    refused: Mapping[str, KafkaError] = field(default_factory=dict)
    registration_version: int = 4

    def check(self) -> None:
        """Check that the answer names a broker. Raises: BrokersUnavailableError.

        A broker that has just started names no broker, and no topic, until the controller has sent it the metadata.
        """
        if not self.brokers:
            raise BrokersUnavailableError("the broker does not know its cluster yet")

    @property
    def leaders(self) -> dict[TopicPartition, int]:
        """{partition: its leader}, without partitions that have none."""
        return {tp: known.leader for tp, known in self.partitions.items() if known.leader >= 0}


def refusal(topic: str, reason: str, *, passes: bool) -> KafkaError:
    """Return the error for a topic for which a broker has no answer. passes: whether a retry can help."""
    told = f"{topic}: the broker says {reason}"
    return BrokersUnavailableError(told) if passes else FetchError(None, told)
