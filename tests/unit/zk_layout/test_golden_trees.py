"""Whole znode trees, recorded from running Kafka."""

import json
from pathlib import Path

import pytest

from zk_layout.codecs import NoRecord, decode_znode, encode_offset, encode_owner, encode_registration
from zk_layout.codecs.znode import DECODERS, MARKERS
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import (
    Broker,
    ClusterFeatures,
    ConsumerRegistration,
    ConsumerThreadId,
    Controller,
    Endpoint,
    PartitionState,
    PreferredElection,
    ProducerIdBlock,
    Reassignment,
    SubscriptionPattern,
    TopicAssignment,
    TopicConfig,
)
from zk_layout.paths import PATH_CLASSES, ConsumerIdPath, OffsetPath, OwnerPath, ZnodePath, parse_path

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
VERSIONS = ("0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2", "3.9.1")

RECORDS = {
    "ConsumerIdPath": ConsumerRegistration,
    "OwnerPath": ConsumerThreadId,
    "OffsetPath": int,
    "BrokerIdPath": Broker,
    "TopicPath": TopicAssignment,
    "PartitionStatePath": PartitionState,
    "TopicConfigPath": TopicConfig,
    "ControllerPath": Controller,
    "ControllerEpochPath": int,
    "ClusterIdPath": str,
    "FeaturePath": ClusterFeatures,
    "LatestProducerIdBlockPath": ProducerIdBlock,
    "ReassignPartitionsPath": Reassignment,
    "PreferredReplicaElectionPath": PreferredElection,
}


def tree(version: str) -> dict[str, bytes | None]:
    recorded = json.loads((GOLDEN / f"kafka-{version}.json").read_text(encoding="utf-8"))
    assert recorded["kafka"] == version
    return {n["path"]: None if n["value"] is None else n["value"].encode() for n in recorded["znodes"]}


def decoded(version: str) -> dict[ZnodePath, object]:
    return {parse_path(path): decode_znode(path, data) for path, data in tree(version).items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_znode_of_a_recorded_tree_decodes(version):
    for path, data in tree(version).items():
        place, record = parse_path(path), decode_znode(path, data)
        assert place is not None, path
        assert place.path == path
        wanted = RECORDS.get(type(place).__name__)
        if wanted is None:
            assert record in (NoRecord.PARENT, NoRecord.MARKER), path
            assert not data, f"{path} is called a {record}, but holds {data!r}"
        else:
            assert type(record) is wanted or (record is NoRecord.EMPTY and not data), path


def test_every_path_has_a_decoder_or_is_known_to_need_none():
    assert {c.__name__ for c in DECODERS} == set(RECORDS)
    assert set(DECODERS) | MARKERS <= set(PATH_CLASSES)
    assert not set(DECODERS) & MARKERS


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1"])
def test_recorded_znodes_of_consumers_encode_byte_for_byte(version):
    encoders = {ConsumerIdPath: encode_registration, OwnerPath: encode_owner, OffsetPath: encode_offset}
    seen = dict.fromkeys(encoders, 0)
    for path, data in tree(version).items():
        place = parse_path(path)
        if type(place) in encoders:
            assert encoders[type(place)](decode_znode(path, data)) == data, path
            seen[type(place)] += 1
    assert seen == {ConsumerIdPath: 3, OwnerPath: 24, OffsetPath: 24}


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1"])
def test_recorded_registrations_contain_the_subscriptions_of_their_members(version):
    found = {
        place.group: (record.pattern, record.subscription)
        for place, record in decoded(version).items()
        if isinstance(place, ConsumerIdPath)
    }
    assert found == {
        "g-black": (SubscriptionPattern.BLACK_LIST, (("__.*", 1),)),
        "g-static": (SubscriptionPattern.STATIC, (("t1", 2), ("perf", 2))),
        "g-white": (SubscriptionPattern.WHITE_LIST, (("t.|perf", 1),)),
    }


@pytest.mark.parametrize(
    ("version", "broker_version", "port"),
    [("0.8.2.2", 1, 29091), ("0.10.2.2", 4, 29092), ("1.1.1", 4, 29093), ("2.8.2", 5, 29094), ("3.9.1", 5, 29095)],
)
def test_recorded_brokers_show_the_listener_they_were_started_with(version, broker_version, port):
    broker = decode_znode("/brokers/ids/0", tree(version)["/brokers/ids/0"])
    assert isinstance(broker, Broker)
    assert (broker.broker_id, broker.version, broker.host, broker.port) == (0, broker_version, "127.0.0.1", port)
    assert broker.endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port),)
    assert broker.timestamp_ms is not None
    assert broker.jmx_port == -1


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_topics_list_their_partitions_in_order(version):
    topic = decode_znode("/brokers/topics/t1", tree(version)["/brokers/topics/t1"])
    assert isinstance(topic, TopicAssignment)
    assert list(topic.partitions.items()) == [(0, (0,)), (1, (0,)), (2, (0,)), (3, (0,))]
    offsets = decode_znode("/brokers/topics/__consumer_offsets", tree(version)["/brokers/topics/__consumer_offsets"])
    assert isinstance(offsets, TopicAssignment)
    assert list(offsets.partitions) == list(range(50 if version == "0.8.2.2" else 5))


def test_the_tree_of_0_7_is_named_as_such():
    reasons = {}
    for path, data in tree("0.7.2").items():
        try:
            record = decode_znode(path, data)
        except MalformedZnodeError as error:
            reasons[error.path] = error.reason
        else:
            assert record in (NoRecord.PARENT, NoRecord.UNKNOWN), path
    kinds = {path.split("/")[1] + "/" + path.split("/")[-2] for path in reasons}
    assert kinds == {"consumers/ids", "brokers/ids", "brokers/topics"}
    assert all("Kafka 0.7" in reason for reason in reasons.values())
