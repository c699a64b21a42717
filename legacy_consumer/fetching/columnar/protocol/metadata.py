"""Metadata (3): brokers, and the leaders of some topics' partitions; used instead of ZooKeeper.

    request   [topic string] | v4: create missing topics bool
    response  v3: throttle ms int32 | brokers [id int32, host string, port int32 | v1: rack string]
              | v2: cluster id string | v1: controller id int32
              | [error int16, topic string | v1: internal bool
                 | [error int16, partition int32, leader int32, replicas [int32], in sync [int32]]]

Before version 4 (0.11) a broker may create a missing topic that a request names. So such a request names only topics
that exist, or asks for all topics (a null array; in version 0 an empty one). A broker returns the addresses of the
listener that got the request.
"""

from __future__ import annotations

from collections.abc import Collection

from legacy_consumer.errors import KafkaError
from legacy_consumer.fetching.cluster_metadata import ClusterMetadata, PartitionMetadata, refusal
from legacy_consumer.fetching.columnar.protocol import error_codes
from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer
from zk_layout.model import TopicPartition

FIRST_THAT_CREATES_NO_TOPIC = 4
_UNKNOWN_TOPIC = 3


def encode_metadata(version: int, topics: Collection[str] | None) -> bytes:
    """Return the body of a request for these topics; None = all. In version 0 an empty collection means all, too."""
    writer = Writer()
    writer.int32(len(topics) if topics is not None else 0 if version == 0 else -1)
    for topic in topics or ():
        writer.string(topic)
    if version >= FIRST_THAT_CREATES_NO_TOPIC:
        writer.boolean(False)
    return writer.done()


def decode_metadata(version: int, frame: memoryview | bytes) -> ClusterMetadata:
    """Decode the body of a response. Raises: MalformedResponseError."""
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
    partitions: dict[TopicPartition, PartitionMetadata] = {}
    refused: dict[str, KafkaError] = {}
    for _ in range(reader.count(8)):
        code, topic = reader.int16(), reader.string()
        if code not in (error_codes.NONE, _UNKNOWN_TOPIC):
            passes = error_codes.remedy(code) is not error_codes.Remedy.TELL_USER
            refused[topic] = refusal(topic, error_codes.error_name(code), passes=passes)
        if version >= 1:
            reader.boolean()
        for _ in range(reader.count(18)):
            error, number, leader = reader.int16(), reader.int32(), reader.int32()
            replicas, in_sync = (tuple(reader.int32() for _ in range(reader.count(4))) for _ in range(2))
            # 9 is REPLICA_NOT_AVAILABLE: some replica is missing, but the partition has its leader
            has_leader = error in (error_codes.NONE, 9)
            partitions[TopicPartition(topic, number)] = PartitionMetadata(
                leader if has_leader else -1, replicas, in_sync
            )
    return ClusterMetadata(brokers, partitions, refused)
