"""Logs with gaps, which each broker version's own cleaner makes: replaced messages, deleted messages, empty batches."""

import pytest

from legacy_consumer.fetching.librdkafka import Record
from tests.support.broker_cluster import comes_no_more, take, tp
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

# one broker for each format of messages
on_every_format = pytest.mark.parametrize(
    "broker_version",
    [
        "0.8.2.2",
        "0.10.2.2",
        pytest.param("1.1.1", marks=pytest.mark.long),
        "2.8.2",
        pytest.param("3.9.1", marks=pytest.mark.long),
    ],
)

KEYS, ROUNDS = 7, 60
DELETED = b"k3"


@pytest.fixture
def compacted(cluster):
    """Return (a topic whose last tombstone the cleaner has removed, {offset: (key, value)} of all produced messages).

    The log has many segments and few keys, and one key ends deleted. More messages follow, so that the log ends in
    segments that the cleaner has passed. A value is the message's own offset.
    """
    topic = cluster.new_topic(
        cleanup_policy="compact",
        segment_bytes="2000",
        segment_index_bytes="4096",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms="0",
    )
    written = {}

    def write(keys, *, deleted=False):
        records = []
        for key in keys:
            offset = len(written)
            written[offset] = (key, None if deleted else b"%d" % offset)
            records.append(Record(*written[offset], 0))
        # in small batches, because a broker refuses a batch that is larger than a segment
        cluster.produce(topic, records, batch_num_messages=10, **idempotence(cluster))

    write(b"k%d" % (n % KEYS) for n in range(KEYS * ROUNDS))
    write([DELETED], deleted=True)
    deleted_at = len(written) - 1
    write(b"k0" for _ in range(KEYS * ROUNDS))
    eventually(lambda: cluster.cleaned_up_to(topic) > deleted_at + KEYS * ROUNDS // 2)
    # the cleaner removes a tombstone in a later pass than the deleted messages, and makes a pass only for new messages
    eventually(lambda: write([b"k0"] * 10) or not holds_first_of_batch(cluster, topic, deleted_at))
    eventually(lambda: cluster.cleaned_up_to(topic) == cluster.active_segment(topic))
    return topic, written


def holds_first_of_batch(cluster, topic, offset):
    return any(batch.offset == offset and batch.count for batch in cluster.batches_on_disk(topic))


def idempotence(cluster):
    # the cleaner keeps an emptied batch that holds an idempotent producer's last sequence number
    return {"enable_idempotence": True, "acks": "all"} if cluster.newest_format == 2 else {}


def is_latest(offset, written):
    return all(key != written[offset][0] for later, (key, _) in written.items() if later > offset)


@on_every_format
def test_messages_of_a_compacted_log_keep_their_offsets_and_positions_skip_the_gaps(cluster, compacted):
    topic, written = compacted
    with cluster.consuming(topic, "gaps") as (connector, stream):
        messages, committed = [], []
        while not messages or messages[-1].offset() < len(written) - 1:
            messages += take(stream, 1)
            connector.commit_offsets()
            committed.append(cluster.committed("gaps", topic)[0])
        assert comes_no_more(stream)
    offsets = [message.offset() for message in messages]
    # a commit is right behind its message or further on, over a gap, but never behind the next message
    between = zip(offsets, committed, [*offsets[1:], len(written)], strict=True)
    assert [each for each in between if not each[0] < each[1] <= each[2]] == []
    assert offsets == sorted(set(offsets))
    assert {m.offset(): (m.key(), m.value()) for m in messages}.items() <= written.items()
    assert len(messages) < len(written) // 2, "nothing was cleaned"
    missing = set(written) - set(offsets)
    assert not [offset for offset in missing if written[offset][1] is not None and is_latest(offset, written)]
    assert DELETED not in {message.key() for message in messages}
    if cluster.newest_format == 2:
        assert any(batch.count == 0 for batch in cluster.batches_on_disk(topic)), "no batch was emptied"


@on_every_format
def test_a_group_continues_from_an_offset_that_the_cleaner_removed(cluster, compacted):
    topic, written = compacted
    with cluster.consuming(topic, "all") as (connector, stream):
        survivors = []
        while not survivors or survivors[-1] < len(written) - 1:
            survivors.append(take(stream, 1)[0].offset())
    gone = [offset for offset in range(len(written)) if offset not in survivors]
    for offset in (gone[0], gone[len(gone) // 2], gone[-1]):
        group = f"from-{offset}"
        with cluster.consuming(topic, "by-hand") as (connector, _):
            connector.commit_offsets({tp(topic): offset})
        with cluster.consuming(topic, "by-hand") as (connector, stream):
            expected = [o for o in survivors if o > offset]
            assert [m.offset() for m in take(stream, len(expected))] == expected, group
            assert comes_no_more(stream)
            connector.commit_offsets()
        assert cluster.committed("by-hand", topic) == {0: len(written)}
