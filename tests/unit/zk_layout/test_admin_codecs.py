"""The znodes by which operators ask the controller for a change, as Kafka's own tools write and read them."""

import pytest

from zk_layout.codecs import (
    decode_preferred_election,
    decode_reassignment,
    decode_znode,
    encode_preferred_election,
    encode_reassignment,
)
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import PreferredElection, Reassignment, TopicPartition
from zk_layout.paths import PreferredReplicaElectionPath, ReassignPartitionsPath

REASSIGN, ELECT = ReassignPartitionsPath().path, PreferredReplicaElectionPath().path
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("data", "record"),
    [
        (b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}', Reassignment({T0: (1, 2)})),
        (b'{"version":1,"partitions":[]}', Reassignment({})),
    ],
)
def test_a_reassignment_is_read_and_written(data, record):
    assert decode_reassignment(REASSIGN, data) == decode_znode(REASSIGN, data) == record
    assert encode_reassignment(record) == data


def test_an_election_of_preferred_leaders_is_read_and_written():
    data = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":3}]}'
    record = PreferredElection((T0, TopicPartition("u", 3)))
    assert decode_preferred_election(ELECT, data) == decode_znode(ELECT, data) == record
    assert encode_preferred_election(record) == data


@pytest.mark.parametrize(
    "partitions", ["", "{}", "[1]", '[{"topic":"t"}]', '[{"topic":1,"partition":0,"replicas":[]}]', '[{"partition":0}]']
)
@pytest.mark.parametrize("decode", [decode_reassignment, decode_preferred_election])
def test_anything_else_is_malformed(decode, partitions):
    with pytest.raises(MalformedZnodeError):
        decode("/admin/x", b'{"version":1,"partitions":%s}' % partitions.encode())
