import pytest

from zk_layout.codecs import (
    NoRecord,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_features,
    decode_latest_producer_id_block,
    decode_znode,
)
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ClusterFeatures, Controller, ProducerIdBlock


@pytest.mark.parametrize(
    ("data", "controller"),
    [
        (b'{ "brokerid":0, "timestamp":"1376439412000", "version":1 }', Controller(0, 1376439412000)),
        (b'{"version":1,"brokerid":2,"timestamp":"1416392398000"}', Controller(2, 1416392398000)),
        (
            b'{"version":2,"brokerid":0,"timestamp":"1670000000000","kraftControllerEpoch":-1}',
            Controller(0, 1670000000000, 2, -1),
        ),
        (b"7", Controller(7)),
    ],
)
def test_each_version_of_the_controller_is_read(data, controller):
    assert decode_controller("/controller", data) == controller


@pytest.mark.parametrize("data", [None, b"", b"x", b"2147483648", b"{}", b'{"version":1,"brokerid":"0"}'])
def test_other_controller_data_is_malformed(data):
    with pytest.raises(MalformedZnodeError):
        decode_controller("/controller", data)


def test_the_controller_epoch_is_a_java_int():
    assert decode_controller_epoch("/controller_epoch", b"12") == 12
    for data in (None, b"", b"1\n", b"2147483648"):
        with pytest.raises(MalformedZnodeError):
            decode_controller_epoch("/controller_epoch", data)


def test_the_cluster_id_is_read():
    data = b'{"version":"1","id":"6HvQ0wqfQ5mWzzPVFk2vXQ"}'
    assert decode_cluster_id("/cluster/id", data) == "6HvQ0wqfQ5mWzzPVFk2vXQ"
    with pytest.raises(MalformedZnodeError, match="id is missing"):
        decode_cluster_id("/cluster/id", b'{"version":"1"}')


@pytest.mark.parametrize(
    ("data", "features"),
    [
        (
            b'{"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}',
            ClusterFeatures({"f": 3}, enabled=True),
        ),
        (
            b'{"features":{"f":{"max_version_level":3}},"version":2,"status":0}',
            ClusterFeatures({"f": 3}, enabled=False, version=2),
        ),
    ],
)
def test_each_version_of_the_features_is_read(data, features):
    assert decode_features("/feature", data) == features


def test_producer_ids_are_read_in_quotes_and_nothing_before_the_first():
    data = b'{"version":1,"broker":4,"block_start":"0","block_end":"9223372036854775807"}'
    assert decode_latest_producer_id_block("/latest_producer_id_block", data) == ProducerIdBlock(4, 0, 2**63 - 1)
    assert decode_znode("/latest_producer_id_block", None) is NoRecord.EMPTY
    with pytest.raises(MalformedZnodeError, match="block_end is not a long in quotes"):
        decode_latest_producer_id_block("/latest_producer_id_block", data.replace(b"7", b"8"))


def test_a_topic_to_delete_is_a_marker_with_any_data():
    assert decode_znode("/admin/delete_topics/t", b"") is NoRecord.MARKER
    assert decode_znode("/admin/delete_topics/t", None) is NoRecord.MARKER
