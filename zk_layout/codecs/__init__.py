"""Bytes of a znode <-> record. Each file shows the versions of its formats; znode.py decodes by path."""

from zk_layout.codecs.admin import (
    decode_preferred_election,
    decode_reassignment,
    encode_preferred_election,
    encode_reassignment,
)
from zk_layout.codecs.broker import decode_broker
from zk_layout.codecs.cluster import (
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_features,
    decode_latest_producer_id_block,
)
from zk_layout.codecs.consumers import (
    MOST_STREAMS,
    MOST_STREAMS_IN_ALL,
    decode_offset,
    decode_owner,
    decode_registration,
    encode_offset,
    encode_owner,
    encode_registration,
)
from zk_layout.codecs.topic import (
    decode_partition_state,
    decode_topic,
    decode_topic_config,
    encode_topic,
    encode_topic_config,
)
from zk_layout.codecs.znode import NoRecord, ZnodeRecord, decode_znode

__all__ = [
    "MOST_STREAMS",
    "MOST_STREAMS_IN_ALL",
    "NoRecord",
    "ZnodeRecord",
    "decode_broker",
    "decode_cluster_id",
    "decode_controller",
    "decode_controller_epoch",
    "decode_features",
    "decode_latest_producer_id_block",
    "decode_offset",
    "decode_owner",
    "decode_partition_state",
    "decode_preferred_election",
    "decode_reassignment",
    "decode_registration",
    "decode_topic",
    "decode_topic_config",
    "decode_znode",
    "encode_offset",
    "encode_owner",
    "encode_preferred_election",
    "encode_reassignment",
    "encode_registration",
    "encode_topic",
    "encode_topic_config",
]
