import json

import pytest

from spark_source.errors import CheckpointError
from spark_source.messages.ranges import OffsetRange
from spark_source.messages.source_progress import source_progress
from spark_source.messages.stream_offsets import (
    NOT_BEGUN,
    StreamOffsets,
    by_partition,
    from_json,
    ranges_between,
    to_json,
)
from zk_layout.model import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))
REACHED = StreamOffsets({B: 2, A: 1}, {"t": "topic-czxid=0x2f"}, {B: 1})


def test_the_text_of_a_checkpoint_is_read_back_and_is_always_the_same():
    text = json.dumps(to_json(REACHED))
    assert text == (
        '{"version": 2, "offsets": {"t": {"0": 1, "1": 2}}, "topics": {"t": "topic-czxid=0x2f"}, '
        '"begins": {"t": {"1": 1}}}'
    )
    assert from_json(json.loads(text)) == REACHED
    assert from_json(to_json(NOT_BEGUN)) == NOT_BEGUN


def test_a_checkpoint_of_version_1_is_read():
    assert from_json({"t": {"0": 1}, "version": {"7": 5}}) == StreamOffsets({A: 1, TopicPartition("version", 7): 5})


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"version": 3, "offsets": {}}, "holds offsets of version 3; this release reads versions 1 and 2"),
        ({"version": True}, "holds offsets of version True"),
        ({"version": 2}, "holds None where topics should be"),
        ({"version": 2, "offsets": {}, "topics": {"t": 5}}, "holds {'t': 5} where topics should be"),
        ({"version": 2, "offsets": [], "topics": {}}, "holds [] where offsets should be"),
        ({"version": 2, "offsets": {}, "topics": {}, "begins": {"t": {"0": -1}}}, "holds -1 for t/0"),
        ([1], "holds [1] where offsets should be"),
        (None, "holds None where offsets should be"),
        ({"t": 5}, "holds 5 for topic t, which is no offset of a partition"),
        ({"t": {"x": 1}}, "names 'x' of topic t, which is no partition"),
        ({"t": {"9" * 5000: 1}}, "names '9999"),
        ({"t": {"0": None}}, "holds None for t/0, which is no offset"),
        ({"t": {"0": 1.5}}, "holds 1.5 for t/0, which is no offset"),
        ({"t": {"0": True}}, "holds True for t/0, which is no offset"),
        ({"t": {"0": -5}}, "holds -5 for t/0, which is no offset"),
        ({"t": {"0": 2**63}}, f"holds {2**63} for t/0, which is no offset"),
    ],
)
def test_a_checkpoint_that_cannot_be_is_refused_and_named(document, complaint):
    with pytest.raises(CheckpointError) as caught:
        from_json(document)
    assert str(caught.value).startswith(f"the query's checkpoint {complaint}")


def test_a_batch_goes_from_its_own_begins_or_the_end_before():
    end = StreamOffsets({A: 5, B: 9, C: 4}, {}, {B: 7, C: 4})
    assert ranges_between(StreamOffsets({A: 3, B: 20}), end) == [OffsetRange(A, 3, 5), OffsetRange(B, 7, 9)]


def test_progress_looks_like_that_of_sparks_own_kafka_source():
    source = {
        "startOffset": json.dumps(to_json(StreamOffsets({A: 1}))),
        "endOffset": json.dumps(to_json(StreamOffsets({A: 70, B: 60}))),
        "latestOffset": json.dumps(by_partition({A: 100, B: 50, C: 7})),
    }
    assert source_progress(source) == {
        "description": "zk_messages[t]",
        "startOffset": {"t": {"0": 1}},
        "endOffset": {"t": {"0": 70, "1": 60}},
        "latestOffset": {"t": {"0": 100, "1": 50, "2": 7}},
        "metrics": {"avgOffsetsBehindLatest": 15.0, "maxOffsetsBehindLatest": 30, "minOffsetsBehindLatest": 0},
    }


def test_progress_before_the_first_batch_has_no_metrics():
    nothing = dict.fromkeys(("startOffset", "endOffset", "latestOffset"))
    assert source_progress(nothing)["metrics"] == {}
    assert source_progress(dict.fromkeys(nothing, "null"))["metrics"] == {}
    assert source_progress({**nothing, "startOffset": json.dumps(to_json(NOT_BEGUN))})["startOffset"] == {}
