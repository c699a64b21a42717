import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk_layout.codecs import (
    decode_partition_state,
    decode_topic,
    decode_topic_config,
    encode_topic,
    encode_topic_config,
)
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import PartitionState, TopicAssignment, TopicConfig

TOPIC = "/brokers/topics/t"
STATE = "/brokers/topics/t/partitions/0/state"
CONFIG = "/config/topics/t"

REPLICAS = st.dictionaries(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 2**31 - 1)).map(tuple))


@pytest.mark.parametrize(
    ("data", "topic"),
    [
        (b'{ "partitions":{ "0":[ 1, 2 ], "1":[ 2, 1 ] }, "version":1 }', TopicAssignment({0: (1, 2), 1: (2, 1)})),
        (b'{"version":1,"partitions":{"10":[2,1],"9":[1,2]}}', TopicAssignment({9: (1, 2), 10: (2, 1)})),
        (
            b'{"removing_replicas":{"0":[1]},"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[3]},"version":2}',
            TopicAssignment({0: (1, 2, 3)}, 2, None, {0: (3,)}, {0: (1,)}),
        ),
        (
            (
                b'{"partitions":{"0":[0]},"topic_id":"vPeOCWypqUOSepEvx0cbog","adding_replicas":{},"removing_replicas":{},'
                b'"version":3}'
            ),
            TopicAssignment({0: (0,)}, 3, "vPeOCWypqUOSepEvx0cbog"),
        ),
        (b'{"version":3,"partitions":{},"adding_replicas":{},"removing_replicas":{}}', TopicAssignment({}, 3)),
        (b'{"version":1}', TopicAssignment({})),
    ],
)
def test_each_version_of_a_topic_is_read(data, topic):
    found = decode_topic(TOPIC, data)
    assert found == topic
    assert list(found.partitions) == sorted(found.partitions)


def test_a_new_topic_is_written_in_version_1():
    data = encode_topic(TopicAssignment({10: (1,), 9: (0, 1)}))
    assert data == b'{"partitions":{"9":[0,1],"10":[1]},"version":1}'


@given(
    partitions=REPLICAS,
    version=st.integers(1, 3),
    topic_id=st.none() | st.text(),
    adding=REPLICAS,
    removing=REPLICAS,
)
def test_topics_are_read_back(partitions, version, topic_id, adding, removing):
    topic = TopicAssignment(partitions, version, topic_id, adding, removing)
    wanted = TopicAssignment(
        partitions,
        version,
        topic_id if version == 3 else None,
        adding if version >= 2 else {},
        removing if version >= 2 else {},
    )
    assert decode_topic(TOPIC, encode_topic(topic)) == wanted


@pytest.mark.parametrize(
    ("data", "about"),
    [
        (None, "Kafka 0.7"),
        (b"", "Kafka 0.7"),
        (b"4", "not a JSON object"),
        (b'{"version":1,"partitions":[]}', "partitions is not an object"),
        (b'{"version":1,"partitions":{"x":[0]}}', "partitions.x is not a partition number"),
        (b'{"version":1,"partitions":{"a\\nb":[0]}}', r"partitions.'a\nb' is not a partition number"),
        (b'{"version":1,"partitions":{"-1":[0]}}', "partitions.-1 is not a partition number"),
        (b'{"version":1,"partitions":{"0":0}}', "partitions.0 is not a list of integers"),
        (b'{"version":1,"partitions":{"0":[true]}}', "partitions.0 is not a list of integers"),
        (b'{"version":1,"partitions":{"0":[0]},"topic_id":5}', "topic_id is not a string"),
    ],
)
def test_other_topic_data_is_malformed(data, about):
    with pytest.raises(MalformedZnodeError) as caught:
        decode_topic(TOPIC, data)
    assert about in caught.value.reason


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (
            b'{ "controller_epoch":1, "isr":[ 0 ], "leader":0, "leader_epoch":5, "version":1 }',
            PartitionState(leader=0, leader_epoch=5, isr=(0,), controller_epoch=1),
        ),
        (
            b'{"controller_epoch":2,"leader":-1,"version":1,"leader_epoch":7,"isr":[]}',
            PartitionState(leader=-1, leader_epoch=7, isr=(), controller_epoch=2),
        ),
        (
            b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,2],"leader_recovery_state":1}',
            PartitionState(leader=0, leader_epoch=0, isr=(0, 2), controller_epoch=1, leader_recovery_state=1),
        ),
    ],
)
def test_each_version_of_a_partition_state_is_read(data, state):
    assert decode_partition_state(STATE, data) == state


@pytest.mark.parametrize("missing", ["controller_epoch", "leader", "leader_epoch", "isr"])
def test_a_partition_state_that_lacks_something_is_malformed(missing):
    data = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    with pytest.raises(MalformedZnodeError, match=f"{missing} is missing"):
        decode_partition_state(STATE, data.replace(b'"%s"' % missing.encode(), b'"other"'))


def test_a_topics_configuration_is_read_and_written():
    data = b'{"version":1,"config":{"cleanup.policy":"compact","segment.bytes":"104857600"}}'
    config = TopicConfig({"cleanup.policy": "compact", "segment.bytes": "104857600"})
    assert decode_topic_config(CONFIG, data) == config
    assert encode_topic_config(config) == data


@pytest.mark.parametrize("data", [None, b"", b'{"version": 1, "config": {}}'])
def test_a_topic_may_override_nothing(data):
    assert decode_topic_config(CONFIG, data) == TopicConfig({})


@pytest.mark.parametrize(
    "data", [b"{}", b'{"version":2,"config":{}}', b'{"version":1}', b'{"version":1,"config":{"segment.bytes":5}}']
)
def test_a_configuration_that_brokers_refuse_is_malformed(data):
    with pytest.raises(MalformedZnodeError):
        decode_topic_config(CONFIG, data)
