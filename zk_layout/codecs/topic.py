"""The znodes of a topic: its partitions, their state, its configuration.

/brokers/topics/T, version 1 (0.8.0; 0.8.1 to 2.3), 2 (2.4 to 2.7) and 3 (2.8 to 3.9). The replicas that a
reassignment adds and removes are listed for the partitions under way; a controller from 2.8 on adds topic_id:

    { "partitions":{ "0":[ 1, 2 ], "1":[ 2, 1 ] }, "version":1 }
    {"version":1,"partitions":{"1":[2,1],"0":[1,2]}}
    {"removing_replicas":{"0":[1]},"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[3]},"version":2}
    {"partitions":{"0":[0]},"topic_id":"vPeOCWypqUOSepEvx0cbog","adding_replicas":{},"removing_replicas":{},"version":3}

/brokers/topics/T/partitions/P/state (0.8.0; 0.8.1 to 3.9; 3.2 and newer may add leader_recovery_state):

    { "controller_epoch":1, "isr":[ 0 ], "leader":0, "leader_epoch":0, "version":1 }
    {"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}
    {"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0],"leader_recovery_state":1}

/config/topics/T (0.8.1 to 3.9):

    {"version":1,"config":{"cleanup.policy":"compact"}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zk_layout.codecs.strict_json import JsonObject, decode_object, encode_json
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import PartitionState, TopicAssignment, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITH_REASSIGNMENT = 2
_WITH_TOPIC_ID = 3


def decode_topic(path: str, data: bytes | None) -> TopicAssignment:
    """Read a topic's partitions; none at all if the document does not mention any.

    Raises: MalformedZnodeError. The consumer of 1.x takes that for a topic without partitions, and assignors should,
    too: the topic exists, and nothing of it can be consumed.
    """
    if not data:
        raise MalformedZnodeError(path, data, "it is empty, as a topic of Kafka 0.7 is: no partitions are listed")
    document = decode_object(path, data)
    return TopicAssignment(
        partitions=_replicas(document, "partitions"),
        version=document.integer("version", 1),
        topic_id=None if document.is_null("topic_id") else document.text("topic_id"),
        adding_replicas=_replicas(document, "adding_replicas"),
        removing_replicas=_replicas(document, "removing_replicas"),
    )


def encode_topic(topic: TopicAssignment) -> bytes:
    """Write a topic's partitions in the form of its version; version 1 is understood by every broker."""
    document: dict[str, object] = {"partitions": _partition_keys(topic.partitions)}
    if topic.version >= _WITH_TOPIC_ID and topic.topic_id is not None:
        document["topic_id"] = topic.topic_id
    if topic.version >= _WITH_REASSIGNMENT:
        document["adding_replicas"] = _partition_keys(topic.adding_replicas)
        document["removing_replicas"] = _partition_keys(topic.removing_replicas)
    return encode_json(document | {"version": topic.version})


def decode_partition_state(path: str, data: bytes | None) -> PartitionState:
    """Read the leader of a partition and its replicas in sync. Raises: MalformedZnodeError."""
    document = decode_object(path, data)
    return PartitionState(
        leader=document.integer("leader"),
        leader_epoch=document.integer("leader_epoch"),
        isr=document.integers("isr"),
        controller_epoch=document.integer("controller_epoch"),
        leader_recovery_state=document.integer("leader_recovery_state", 0),
        version=document.integer("version", 1),
    )


def decode_topic_config(path: str, data: bytes | None) -> TopicConfig:
    """Read the settings that a topic overrides; an empty znode overrides none.

    Raises: MalformedZnodeError, also for any version but 1: so do brokers.
    """
    if not data:
        return TopicConfig({})
    document = decode_object(path, data)
    if document.integer("version") != 1:
        raise document.malformed("version", "1")
    config = document.child("config")
    return TopicConfig({key: config.text(key) for key in config})


def encode_topic_config(config: TopicConfig) -> bytes:
    """Write the settings that a topic overrides."""
    return encode_json({"version": config.version, "config": dict(config.config)})


def _replicas(document: JsonObject, key: str) -> dict[int, tuple[int, ...]]:
    if document.is_null(key):
        return {}
    lists = document.child(key)
    return {number: lists.integers(name) for number, name in lists.partition_numbers().items()}


def _partition_keys(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(brokers) for partition, brokers in sorted(replicas.items())}
