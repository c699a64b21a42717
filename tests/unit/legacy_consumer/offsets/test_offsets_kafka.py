"""Offsets in Kafka: a commit checks ZooKeeper, and compares stored offsets, unless of an earlier topic."""

from functools import partial
from itertools import count

import pytest

from legacy_consumer.errors import (
    GroupOffsetsUnavailableError,
    GroupRefusedError,
    OffsetError,
    OffsetsNotCommittedError,
)
from legacy_consumer.offsets import Commit, DualOffsetStore, KafkaOffset, KafkaOffsetStore, ZooKeeperOffsetStore
from legacy_consumer.offsets.dual import greater
from legacy_consumer.offsets.judgement import TopicOrigin
from legacy_consumer.offsets.progress import Committed
from legacy_consumer.offsets.retries import coordinator_answer
from tests.support.at_line import AtLine
from tests.support.closed_znodes import close_owner
from tests.support.fake_group_offsets import FakeGroupOffsets
from zk_layout.errors import MultiFailedError, NoNodeError, NotPermittedError, SessionExpiredError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
ANEW = TopicOrigin(50)


class Rig:
    """A registered member that owns both partitions of a topic."""

    def __init__(self, **limits):
        self.server = MemoryZooKeeper(**limits)
        self.zk = MemoryStore(self.server)
        self.zk.start()
        self.channel = FakeGroupOffsets()
        self.zookeeper = ZooKeeperOffsetStore(self.zk, "g")
        asking = partial(coordinator_answer, 0.001)
        self.kafka = KafkaOffsetStore(self.zk, "g", self.channel, timeout_s=0.05, asking=asking)
        self.dual = DualOffsetStore(self.zookeeper, self.kafka)
        self.zk.create("/consumers/g/ids/g_a", b"x", ephemeral=True, make_parents=True)
        for n in (0, 1):
            self.zk.create(f"/consumers/g/owners/t/{n}", b"g_a-0", ephemeral=True, make_parents=True)
        self.zk.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}', make_parents=True)

    def recreate_topic(self):
        self.zk.delete("/brokers/topics/t")
        self.zk.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')

    def commit(self, store, offsets, seen=None):
        seen = seen or store.read(list(offsets))
        commits = {tp: Commit(offset, seen[tp]) for tp, offset in offsets.items()}
        return store.commit(commits, consumer_id="g_a", session_id=self.zk.session_id)

    def in_kafka(self):
        return {tp: kept.offset for tp, kept in self.channel.kept.items()}

    def in_zookeeper(self, tp):
        return int(self.zk.get_data(f"/consumers/g/offsets/{tp.topic}/{tp.partition}").data)


@pytest.fixture
def rig():
    return Rig()


@pytest.mark.parametrize("request_number", range(1, 9))
@pytest.mark.parametrize("stands_in_the_way", ["another client's offset", "a deleted owner znode"])
@pytest.mark.parametrize("kind", ["kafka", "dual"])
def test_nothing_is_written_to_kafka_once_the_session_has_ended_in_the_midst_of_a_commit(
    kind, stands_in_the_way, request_number
):
    rig = Rig(max_multi_bytes=500)  # a separate request for each partition
    store = getattr(rig, kind)
    seen = rig.commit(store, {P0: 7, P1: 5}).committed
    if stands_in_the_way == "a deleted owner znode":
        rig.zk.delete("/consumers/g/owners/t/1")
    else:
        rig.channel.kept[P1] = KafkaOffset(3)
        if kind == "dual":
            rig.zk.set_data("/consumers/g/offsets/t/1", b"3")
    requests = count(1)
    written_before = []

    def expire(*_):
        if next(requests) == request_number:
            rig.server.fault = None
            rig.server.expire(rig.zk.session_id)
            written_before.extend(rig.channel.writes)

    rig.server.fault = expire
    result = rig.commit(store, {P0: 8, P1: 6}, seen)
    if rig.server.fault is None:
        assert rig.channel.writes == written_before
        assert isinstance(result.failure, SessionExpiredError)
    else:
        assert next(requests) <= request_number, "it needed fewer requests"


@pytest.mark.parametrize("kind", ["kafka", "dual"])
def test_nothing_is_written_to_kafka_once_the_session_has_ended_while_the_coordinator_was_asked(rig, kind):
    store = getattr(rig, kind)
    seen = rig.commit(store, {P0: 7, P1: 5}).committed
    session = rig.zk.session_id
    rig.channel.before_read = lambda: rig.server.expire(session)
    result = rig.commit(store, {P0: 8, P1: 6}, seen)
    assert isinstance(result.failure, SessionExpiredError)
    assert rig.channel.writes == [{P0: 7, P1: 5}]


# Kafka alone


def test_a_commit_goes_to_kafka_in_one_request_and_leaves_no_znode(rig):
    result = rig.commit(rig.kafka, {P0: 7, P1: 0})
    assert rig.channel.writes == [{P0: 7, P1: 0}]
    assert {tp: kept.offset for tp, kept in result.committed.items()} == {P0: 7, P1: 0}
    assert rig.zk.exists("/consumers/g/offsets") is None
    assert {tp: kept.offset for tp, kept in rig.kafka.read([P0, P1]).items()} == {P0: 7, P1: 0}


def test_a_member_that_is_not_registered_any_more_commits_nothing(rig):
    rig.zk.delete("/consumers/g/ids/g_a")
    result = rig.commit(rig.kafka, {P0: 7})
    assert isinstance(result.failure, SessionExpiredError)
    assert rig.channel.kept == {}


def test_a_member_of_a_dead_session_commits_nothing(rig):
    seen = rig.kafka.read([P0])
    result = rig.kafka.commit({P0: Commit(7, seen[P0])}, consumer_id="g_a", session_id=12345)
    assert isinstance(result.failure, SessionExpiredError)
    assert rig.channel.kept == {}


def test_partitions_without_an_owner_znode_are_left_out(rig):
    rig.zk.delete("/consumers/g/owners/t/0")
    assert rig.commit(rig.kafka, {P0: 7, P1: 5}).unowned == {P0}
    assert rig.in_kafka() == {P1: 5}


def test_a_member_whose_owner_znodes_come_and_go_commits_nothing(rig, monkeypatch):
    def refuse(ops, **how):
        raise MultiFailedError(1, "/consumers/g/owners/t/0", NoNodeError("/consumers/g/owners/t/0"))

    monkeypatch.setattr(rig.zk, "multi", refuse)
    result = rig.commit(rig.kafka, {P0: 5, P1: 7})
    assert isinstance(result.failure, OffsetError)
    assert "created again" in str(result.failure)
    assert rig.in_kafka() == {}


def test_an_owner_znode_that_an_acl_closes_holds_up_the_offset_of_its_partition_alone(rig, monkeypatch):
    closed, multi = NotPermittedError("/consumers/g/owners/t/0"), rig.zk.multi

    def refuse(ops, **how):
        for index, op in enumerate(ops):
            if op.path == "/consumers/g/owners/t/0":
                raise MultiFailedError(index, op.path, closed)
        return multi(ops, **how)

    monkeypatch.setattr(rig.zk, "multi", refuse)
    result = rig.commit(rig.kafka, {P0: 5, P1: 7})
    assert (result.failure, result.refused) == (None, {P0: closed})
    assert rig.in_kafka() == {P1: 7}


def test_an_offset_of_another_client_stands_while_an_acl_closes_the_owner_znode(rig, monkeypatch):
    seen = rig.commit(rig.kafka, {P0: 7, P1: 5}).committed
    rig.channel.kept[P0] = KafkaOffset(3)
    closed = close_owner(monkeypatch, rig.zk, P0)
    result = rig.commit(rig.kafka, {P0: 8, P1: 6}, seen)
    assert (result.failure, result.foreign, result.refused) == (None, {}, {P0: closed})
    assert rig.in_kafka() == {P0: 3, P1: 6}


def test_a_partition_whose_owner_znode_an_acl_closes_is_not_free(rig, monkeypatch):
    close_owner(monkeypatch, rig.zk, P0)
    rig.zk.delete("/consumers/g/owners/t/1")
    seen = rig.kafka.read([P0, P1])
    commits = {tp: Commit(5, seen[tp]) for tp in (P0, P1)}
    result = rig.kafka.commit(commits, consumer_id=None, session_id=None)
    assert (result.failure, result.unowned) == (None, {P0})
    assert rig.in_kafka() == {P1: 5}


def test_an_offset_that_somebody_else_committed_is_reported_and_not_overwritten(rig):
    seen = rig.commit(rig.kafka, {P0: 7, P1: 5}).committed
    rig.channel.kept[P0] = KafkaOffset(3)
    result = rig.commit(rig.kafka, {P0: 8, P1: 6}, seen)
    assert rig.in_kafka() == {P0: 3, P1: 6}
    assert {tp: kept.offset for tp, kept in result.foreign.items()} == {P0: 3}
    rig.commit(rig.kafka, {P0: 8}, result.foreign)
    assert rig.in_kafka() == {P0: 8, P1: 6}, "having seen it, it may be overwritten"


def test_a_partition_that_another_member_owns_and_committed_by_now_is_not_moved_back(rig):
    seen = rig.commit(rig.kafka, {P0: 7, P1: 5}).committed
    other = MemoryStore(rig.server)
    other.start()
    other.delete("/consumers/g/owners/t/0")
    other.create("/consumers/g/owners/t/0", b"g_b-0", ephemeral=True)
    rig.channel.kept[P0] = KafkaOffset(9)
    result = rig.commit(rig.kafka, {P0: 8, P1: 6}, seen)
    assert (result.unowned, result.foreign) == ({P0}, {})
    assert rig.in_kafka() == {P0: 9, P1: 6}


class Interrupted(BaseException):
    """An interrupt, such as KeyboardInterrupt."""


def interrupt():
    raise Interrupted


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_a_commit_without_an_answer_that_is_interrupted_at_any_line_is_not_taken_for_somebody_elses(storage):
    for line in range(1000):
        rig = Rig()
        store = getattr(rig, storage)
        rig.commit(store, {P0: 3})
        seen = store.read([P0])
        answers = iter([Fault.LOSE_REPLY])
        if storage == "zookeeper":
            rig.server.fault = lambda _, kind, answers=answers: next(answers, None) if kind == "multi" else None
        rig.channel.lost = 1
        struck = False
        try:
            with AtLine(line, interrupt):
                rig.commit(store, {P0: 5}, seen)
        except Interrupted:
            struck = True
        rig.server.fault, rig.channel.lost = None, 0
        result = rig.commit(store, {P0: 7}, seen)
        assert (result.foreign, result.failure) == ({}, None), line
        if not struck:
            return
    raise AssertionError("the commit never came to its end")


@pytest.mark.parametrize("is_told", [True, False])
def test_an_unanswered_commit_stays_our_own_after_the_same_offset_was_refused(rig, is_told):
    seen = rig.kafka.read([P0])
    rig.channel.lost = 1
    assert rig.commit(rig.kafka, {P0: 3}, seen).failure is not None
    # the second try is refused, perhaps because of another partition, and perhaps no read shows the stored offset
    rig.channel.refused = {P0}
    rig.channel.before_write = lambda: rig.channel.untold.update(set() if is_told else {P0})
    rig.commit(rig.kafka, {P0: 3}, seen)
    rig.channel.mend()
    result = rig.commit(rig.kafka, {P0: 6}, seen)
    assert (result.foreign, result.failure, rig.in_kafka()) == ({}, None, {P0: 6})


def test_an_offset_that_expired_is_committed_again(rig):
    seen = rig.commit(rig.kafka, {P0: 7}).committed
    rig.channel.kept.clear()
    result = rig.commit(rig.kafka, {P0: 7}, seen)
    assert result.foreign == {}
    assert rig.in_kafka() == {P0: 7}


def test_of_a_commit_that_was_refused_in_part_the_rest_stands(rig):
    rig.channel.refused = {P0}
    result = rig.commit(rig.kafka, {P0: 7, P1: 5})
    assert result.failure is not None
    assert result.failure.partitions == (P0,)
    assert result.committed.keys() == {P1}


def test_a_commit_without_an_answer_is_a_failure_of_all_its_partitions(rig):
    seen = rig.kafka.read([P0, P1])
    rig.channel.before_write = lambda: setattr(rig.channel, "down", 1)
    result = rig.commit(rig.kafka, {P0: 7, P1: 5}, seen)
    assert result.failure is not None
    assert result.failure.partitions == (P0, P1)
    assert result.committed == {}


def test_a_commit_whose_answer_was_lost_is_not_taken_for_somebody_elses(rig):
    seen = rig.kafka.read([P0])
    rig.channel.lost = 1
    assert rig.commit(rig.kafka, {P0: 7}, seen).failure is not None
    assert rig.in_kafka() == {P0: 7}
    stands = rig.kafka.read([P0])[P0]
    assert (rig.kafka.wrote(P0, stands), rig.kafka.wrote(P1, stands)) == (True, False)
    result = rig.commit(rig.kafka, {P0: 9}, seen)
    assert (result.foreign, result.failure) == ({}, None)
    assert rig.in_kafka() == {P0: 9}


def test_a_refusal_that_waiting_does_not_mend_is_no_retriable_failure(rig):
    seen = rig.kafka.read([P0])
    rig.channel.read = lambda *_: (_ for _ in ()).throw(GroupRefusedError("g", "no"))
    failure = rig.commit(rig.kafka, {P0: 7}, seen).failure
    assert isinstance(failure, OffsetsNotCommittedError)
    assert not failure.retriable


def test_a_partition_that_the_coordinator_does_not_tell_about_is_refused_alone(rig):
    rig.channel.untold = {P0}
    found = rig.kafka.read([P0, P1])
    assert "allow this client's principal Read" in found[P0].problem
    result = rig.commit(rig.kafka, {P0: 7, P1: 5}, found)
    assert result.refused.keys() == {P0}
    assert rig.in_kafka() == {P1: 5}


def test_a_coordinator_that_is_not_ready_is_asked_again(rig):
    rig.channel.kept[P0] = KafkaOffset(7)
    rig.channel.down = 3
    assert rig.kafka.read([P0])[P0].offset == 7


def test_a_coordinator_that_never_comes_is_an_error_within_the_bound(rig):
    rig.channel.down = 10**9
    with pytest.raises(GroupOffsetsUnavailableError, match="no group coordinator answered") as caught:
        rig.kafka.read([P0])
    assert caught.value.retriable


def test_an_offset_of_an_earlier_topic_counts_as_none(rig):
    rig.commit(rig.kafka, {P0: 7})
    rig.recreate_topic()
    found = rig.kafka.read([P0])[P0]
    assert (found.offset, found.outlived) == (None, 7)
    assert rig.commit(rig.kafka, {P0: 1}).foreign == {}
    assert rig.kafka.read([P0])[P0].offset == 1


def test_an_offset_that_does_not_say_for_which_topic_it_is_is_taken_as_the_jvm_takes_it(rig):
    rig.channel.kept[P0] = KafkaOffset(7, "")
    rig.channel.kept[P1] = KafkaOffset(8, "somebody's note")
    rig.recreate_topic()
    assert {tp: kept.offset for tp, kept in rig.kafka.read([P0, P1]).items()} == {P0: 7, P1: 8}


# ZooKeeper alone


def test_an_offset_znode_older_than_its_topic_counts_as_none_and_is_overwritten(rig):
    rig.commit(rig.zookeeper, {P0: 7})
    rig.recreate_topic()
    found = rig.zookeeper.read([P0])[P0]
    assert (found.offset, found.outlived) == (None, 7)
    assert rig.commit(rig.zookeeper, {P0: 1}).foreign == {}
    assert rig.zookeeper.read([P0])[P0].offset == 1


def test_a_topic_that_gets_partitions_keeps_its_offsets(rig):
    rig.commit(rig.zookeeper, {P0: 7})
    rig.zk.set_data("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0],"2":[0]}}')
    assert rig.zookeeper.read([P0])[P0].offset == 7


def test_offsets_of_a_topic_that_does_not_exist_are_read_as_they_are(rig):
    rig.commit(rig.zookeeper, {P0: 7})
    rig.zk.delete("/brokers/topics/t")
    assert rig.zookeeper.read([P0])[P0].offset == 7


# Both


@pytest.mark.parametrize(
    ("in_zookeeper", "in_kafka", "counts"),
    [(5, 9, 9), (9, 5, 9), (None, 5, 5), (5, None, 5), (None, None, None), (0, None, 0)],
)
def test_the_greater_of_both_offsets_counts(in_zookeeper, in_kafka, counts):
    assert greater(Committed(in_zookeeper, 3), KafkaOffset(in_kafka)) == Committed(counts, 3)


@pytest.mark.parametrize(
    ("zookeeper", "kafka", "counts"),
    [
        # both offsets are of the earlier topic; Kafka's is marked as such, or is not
        (Committed(None, 3, ANEW, outlived=9), KafkaOffset(9, "topic-czxid=0x20"), Committed(None, 3, ANEW, 9)),
        (Committed(None, 3, ANEW, outlived=9), KafkaOffset(9), Committed(None, 3, ANEW, 9)),
        # Kafka's offset is of the present topic
        (Committed(None, 3, ANEW, outlived=9), KafkaOffset(4, "topic-czxid=0x32"), Committed(4, 3, ANEW)),
        # Kafka's offset is higher than the znode's and unmarked: nothing shows that it is of the earlier topic
        (Committed(None, 3, ANEW, outlived=9), KafkaOffset(12), Committed(12, 3, ANEW)),
        # the znode's offset is of the present topic
        (Committed(2, 3, ANEW), KafkaOffset(9, "topic-czxid=0x20"), Committed(2, 3, ANEW)),
    ],
)
def test_offsets_of_an_earlier_topic_count_in_neither_store(zookeeper, kafka, counts):
    assert greater(zookeeper, kafka) == counts


def test_a_commit_to_both_writes_what_changed_to_zookeeper_and_all_to_kafka(rig):
    rig.commit(rig.dual, {P0: 7, P1: 5})
    rig.commit(rig.dual, {P0: 8, P1: 5})
    assert rig.channel.writes == [{P0: 7, P1: 5}, {P0: 8, P1: 5}]
    assert (rig.in_zookeeper(P0), rig.in_zookeeper(P1)) == (8, 5)
    assert rig.zk.get_data("/consumers/g/offsets/t/1").stat.version == 0, "not written again"


def test_the_first_commit_to_both_tells_zookeeper_the_greater_offset_that_only_kafka_has(rig):
    rig.commit(rig.kafka, {P0: 7})
    seen = rig.dual.read([P0])
    assert seen[P0].offset == 7
    assert rig.zookeeper.read([P0])[P0].offset is None
    rig.commit(rig.dual, {P0: 7}, seen)
    assert rig.zookeeper.read([P0])[P0].offset == 7
    version = rig.zookeeper.read([P0])[P0].version
    rig.commit(rig.dual, {P0: 7}, rig.dual.read([P0]))
    assert rig.zookeeper.read([P0])[P0].version == version


def test_a_commit_to_both_stores_tells_what_kafka_refused(rig):
    seen = rig.dual.read([P0, P1])
    rig.channel.untold = {P1}
    result = rig.commit(rig.dual, {P0: 7, P1: 5}, seen)
    assert result.refused.keys() == {P1}
    assert rig.in_kafka() == {P0: 7}


def test_offsets_that_zookeeper_refuses_are_not_sent_to_kafka(rig):
    seen = rig.commit(rig.dual, {P0: 7, P1: 5}).committed
    rig.zk.set_data("/consumers/g/offsets/t/0", b"3")
    result = rig.commit(rig.dual, {P0: 8, P1: 6}, seen)
    assert {tp: kept.offset for tp, kept in result.foreign.items()} == {P0: 3}
    assert rig.in_kafka() == {P0: 7, P1: 6}


def test_an_unchanged_offset_of_a_partition_that_was_lost_does_not_reach_kafka(rig):
    seen = rig.commit(rig.dual, {P0: 7}).committed
    rig.channel.kept[P0] = KafkaOffset(20)
    rig.zk.delete("/consumers/g/owners/t/0")
    assert rig.commit(rig.dual, {P0: 7}, seen).unowned == {P0}
    assert rig.in_kafka() == {P0: 20}


def test_a_commit_to_both_of_an_offset_that_stands_counts_as_committed(rig):
    seen = rig.commit(rig.dual, {P0: 7}).committed
    assert rig.commit(rig.dual, {P0: 7}, seen).committed.keys() == {P0}
    rig.zk.delete("/consumers/g/owners/t/0")
    assert rig.commit(rig.dual, {P0: 7}, seen).committed == {}


def test_an_offset_that_an_operator_set_in_both_stores_is_not_overwritten_by_a_commit_of_the_former_one(rig):
    seen = rig.commit(rig.dual, {P0: 7, P1: 5}).committed
    rig.channel.kept[P0] = KafkaOffset(3)
    rig.zk.set_data("/consumers/g/offsets/t/0", b"3")
    result = rig.commit(rig.dual, {P0: 7, P1: 5}, seen)
    assert {tp: kept.offset for tp, kept in result.foreign.items()} == {P0: 3}
    assert (rig.in_kafka(), rig.in_zookeeper(P0)) == ({P0: 3, P1: 5}, 3)


def test_an_offset_for_which_a_commit_makes_the_znode_is_no_other_clients_in_the_next_commit(rig):
    rig.commit(rig.kafka, {P0: 7})
    seen = rig.dual.read([P0])
    # an operator writes the offset to ZooKeeper too, the user's code reads it, and the operator deletes it again
    rig.zk.create("/consumers/g/offsets/t/0", b"7", make_parents=True)
    rig.dual.read([P0])
    rig.zk.delete("/consumers/g/offsets/t/0")
    seen = rig.commit(rig.dual, {P0: 7}, seen).committed
    assert rig.commit(rig.dual, {P0: 8}, seen).foreign == {}
    assert (rig.in_kafka(), rig.in_zookeeper(P0)) == ({P0: 8}, 8)


def test_an_offset_that_stands_is_not_sent_to_kafka_for_a_partition_that_another_member_owns(rig):
    rig.commit(rig.dual, {P0: 7})
    seen = rig.dual.read([P0])
    rig.channel.kept[P0] = KafkaOffset(20)
    result = rig.dual.commit({P0: Commit(7, seen[P0])}, consumer_id=None, session_id=None)
    assert result.unowned == {P0}
    assert rig.in_kafka() == {P0: 20}


def test_without_a_coordinator_zookeeper_has_the_offset_and_the_failure_is_told(rig):
    seen = rig.dual.read([P0])
    rig.channel.down = 10**9
    result = rig.commit(rig.dual, {P0: 7}, seen)
    assert result.failure is not None
    assert rig.in_zookeeper(P0) == 7
    rig.channel.down = 0
    assert rig.dual.read([P0])[P0].offset == 7


def test_closing_closes_the_way_to_the_coordinator(rig):
    rig.dual.close()
    assert rig.channel.closed


def test_an_operator_that_sets_both_stores_while_a_member_reads_them_is_not_overwritten(rig):
    rig.commit(rig.dual, {P0: 8})

    def operator():
        rig.channel.before_read = lambda: None
        rig.channel.kept[P0] = KafkaOffset(3)
        rig.zk.set_data("/consumers/g/offsets/t/0", b"3")

    rig.channel.before_read = operator
    seen = rig.dual.read([P0])
    result = rig.commit(rig.dual, {P0: 9}, seen)
    assert {tp: kept.offset for tp, kept in result.foreign.items()} == {P0: 3}
    assert (rig.in_kafka(), rig.in_zookeeper(P0)) == ({P0: 3}, 3)


def test_kafka_gets_nothing_of_a_commit_during_which_the_session_ended(rig, monkeypatch):
    rig.commit(rig.dual, {P0: 1, P1: 1})
    seen = rig.dual.read([P0, P1])
    # so that the store tries P1 in a separate request, after the other partitions
    monkeypatch.setitem(rig.zookeeper._refused, P1, SessionExpiredError("as if refused"))
    multi, asked = rig.zk.multi, []

    def over_after_the_first(ops, **how):
        asked.append(ops)
        if len(asked) > 1:
            raise SessionExpiredError("the session is over")
        return multi(ops, **how)

    monkeypatch.setattr(rig.zk, "multi", over_after_the_first)
    result = rig.commit(rig.dual, {P0: 7, P1: 5}, seen)
    assert isinstance(result.failure, SessionExpiredError)
    assert (rig.in_zookeeper(P0), rig.in_kafka()) == (7, {P0: 1, P1: 1})
