"""Decodes any znode of Kafka by its path alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias

from zk_layout import paths
from zk_layout.codecs.admin import decode_preferred_election, decode_reassignment
from zk_layout.codecs.broker import decode_broker
from zk_layout.codecs.cluster import (
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_features,
    decode_latest_producer_id_block,
)
from zk_layout.codecs.consumers import decode_offset, decode_owner, decode_registration
from zk_layout.codecs.topic import decode_partition_state, decode_topic, decode_topic_config
from zk_layout.model import (
    Broker,
    ClusterFeatures,
    ConsumerRegistration,
    ConsumerThreadId,
    Controller,
    PartitionState,
    PreferredElection,
    ProducerIdBlock,
    Reassignment,
    TopicAssignment,
    TopicConfig,
)
from zk_layout.paths import ZnodePath, parse_path


class NoRecord(Enum):
    """The reason why a znode has no record."""

    PARENT = "parent"
    """The znode exists for its children; its data have no meaning."""
    MARKER = "marker"
    """The znode means something without data: a topic to delete, the counter of broker ids."""
    EMPTY = "empty"
    """Nothing has been written yet."""
    UNKNOWN = "unknown"
    """No path of any class in paths."""


ZnodeRecord: TypeAlias = (
    Broker
    | ClusterFeatures
    | ConsumerRegistration
    | ConsumerThreadId
    | Controller
    | PartitionState
    | PreferredElection
    | ProducerIdBlock
    | Reassignment
    | TopicAssignment
    | TopicConfig
    | int
    | str
)

DECODERS: Mapping[type[ZnodePath], Callable[[str, bytes | None], ZnodeRecord | None]] = {
    paths.ConsumerIdPath: decode_registration,
    paths.OwnerPath: decode_owner,
    paths.OffsetPath: decode_offset,
    paths.BrokerIdPath: decode_broker,
    paths.TopicPath: decode_topic,
    paths.PartitionStatePath: decode_partition_state,
    paths.TopicConfigPath: decode_topic_config,
    paths.ControllerPath: decode_controller,
    paths.ControllerEpochPath: decode_controller_epoch,
    paths.ClusterIdPath: decode_cluster_id,
    paths.FeaturePath: decode_features,
    paths.LatestProducerIdBlockPath: decode_latest_producer_id_block,
    paths.ReassignPartitionsPath: decode_reassignment,
    paths.PreferredReplicaElectionPath: decode_preferred_election,
}
MARKERS: frozenset[type[ZnodePath]] = frozenset({paths.BrokerSeqIdPath, paths.DeleteTopicPath})


def decode_znode(path: str, data: bytes | None) -> ZnodeRecord | NoRecord:
    """Return the record of any znode, or why it has none. An int is an offset or an epoch, a str the cluster id.

    Raises: MalformedZnodeError.
    """
    place = parse_path(path)
    if place is None:
        return NoRecord.UNKNOWN
    decoder = DECODERS.get(type(place))
    if decoder is None:
        return NoRecord.MARKER if type(place) in MARKERS else NoRecord.PARENT
    record = decoder(path, data)
    return NoRecord.EMPTY if record is None else record
