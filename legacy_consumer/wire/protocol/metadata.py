"""Metadata (3): brokers, and who leads the partitions of some topics; for when ZooKeeper cannot be asked.

    request   [topic string] | v4: create missing topics bool
    response  v3: throttle ms int32 | brokers [id int32, host string, port int32 | v1: rack string]
              | v2: cluster id string | v1: controller id int32
              | [error int16, topic string | v1: internal bool
                 | [error int16, partition int32, leader int32, replicas [int32], in sync [int32]]]

Before version 4 (0.11) a broker may create a topic that it is asked for and does not have: ask there only for topics
that are known to exist. The addresses are those of the listener that the request came in by.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from legacy_consumer.wire.protocol import error_codes
from legacy_consumer.wire.protocol.primitives import Reader, Writer
from zk_layout.model import TopicPartition

FIRST_THAT_CREATES_NO_TOPIC = 4


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """brokers: {id: (host, port)}; leaders: only of partitions that have one."""

    brokers: Mapping[int, tuple[str, int]]
    leaders: Mapping[TopicPartition, int]


def encode_metadata(version: int, topics: Collection[str]) -> bytes:
    """Ask for these topics; they must not be none, which would mean all before version 1."""
    writer = Writer()
    writer.int32(len(topics))
    for topic in topics:
        writer.string(topic)
    if version >= FIRST_THAT_CREATES_NO_TOPIC:
        writer.boolean(False)
    return writer.done()


def decode_metadata(version: int, frame: memoryview | bytes) -> ClusterMetadata:
    """Raises: MalformedResponseError."""
    reader = Reader(frame, "Metadata")
    if version >= 3:
        reader.int32()
    brokers: dict[int, tuple[str, int]] = {}
    for _ in range(reader.count(10)):
        broker_id, host, port = reader.int32(), reader.string(), reader.int32()
        if not 0 < port < 65536:
            raise reader.malformed(f"port {port} of broker {broker_id}")
        if version >= 1:
            reader.nullable_string()
        brokers[broker_id] = (host, port)
    if version >= 2:
        reader.nullable_string()
    if version >= 1:
        reader.int32()
    leaders: dict[TopicPartition, int] = {}
    for _ in range(reader.count(8)):
        reader.int16()
        topic = reader.string()
        if version >= 1:
            reader.boolean()
        for _ in range(reader.count(18)):
            error, number, leader = reader.int16(), reader.int32(), reader.int32()
            for _ in range(2):
                for _ in range(reader.count(4)):
                    reader.int32()
            # a replica that is missing is no hindrance
            if error in (error_codes.NONE, 9) and leader >= 0:
                leaders[TopicPartition(topic, number)] = leader
    return ClusterMetadata(brokers, leaders)
