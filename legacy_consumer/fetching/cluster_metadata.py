"""What brokers say of their cluster: who is there, and who has which partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Broker ids. leader -1: none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """brokers: {id: (host, port)} of the living. partitions: of the topics that exist, of those that were asked for.

    refused: {topic: why the broker tells nothing of it}, beside topics that do not exist.
    registration_version: how brokers of this kind register in ZooKeeper; below 3 they cannot say what they speak.
    """

    brokers: Mapping[int, tuple[str, int]]
    partitions: Mapping[TopicPartition, PartitionMetadata]
    refused: Mapping[str, str] = field(default_factory=dict)
    registration_version: int = 4

    @property
    def leaders(self) -> dict[TopicPartition, int]:
        """Only of partitions that have one."""
        return {tp: known.leader for tp, known in self.partitions.items() if known.leader >= 0}
