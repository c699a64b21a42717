"""Requests of operators to the controller, which deletes each when it is done.

/admin/reassign_partitions, 0.8 to 2.8 (from 2.4 on brokers are asked instead):

    {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}

/admin/preferred_replica_election, 0.8 to 3.9:

    {"version":1,"partitions":[{"topic":"t","partition":0}]}
"""

from __future__ import annotations

from zk_layout.codecs.strict_json import JsonObject, decode_object, encode_json
from zk_layout.model import PreferredElection, Reassignment, TopicPartition


def decode_reassignment(path: str, data: bytes | None) -> Reassignment:
    """Read which replicas partitions are to get. Raises: MalformedZnodeError."""
    document = decode_object(path, data)
    replicas = {_partition(one): one.integers("replicas") for one in document.children("partitions")}
    return Reassignment(replicas, document.integer("version", 1))


def encode_reassignment(asked: Reassignment) -> bytes:
    """Write which replicas partitions are to get, sorted."""
    partitions = [{**_keys(tp), "replicas": list(brokers)} for tp, brokers in sorted(asked.replicas.items())]
    return encode_json({"version": asked.version, "partitions": partitions})


def decode_preferred_election(path: str, data: bytes | None) -> PreferredElection:
    """Read which partitions are to be led by their first replica. Raises: MalformedZnodeError."""
    document = decode_object(path, data)
    return PreferredElection(tuple(map(_partition, document.children("partitions"))), document.integer("version", 1))


def encode_preferred_election(asked: PreferredElection) -> bytes:
    """Write which partitions are to be led by their first replica."""
    return encode_json({"version": asked.version, "partitions": list(map(_keys, asked.partitions))})


def _partition(one: JsonObject) -> TopicPartition:
    return TopicPartition(one.text("topic"), one.integer("partition"))


def _keys(tp: TopicPartition) -> dict[str, object]:
    return {"topic": tp.topic, "partition": tp.partition}
