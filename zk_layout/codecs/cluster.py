"""The znodes of the controller and of the cluster.

/controller: 0.8.0; 0.8.1 to 3.3; 3.4 and newer; before 0.8.0 the bare broker id, which readers still accept:

    { "brokerid":0, "timestamp":"1376439412000", "version":1 }
    {"version":1,"brokerid":0,"timestamp":"1416392398000"}
    {"version":2,"brokerid":0,"timestamp":"1670000000000","kraftControllerEpoch":-1}
    0

/controller_epoch, 0.8 and newer:

    1

/cluster/id, 0.10.1 and newer, the version in quotes:

    {"version":"1","id":"6HvQ0wqfQ5mWzzPVFk2vXQ"}

/feature, 2.7 and newer (status 1 = enabled), and 3.3 and newer:

    {"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}
    {"features":{"f":{"max_version_level":3}},"version":2,"status":1}

/latest_producer_id_block, 0.11 and newer, the ids in quotes:

    {"version":1,"broker":0,"block_start":"0","block_end":"999"}
"""

from __future__ import annotations

from zk_layout.codecs.java_number import MAX_INT, MIN_INT, parse_int
from zk_layout.codecs.strict_json import JsonObject, decode_object
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ClusterFeatures, Controller, ProducerIdBlock


def decode_controller(path: str, data: bytes | None) -> Controller:
    """Read which broker is the controller. Raises: MalformedZnodeError."""
    bare_id = parse_int(data or b"")
    if bare_id is not None:
        return Controller(bare_id)
    document = decode_object(path, data)
    has_kraft_epoch = not document.is_null("kraftControllerEpoch")
    return Controller(
        broker_id=document.integer("brokerid"),
        timestamp_ms=document.long_in_quotes("timestamp"),
        version=document.integer("version", 1),
        kraft_controller_epoch=document.integer("kraftControllerEpoch") if has_kraft_epoch else None,
    )


def decode_controller_epoch(path: str, data: bytes | None) -> int:
    """Read how often the controller has changed. Raises: MalformedZnodeError."""
    epoch = parse_int(data or b"")
    if epoch is None:
        raise MalformedZnodeError(path, data, f"an epoch is a decimal number from {MIN_INT} to {MAX_INT}")
    return epoch


def decode_cluster_id(path: str, data: bytes | None) -> str:
    """Read the cluster's id. Raises: MalformedZnodeError."""
    return decode_object(path, data).text("id")


def decode_features(path: str, data: bytes | None) -> ClusterFeatures:
    """Read the finalized features. Raises: MalformedZnodeError."""
    document = decode_object(path, data)
    features = document.child("features")
    return ClusterFeatures(
        levels={name: features.child(name).integer("max_version_level") for name in features},
        enabled=document.integer("status") == 1,
        version=document.integer("version"),
    )


def decode_latest_producer_id_block(path: str, data: bytes | None) -> ProducerIdBlock | None:
    """Read which producer ids were handed out last; None before the first. Raises: MalformedZnodeError."""
    if not data:
        return None
    document = decode_object(path, data)
    return ProducerIdBlock(
        broker_id=document.integer("broker"),
        block_start=_required_long(document, "block_start"),
        block_end=_required_long(document, "block_end"),
        version=document.integer("version", 1),
    )


def _required_long(document: JsonObject, key: str) -> int:
    value = document.long_in_quotes(key)
    if value is None:
        raise document.malformed(key, "a long in quotes")
    return value
