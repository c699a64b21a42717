"""The judgement of a committed offset: one pure function, over znodes in an in-memory ZooKeeper."""

import pytest

from legacy_consumer.offsets.judgement import (
    TopicOrigin,
    Verdict,
    WrittenOffset,
    judge,
    metadata_of,
    written_in_kafka,
    written_in_zookeeper,
)
from legacy_consumer.offsets.topic_lives import read_topic_origins
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment

OFFSET = "/consumers/g/offsets/t/0"


class Ensemble:
    """A ZooKeeper ensemble in which a test writes offsets and topics in any order."""

    def __init__(self):
        self.zk = MemoryStore(MemoryZooKeeper())
        self.zk.start()

    def start_brokers(self):
        self.zk.ensure_path("/brokers/topics")

    def commit(self, text=b"500"):
        if self.zk.exists(OFFSET) is None:
            self.zk.create(OFFSET, text, make_parents=True)
        else:
            self.zk.set_data(OFFSET, text)

    def create_topic(self, name="t", topic_id=None):
        data = encode_topic(TopicAssignment({0: (0,)}, 1 if topic_id is None else 3, topic_id))
        self.zk.create(f"/brokers/topics/{name}", data, make_parents=True)

    def delete_topic(self, name="t"):
        self.zk.delete(f"/brokers/topics/{name}")

    def judge(self, log=(0, 1000)):
        znode = self.zk.get_data(OFFSET) if self.zk.exists(OFFSET) else None
        origins = read_topic_origins(self.zk, ["t"])
        return judge(written_in_zookeeper(OFFSET, znode), origins.get("t"), log)


def copied_with_consumers_first(world):
    world.commit()
    world.start_brokers()
    world.create_topic()


def imported_before_the_topic_was_made(world):
    world.start_brokers()
    world.commit()
    world.create_topic()


def copied_and_then_some_topic_was_deleted(world):
    copied_with_consumers_first(world)
    world.create_topic("other")
    world.delete_topic("other")


def committed_while_the_topic_exists(world):
    world.start_brokers()
    world.create_topic("other")
    world.delete_topic("other")
    world.create_topic()
    world.commit()


def created_again_and_committed_since(world):
    created_again(world)
    world.commit()


def created_again(world):
    world.start_brokers()
    world.create_topic()
    world.commit()
    world.delete_topic()
    world.create_topic()


def created_again_while_nobody_had_committed_more_than_once(world):
    world.start_brokers()
    world.create_topic()
    world.create_topic("other")
    world.commit()
    world.commit(b"501")
    world.delete_topic()
    world.create_topic()


@pytest.mark.parametrize(
    ("history", "verdict"),
    [
        (copied_with_consumers_first, Verdict.VALID),
        (imported_before_the_topic_was_made, Verdict.VALID),
        (copied_and_then_some_topic_was_deleted, Verdict.VALID),
        (committed_while_the_topic_exists, Verdict.VALID),
        (created_again_and_committed_since, Verdict.VALID),
        (created_again, Verdict.EARLIER_TOPIC),
        (created_again_while_nobody_had_committed_more_than_once, Verdict.EARLIER_TOPIC),
    ],
)
def test_an_offset_is_an_earlier_topics_only_where_there_was_an_earlier_topic(history, verdict):
    world = Ensemble()
    history(world)
    assert world.judge().verdict is verdict


@pytest.mark.parametrize(
    ("history", "is_fragile"),
    [
        (imported_before_the_topic_was_made, True),
        (copied_with_consumers_first, False),
        (committed_while_the_topic_exists, False),
    ],
)
@pytest.mark.parametrize("log", [(0, 1000), (0, 10), (600, 1000), None])
def test_an_offset_that_counts_only_until_some_topic_is_deleted_says_so(history, is_fragile, log):
    world = Ensemble()
    history(world)
    before = world.judge(log)
    assert (before.position, before.is_fragile) == (500, is_fragile)
    world.create_topic("another")
    world.delete_topic("another")
    after = world.judge(log)
    assert (after.verdict is Verdict.EARLIER_TOPIC) == is_fragile
    assert not after.is_fragile


def test_an_offset_that_looks_like_an_earlier_topics_and_is_not_says_why():
    world = Ensemble()
    imported_before_the_topic_was_made(world)
    assert "no topic was ever deleted" in world.judge().reason
    world = Ensemble()
    created_again(world)
    judgement = world.judge()
    assert (judgement.position, judgement.outlived, judgement.offset) == (None, 500, 500)
    assert "before the topic was created" in judgement.reason


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        ((0, 500), Verdict.VALID),
        ((500, 900), Verdict.VALID),
        ((0, 499), Verdict.BEYOND_LOG),
        ((501, 900), Verdict.BEFORE_LOG),
        (None, Verdict.UNKNOWN),
    ],
)
def test_an_offset_is_compared_with_its_log(log, verdict):
    judgement = judge(WrittenOffset(500, zxid=9), TopicOrigin(5), log)
    assert (judgement.verdict, judgement.position) == (verdict, 500)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [(None, Verdict.NONE), (b"-1", Verdict.NONE), (b"7\n", Verdict.UNREADABLE), (b"", Verdict.UNREADABLE)],
)
def test_an_invalid_offset_counts_as_none_and_only_garbage_has_a_reason(text, verdict):
    world = Ensemble()
    world.start_brokers()
    world.create_topic()
    if text is not None:
        world.commit(text)
    judgement = world.judge()
    assert (judgement.verdict, judgement.position) == (verdict, None)
    assert (OFFSET in judgement.reason) == (verdict is Verdict.UNREADABLE)


def test_without_a_topic_nothing_is_known():
    assert judge(WrittenOffset(7, zxid=9), None, (0, 9)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("committed_for", "topic", "verdict"),
    [
        (TopicOrigin(5), TopicOrigin(5), Verdict.VALID),
        (TopicOrigin(5), TopicOrigin(9), Verdict.EARLIER_TOPIC),
        (TopicOrigin(5), TopicOrigin(9, deletions=0), Verdict.VALID),
        # the ensemble was copied, so its zxids began anew
        (TopicOrigin(900), TopicOrigin(9), Verdict.VALID),
        (TopicOrigin(5, "A"), TopicOrigin(9, "A"), Verdict.VALID),
        (TopicOrigin(5, "A"), TopicOrigin(9, "B"), Verdict.EARLIER_TOPIC),
        (TopicOrigin(900, "A"), TopicOrigin(9, "B"), Verdict.EARLIER_TOPIC),
        # committed before the topic got its id
        (TopicOrigin(5), TopicOrigin(5, "A"), Verdict.VALID),
        (None, TopicOrigin(9, "A"), Verdict.VALID),
    ],
)
def test_a_commit_to_kafka_says_for_which_topic_it_is(committed_for, topic, verdict):
    assert judge(written_in_kafka(7, metadata_of(committed_for)), topic, (0, 10)).verdict is verdict


@pytest.mark.parametrize("metadata", ["", "somebody's note", "topic-id=", "topic-czxid=0xZ"])
def test_metadata_of_others_says_nothing(metadata):
    assert judge(written_in_kafka(7, metadata), TopicOrigin(9), (0, 10)).verdict is Verdict.VALID
