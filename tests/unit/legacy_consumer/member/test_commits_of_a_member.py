"""Guarantees for users and operators when a member commits: whole connectors, all in memory."""

import contextlib
import logging
import threading
from itertools import islice

import pytest

from legacy_consumer import ConsumerTimeoutError, Phase
from legacy_consumer.errors import (
    BrokersUnavailableError,
    CallInProgressError,
    CommitFailedError,
    ConsumerClosedError,
    NotJoinedError,
    OffsetsNotCommittedError,
)
from legacy_consumer.offsets import CommitResult, ZooKeeperOffsetStore
from legacy_consumer.offsets.progress import Committed
from rebalance.coordinator import Coordinator
from rebalance.mailbox import Errand
from tests.support.member_cluster import MemberCluster, RefusingStore
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.errors import ConnectionLostError, NotPermittedError
from zk_layout.memory_store import Refusal
from zk_layout.model import TopicAssignment, TopicPartition

TPS = [TopicPartition("t", n) for n in range(4)]


@pytest.fixture
def cluster():
    cluster = MemberCluster({"t": 4}, drain_timeout_ms=3000)
    yield cluster
    cluster.close()


def stream_of(connector):
    return connector.create_message_streams({"t": 1})["t"][0]


def take(stream, count):
    return sorted((m.partition(), m.offset()) for m in islice(stream, count))


def offsets_of(messages):
    return [message.offset() for message in messages]


class Consuming:
    """A thread of the user's code that takes all messages of a stream."""

    def __init__(self, stream):
        self.got = []
        self._thread = threading.Thread(target=self._run, args=(stream,), daemon=True)
        self._thread.start()

    def _run(self, stream):
        for message in stream:
            self.got.append((message.partition(), message.offset()))


def test_commits_go_on_where_the_version_of_an_offset_znode_begins_anew_below_zero(cluster):
    cluster.produce(1, *TPS)
    cluster.write(TPS[0], b"0")
    nodes = cluster.zookeeper.tree._nodes
    path = cluster.path(TPS[0])
    nodes[path] = nodes[path]._replace(version=2**31 - 2)
    _, stream = cluster.join(auto_commit_enable=False)
    connector = cluster.connectors[-1]
    for done in (1, 2, 3, 4):
        take(stream, 4)
        connector.commit_offsets()
        assert [cluster.committed(tp) for tp in TPS] == [done] * 4
        cluster.produce(1, *TPS)
    assert cluster.admin.get_data(path).stat.version == -(2**31) + 2


# One bad partition


@pytest.mark.parametrize("conflict", ["keep", "adopt"])
def test_garbage_in_an_offset_znode_is_overwritten_by_its_owner_and_stops_no_other_commit(cluster, conflict):
    cluster.produce(5, *TPS)
    connector = cluster.connector(commit_conflict=conflict, auto_commit_enable=False)
    stream = stream_of(connector)
    take(stream, 20)
    connector.commit_offsets()
    cluster.write(TPS[3], b"7\n")
    cluster.produce(5, *TPS)
    assert take(stream, 20) == [(n, offset) for n in range(4) for offset in range(5, 10)]
    connector.commit_offsets()
    assert [cluster.committed(tp) for tp in TPS] == [10, 10, 10, 10]


@pytest.mark.parametrize("storage", ["zookeeper", "both"])
def test_offsets_that_were_imported_before_their_topic_was_made_outlive_the_deletion_of_another_topic(storage):
    cluster = MemberCluster({"other": 1})
    for tp in TPS[:2]:
        cluster.write(tp, b"3")
    cluster.create_topic("t", 2)
    cluster.produce(3, *TPS[:2])
    offsets = {} if storage == "zookeeper" else {"offsets_storage": "kafka", "dual_commit_enabled": True}
    first, stream = cluster.join(auto_commit_interval_ms=20, **offsets)
    assert first.wait_until(lambda status: status.phase is Phase.STABLE, 60)
    eventually(lambda: all(cluster.admin.get_data(cluster.path(tp)).stat.version == 1 for tp in TPS[:2]))
    first.shutdown()
    cluster.admin.delete("/brokers/topics/other")
    cluster.produce(1, *TPS[:2])
    _, stream = cluster.join(**offsets)
    assert take(stream, 2) == [(0, 3), (1, 3)]
    cluster.close()


def test_a_partition_whose_offset_nobody_can_read_waits_alone_until_it_is_mended(cluster):
    cluster.produce(3, *TPS)
    cluster.write(TPS[2], b"two")
    connector = cluster.connector(rebalance_max_retries=1, rebalance_backoff_ms=10)
    consuming = Consuming(stream_of(connector))
    eventually(lambda: sorted(consuming.got) == [(n, offset) for n in (0, 1, 3) for offset in range(3)])
    assert connector.wait_until(lambda status: status.phase is Phase.DEGRADED, 60)
    assert "/consumers/g/offsets/t/2 holds b'two'" in str(connector.status.error)
    cluster.write(TPS[2], b"1")
    eventually(lambda: [offset for partition, offset in consuming.got if partition == 2] == [1, 2])
    assert connector.wait_until(lambda status: status.phase is Phase.STABLE and status.error is None, 60)


def test_a_partition_whose_commit_is_refused_for_good_costs_the_others_nothing_and_is_given_up_in_time(cluster, caplog):
    cluster.produce(5, *TPS)
    first = cluster.connector(consumer_id="a", auto_commit_interval_ms=20)
    first._store.refused = {cluster.path(TPS[3])}
    consuming = Consuming(stream_of(first))
    eventually(lambda: [cluster.committed(tp) for tp in TPS] == [5, 5, 5, None])
    cluster.produce(5, *TPS)
    eventually(lambda: [cluster.committed(tp) for tp in TPS] == [10, 10, 10, None])
    second = cluster.connector(consumer_id="b")
    stream_of(second)
    for member in (first, second):
        assert member.wait_until(lambda status: status.phase is Phase.STABLE and len(status.owned) == 2, 60)
    assert len(consuming.got) == 40
    said = [record for record in caplog.records if "cannot be committed" in record.getMessage()]
    assert len(said) == 1
    assert said[0].levelno == logging.ERROR
    assert first.counters.failed_commits > 1


def refused_commits(request, connector, module, text):
    """Return the errors of a logging handler that commits when this module logs the text."""
    caught = []

    class Committing(logging.Handler):
        def emit(self, record):
            if text in record.getMessage():
                with pytest.raises(CallInProgressError) as refused:
                    connector.commit_offsets()
                caught.append(refused.value)

    logger, handler = logging.getLogger(f"legacy_consumer.member.{module}"), Committing()
    logger.addHandler(handler)
    request.addfinalizer(lambda: logger.removeHandler(handler))
    return caught


def test_a_logging_handler_inside_an_auto_commit_is_refused_a_commit_and_later_commits_go_on(cluster, request):
    cluster.produce(5, *TPS)
    connector = cluster.connector(auto_commit_interval_ms=20)
    connector._store.refused = {cluster.path(TPS[3])}
    caught = refused_commits(request, connector, "committer", "cannot be committed")
    Consuming(stream_of(connector))
    eventually(lambda: caught)
    cluster.produce(5, *TPS)
    eventually(lambda: [cluster.committed(tp) for tp in TPS] == [10, 10, 10, None])


def test_a_logging_handler_that_is_called_while_partitions_begin_is_refused_a_commit_and_the_member_goes_on(
    cluster, request
):
    """In an earlier version, it waited for ever for a lock of its own thread, and so did the coordinator."""
    cluster.produce(5, *TPS)
    connector, _ = cluster.join(auto_offset_reset="largest")
    caught = refused_commits(request, connector, "stream_delivery", "starts without log offsets")

    def unavailable():
        raise BrokersUnavailableError("down")

    connector._membership.delivery._log_offsets = unavailable
    cluster.zookeeper.expire(connector._store.session_id)
    eventually(lambda: caught)
    eventually(lambda: connector.status.phase is Phase.STABLE)
    connector.commit_offsets()


def test_a_finaliser_inside_an_auto_commit_is_refused_an_acknowledgement_and_later_commits_go_on(cluster, monkeypatch):
    """The interpreter may call a finaliser anywhere. Earlier it waited for ever for a lock of its own thread."""
    cluster.produce(5, TPS[0])
    connector, stream = cluster.join(auto_commit_interval_ms=20, delivery_rule="acknowledged")
    message, *others = islice(stream, 5)
    caught = []

    def finalise(*_):
        if not caught and threading.current_thread() is not threading.main_thread():
            with pytest.raises(CallInProgressError) as refused:
                connector.acknowledge(message)
            caught.append(refused.value)
        return True

    connector.acknowledge(message)
    eventually(lambda: cluster.committed(TPS[0]) == 1)
    monkeypatch.setattr(ZooKeeperOffsetStore, "wants_unchanged", finalise)
    eventually(lambda: caught)
    for other in others:
        connector.acknowledge(other)
    eventually(lambda: cluster.committed(TPS[0]) == 5)


def test_a_finaliser_inside_an_auto_commit_may_read_the_progress_and_later_commits_go_on(cluster, monkeypatch):
    """In an earlier version, it waited for ever for the lock that its own thread, the coordinator's, held."""
    cluster.produce(5, TPS[0])
    connector, stream = cluster.join(auto_commit_interval_ms=20)
    assert [next(stream).offset() for _ in range(3)] == [0, 1, 2]
    eventually(lambda: cluster.committed(TPS[0]) == 2)
    seen = []

    def finalise(*_):
        if not seen and threading.current_thread().name.endswith("-coordinator"):
            # another thread makes more progress than this commit has noted
            taking = threading.Thread(target=lambda: [next(stream), next(stream)])
            taking.start()
            taking.join()
            seen.append(connector.progress[TPS[0]].consumed)
        return False

    monkeypatch.setattr(ZooKeeperOffsetStore, "wants_unchanged", finalise)
    eventually(lambda: seen)
    assert seen == [2]
    eventually(lambda: cluster.committed(TPS[0]) == 4)


def test_refused_offsets_are_committed_once_they_are_allowed_again(cluster):
    cluster.produce(5, *TPS)
    connector = cluster.connector(auto_commit_enable=False)
    connector._store.refused = {cluster.path(tp) for tp in TPS[1:]}
    take(stream_of(connector), 20)
    with pytest.raises(OffsetsNotCommittedError, match="3 offsets of group 'g' were not committed") as caught:
        connector.commit_offsets()
    assert caught.value.reasons.keys() == set(TPS[1:])
    connector._store.refused = {cluster.path(TPS[1])}
    with pytest.raises(OffsetsNotCommittedError, match="t/1"):
        connector.commit_offsets()
    assert [cluster.committed(tp) for tp in TPS] == [5, None, 5, 5]
    connector._store.refused = frozenset()
    connector.commit_offsets()
    assert [cluster.committed(tp) for tp in TPS] == [5] * 4


def test_an_auto_commit_that_meets_what_nobody_foresaw_says_so_once_and_goes_on(cluster, caplog):
    cluster.produce(5, *TPS)
    connector = cluster.connector(auto_commit_interval_ms=20)
    consuming = Consuming(stream_of(connector))
    eventually(lambda: [cluster.committed(tp) for tp in TPS] == [5] * 4)
    store = connector._offsets
    commit, raised = store.commit, []

    def fail(*args, **options):
        raised.append(1)
        raise MemoryError("no room")

    store.commit = fail
    cluster.produce(5, *TPS)
    eventually(lambda: len(raised) > 2)
    eventually(lambda: "MemoryError: no room" in str(connector.status.error))
    assert connector.status.phase is Phase.STABLE
    assert connector.counters.member.unexpected_errors > 1
    assert connector.counters.failed_commits > 1
    store.commit = commit
    eventually(lambda: [cluster.committed(tp) for tp in TPS] == [10] * 4)
    eventually(lambda: connector.status.error is None)
    assert len(consuming.got) == 40
    assert caplog.text.count("commit failed, goes on with the next one") == 1


def raise_in_logs(request, level, error):
    """Return the messages that a logging handler got at this level; it raises the error at each."""
    raised = []

    class Raising(logging.Handler):
        def emit(self, record):
            raised.append(record.getMessage())
            raise error

    logger, handler = logging.getLogger("rebalance"), Raising(level)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    request.addfinalizer(lambda: logger.removeHandler(handler))
    request.addfinalizer(lambda: logger.setLevel(before))
    return raised


@pytest.fixture(params=[OSError("the disk is full"), SystemExit(1)], ids=["raises", "exits"])
def raised_by_handler(request, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    return request.param


def test_a_logging_handler_that_raises_at_each_message_does_not_keep_a_member_from_joining(
    cluster, request, raised_by_handler
):
    raised = raise_in_logs(request, logging.INFO, raised_by_handler)
    cluster.produce(1, *TPS)
    connector, stream = cluster.join()
    assert take(stream, 4) == [(n, 0) for n in range(4)]
    assert len(raised) >= 2
    assert connector.status.phase is Phase.STABLE


def test_a_logging_handler_that_raises_as_a_commit_fails_does_not_end_the_member(cluster, request, raised_by_handler):
    """In an earlier version the coordinator's thread ended, but the streams went on: no commit, rebalance or error."""
    cluster.produce(5, *TPS)
    connector = cluster.connector(auto_commit_interval_ms=20)
    consuming = Consuming(stream_of(connector))
    eventually(lambda: [cluster.committed(tp) for tp in TPS] == [5] * 4)
    raised = raise_in_logs(request, logging.WARNING, raised_by_handler)
    failures = [ConnectionLostError("no answer")]
    commit = connector._offsets.commit

    def fail_once(*args, **options):
        return CommitResult(failure=failures.pop()) if failures else commit(*args, **options)

    connector._offsets.commit = fail_once
    cluster.produce(5, *TPS)
    eventually(lambda: [cluster.committed(tp) for tp in TPS] == [10] * 4)
    assert len(raised) == 1, raised
    assert len(consuming.got) == 40
    assert connector.vitals.runs


def test_an_audit_that_meets_what_nobody_foresaw_is_followed_by_the_next(cluster):
    connector = cluster.connector(audit_interval_ms=20)
    stream_of(connector)
    ownership = connector._membership._coordinator._ownership
    lost, raised = ownership.lost, []

    def fail():
        raised.append(1)
        raise RuntimeError("a defect")

    ownership.lost = fail
    eventually(lambda: len(raised) > 2)
    ownership.lost = lost
    eventually(lambda: connector.status.error is None)
    cluster.admin.delete("/consumers/g/owners/t/1")
    eventually(lambda: cluster.admin.exists("/consumers/g/owners/t/1"))


@pytest.mark.parametrize("conflict", ["keep", "adopt"])
def test_a_commit_to_kafka_whose_answer_was_lost_repeats_nothing(cluster, conflict):
    cluster.produce(30, TPS[0])
    connector = cluster.connector(
        offsets_storage="kafka",
        dual_commit_enabled=False,
        commit_conflict=conflict,
        auto_commit_enable=False,
        offsets_commit_max_retries=0,
    )
    stream = stream_of(connector)
    got = take(stream, 10)
    cluster.group_offsets.lost = 1
    with pytest.raises(CommitFailedError):
        connector.commit_offsets()
    got += take(stream, 10)
    assert connector.commit_offsets().foreign == {}
    assert connector.counters.foreign_commits == 0
    got += take(stream, 10)
    assert got == [(0, offset) for offset in range(30)]


def hold_coordinator(connector):
    """Stop the coordinator's thread until the returned event is set."""
    is_held, may_go_on = threading.Event(), threading.Event()
    connector._membership._post(Errand(lambda: is_held.set() or may_go_on.wait(20)))
    assert is_held.wait(20)
    return may_go_on


@pytest.mark.parametrize("dual", [False, True])
def test_a_commit_between_a_topics_new_creation_and_the_news_of_it_skips_no_message(cluster, dual):
    """An earlier version read the new topic from the old topic's offset, whose znode is younger than the new topic."""
    storage = "kafka" if dual else "zookeeper"
    connector = cluster.connector(offsets_storage=storage, dual_commit_enabled=dual, auto_commit_enable=False)
    stream = stream_of(connector)
    cluster.produce(9, TPS[0])
    take(stream, 5)
    connector.commit_offsets()
    take(stream, 1)
    may_go_on = hold_coordinator(connector)
    cluster.admin.delete("/brokers/topics/t")
    cluster.kafka.truncate(TPS[0], 0)
    cluster.create_topic("t", 4)
    connector.commit_offsets()
    assert cluster.committed(TPS[0]) == 6
    cluster.produce(9, TPS[0])
    may_go_on.set()
    eventually(lambda: connector.position(TPS[0]) in (None, 0))
    assert take(stream, 9) == [(0, offset) for offset in range(9)]
    connector.commit_offsets()
    assert cluster.committed(TPS[0]) == 9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("deleted", "another client deleted the offset of t/0, ours is 6"),
        ("unreadable", "another client committed an unreadable offset ("),
        ("written before its topic was created again", "another client committed 2 of t/0, ours is 6"),
    ],
)
def test_a_commit_that_meets_no_valid_offset_of_another_client_says_what_that_client_did(cluster, caplog, change, said):
    connector = cluster.connector(auto_commit_enable=False)
    stream = stream_of(connector)
    cluster.produce(9, TPS[0])
    take(stream, 3)
    connector.commit_offsets()
    take(stream, 3)
    # the coordinator must learn of a new topic later
    may_go_on = hold_coordinator(connector)
    if change == "deleted":
        cluster.admin.delete(cluster.path(TPS[0]))
    elif change == "unreadable":
        cluster.write(TPS[0], b"x")
    else:
        cluster.write(TPS[0], b"2")
        cluster.admin.delete("/brokers/topics/t")
        cluster.create_topic("t", 4)
    connector.commit_offsets()
    may_go_on.set()
    assert said in caplog.text


class Replaced:
    """A member that commits 6 just after its topic was created again; the coordinator learns of it after may_learn."""

    def __init__(self, cluster, listener=None):
        self.cluster = cluster
        self.connector = cluster.connector(auto_commit_enable=False)
        if listener is not None:
            self.connector.set_rebalance_listener(listener)
        stream = stream_of(self.connector)
        cluster.produce(9, TPS[0])
        take(stream, 6)
        self.may_learn = hold_coordinator(self.connector)
        cluster.admin.delete("/brokers/topics/t")
        cluster.create_topic("t", 4)
        self.connector.commit_offsets()
        assert cluster.committed(TPS[0]) == 6


def test_what_an_operator_writes_for_a_new_topic_stands_though_a_member_had_committed_its_old_position(cluster):
    replaced = Replaced(cluster)
    cluster.write(TPS[0], b"3")
    replaced.may_learn.set()
    eventually(lambda: replaced.connector.position(TPS[0]) == 3)
    assert cluster.committed(TPS[0]) == 3


def test_a_lost_request_delays_the_end_of_a_commit_for_a_new_topic_and_the_listener_is_told_once(cluster):
    lost = []

    class Listener:
        def on_partitions_lost(self, partitions):
            lost.append(sorted(partitions))

        def before_starting_fetchers(self, claimed, assignment):
            pass

        def before_releasing_partitions(self, partitions):
            pass

    replaced = Replaced(cluster, Listener())
    buried, refused = replaced.connector._membership.delivery._buried, []

    def fault(_session, kind):
        # refuse the request that reads once, then the request that writes once
        if buried and len(refused) < 2 and kind == ("multi_read", "multi")[len(refused)]:
            refused.append(kind)
            return Refusal(ConnectionLostError("no answer in time"))
        return None

    cluster.zookeeper.fault = fault
    replaced.may_learn.set()
    eventually(lambda: cluster.committed(TPS[0]) == 0)
    cluster.zookeeper.fault = None
    eventually(lambda: replaced.connector.position(TPS[0]) == 0)
    assert (refused, lost) == (["multi_read", "multi"], [TPS])


def test_a_refused_end_of_a_commit_for_a_new_topic_is_logged_and_holds_nothing_up(cluster, caplog):
    replaced = Replaced(cluster)
    cluster.zookeeper.fault = lambda _session, kind: Refusal(NotPermittedError("/x")) if kind == "multi" else None
    replaced.may_learn.set()
    eventually(lambda: "committed 6 of t/0 for its earlier topic, which counts for the new one" in caplog.text)
    cluster.zookeeper.fault = None
    eventually(lambda: replaced.connector.position(TPS[0]) == 6)


# Commits by name


@pytest.mark.parametrize("offsets", [None, {TPS[0]: 4}], ids=["consumed", "by name"])
def test_a_commit_that_other_clients_overtake_twice_says_what_was_not_committed(cluster, monkeypatch, offsets):
    cluster.produce(5, *TPS[:2])
    connector, stream = cluster.join(auto_commit_enable=False)
    take(stream, 10)
    multi = RefusingStore.multi
    foreign = iter((b"1", b"2"))

    def overtaken(store, ops, **options):
        if (data := next(foreign, None)) is not None:
            cluster.write(TPS[0], data)
        return multi(store, ops, **options)

    monkeypatch.setattr(RefusingStore, "multi", overtaken)
    with pytest.raises(
        OffsetsNotCommittedError, match=r"1 offsets .*t/0: another client keeps committing it"
    ) as raised:
        connector.commit_offsets(offsets)
    assert list(raised.value.reasons) == [TPS[0]]
    assert cluster.committed(TPS[1]) == (5 if offsets is None else None)
    connector.commit_offsets(offsets)
    assert cluster.committed(TPS[0]) == (5 if offsets is None else 4)


@pytest.mark.parametrize("conflict", ["keep", "adopt"])
@pytest.mark.parametrize("is_overtaken", [False, True], ids=["written", "refused"])
def test_a_commit_whose_partition_follows_a_reset_meanwhile_changes_nothing_after_it(
    cluster, monkeypatch, conflict, is_overtaken
):
    """The coordinator's thread follows a reset as soon as another thread has noted its commit."""
    cluster.produce(20, TPS[0])
    connector, stream = cluster.join(auto_commit_enable=False, commit_conflict=conflict)
    batches = stream.batches(10)
    next(batches)
    commit, delivery = ZooKeeperOffsetStore.commit, connector._membership.delivery
    following = threading.Thread(target=lambda: delivery.follow(lambda: connector._offsets.read([TPS[0]])))

    def follow_a_reset_behind(store, commits, **options):
        monkeypatch.undo()
        if is_overtaken:
            cluster.write(TPS[0], b"7")
        result = commit(store, commits, **options)
        cluster.write(TPS[0], b"3")
        following.start()
        return result

    monkeypatch.setattr(ZooKeeperOffsetStore, "commit", follow_a_reset_behind)
    with contextlib.suppress(OffsetsNotCommittedError):
        connector.commit_offsets()
    following.join(30)
    assert cluster.committed(TPS[0]) == 3
    assert offsets_of(next(batches)) == list(range(3, 13))
    before = connector.counters.foreign_commits
    assert connector.commit_offsets().committed.keys() == {TPS[0]}
    assert connector.counters.foreign_commits == before
    assert (cluster.committed(TPS[0]), connector.position(TPS[0])) == (13, 13)


def test_another_clients_commit_of_a_partition_that_nobody_owns_is_no_foreign_commit(cluster, monkeypatch):
    """The metric counts only offsets of owned partitions."""
    cluster.create_topic("x", 1)
    unowned = TopicPartition("x", 0)
    connector, _ = cluster.join()
    commit = ZooKeeperOffsetStore.commit

    def commit_behind_another(store, commits, **options):
        monkeypatch.undo()
        cluster.write(unowned, b"3")
        return commit(store, commits, **options)

    monkeypatch.setattr(ZooKeeperOffsetStore, "commit", commit_behind_another)
    connector.commit_offsets({unowned: 4})
    assert cluster.committed(unowned) == 4
    assert connector.counters.foreign_commits == 0


def test_an_explicit_commit_is_not_undone_by_the_members_next_commit(cluster):
    cluster.produce(40, TPS[0])
    with cluster.connector(auto_commit_interval_ms=20) as connector:
        batches = stream_of(connector).batches(max_messages=10)
        next(batches)
        next(batches)
        before = connector.counters.commits
        eventually(lambda: cluster.committed(TPS[0]) == 10)
        connector.commit_offsets({TPS[0]: 20})
        assert cluster.committed(TPS[0]) == 20
        connector.commit_offsets({TPS[1]: 1})
        eventually(lambda: connector.counters.commits > before)
    assert cluster.committed(TPS[0]) == 20


def test_an_offset_by_name_before_the_progress_stands_until_the_next_commit(cluster):
    cluster.produce(40, TPS[0])
    with cluster.connector(auto_commit_enable=False) as connector:
        batches = stream_of(connector).batches(max_messages=10)
        next(batches)
        connector.commit_offsets()
        connector.commit_offsets({TPS[0]: 4})
        assert (cluster.committed(TPS[0]), connector.position(TPS[0])) == (4, 10)
        connector.commit_offsets()
        assert cluster.committed(TPS[0]) == 10


def test_an_explicit_commit_stays_when_its_partition_is_stopped_and_kept(cluster):
    cluster.produce(40, TPS[0])
    connector = cluster.connector(auto_commit_enable=False)
    batches = stream_of(connector).batches(max_messages=10)
    next(batches)
    connector.commit_offsets({TPS[0]: 10})
    connector._membership.delivery.stop([TPS[0]])
    connector._membership.delivery.go_on([TPS[0]])
    connector._membership.delivery.committer.commit()
    assert cluster.committed(TPS[0]) == 10


def test_an_offset_of_a_partition_that_another_member_owns_is_refused_unless_no_fence_is_asked_for(cluster):
    cluster.produce(100, TPS[3])
    first = cluster.connector(consumer_id="a", auto_commit_enable=False, drain_timeout_ms=50)
    batch = next(stream_of(first).batches(max_messages=10))
    second = cluster.connector(consumer_id="b", auto_commit_enable=False)
    stream = stream_of(second)
    assert second.wait_until(lambda status: TPS[3] in status.owned, 60)
    assert len(take(stream, 100)) == 100
    second.commit_offsets()
    with pytest.raises(OffsetsNotCommittedError, match="t/3: the group has committed 100 already"):
        first.commit_offsets({TPS[3]: batch[-1].offset() + 1})
    with pytest.raises(OffsetsNotCommittedError, match="t/3: this member does not read it, and it has an owner"):
        first.commit_offsets({TPS[3]: 100_000})
    assert cluster.committed(TPS[3]) == 100
    assert set(cluster.admin.get_children("/consumers/g/owners/t")) == {"0", "1", "2", "3"}
    first.commit_offsets({TPS[3]: 7}, unfenced=True)
    assert cluster.committed(TPS[3]) == 7


def test_an_offset_of_a_partition_that_nobody_owns_moves_forward_only(cluster):
    cluster.admin.create("/brokers/topics/u", encode_topic(TopicAssignment({0: (0,)})))
    elsewhere = TopicPartition("u", 0)
    connector = cluster.connector()
    stream_of(connector)
    connector.commit_offsets({elsewhere: 5})
    with pytest.raises(OffsetsNotCommittedError, match="u/0: the group has committed 5 already"):
        connector.commit_offsets({elsewhere: 4})
    connector.commit_offsets({elsewhere: 4}, unfenced=True)
    assert cluster.committed(elsewhere) == 4
    assert cluster.admin.exists("/consumers/g/owners/u") is None


def test_an_offset_by_name_whose_topic_is_deleted_before_it_is_written_does_not_count_for_a_new_topic(
    cluster, monkeypatch
):
    cluster.create_topic("u", 1)
    elsewhere = TopicPartition("u", 0)
    connector = cluster.connector()
    stream_of(connector)
    check = connector._check_existence

    def check_and_delete(partitions):
        check(partitions)
        cluster.admin.delete("/brokers/topics/u")

    monkeypatch.setattr(connector, "_check_existence", check_and_delete)
    connector.commit_offsets({elsewhere: 5})
    assert cluster.committed(elsewhere) == 5
    cluster.create_topic("u", 1)
    cluster.produce(10, elsewhere)
    _, stream = cluster.join(topic="u")
    assert next(stream).offset() == 0


@pytest.fixture
def nobodys(cluster):
    """Return a partition without an owner, and a member that has committed 5 for it."""
    cluster.admin.create("/brokers/topics/u", encode_topic(TopicAssignment({0: (0,)})))
    connector = cluster.connector()
    stream_of(connector)
    connector.commit_offsets({TopicPartition("u", 0): 5})
    return TopicPartition("u", 0), connector


def replace_next_read(monkeypatch, replacement):
    """Have replacement(the real read, the store, the partitions) answer the next read of offsets."""
    read = ZooKeeperOffsetStore.read

    def replaced(store, partitions):
        monkeypatch.setattr(ZooKeeperOffsetStore, "read", read)
        return replacement(read, store, partitions)

    monkeypatch.setattr(ZooKeeperOffsetStore, "read", replaced)


def test_an_offset_of_a_partition_that_nobody_owns_is_not_moved_back_over_one_that_is_written_meanwhile(
    cluster, nobodys, monkeypatch
):
    tp, connector = nobodys

    def read_before_its_owner_commits_and_leaves(read, store, partitions):
        found = read(store, partitions)
        cluster.admin.set_data("/consumers/g/offsets/u/0", b"20")
        return found

    replace_next_read(monkeypatch, read_before_its_owner_commits_and_leaves)
    with pytest.raises(OffsetsNotCommittedError, match="u/0: the group has committed 20 already"):
        connector.commit_offsets({tp: 10})
    assert cluster.committed(tp) == 20


def test_an_offset_of_a_partition_that_nobody_owns_is_not_moved_back_when_an_acl_hid_what_stands_there(
    cluster, nobodys, monkeypatch
):
    tp, connector = nobodys

    def read_while_an_acl_closes_it(_read, _store, partitions):
        return {one: Committed(None, None, problem="an ACL forbids it") for one in partitions}

    replace_next_read(monkeypatch, read_while_an_acl_closes_it)
    with pytest.raises(OffsetsNotCommittedError, match="u/0: an ACL forbids it"):
        connector.commit_offsets({tp: 3})
    assert cluster.committed(tp) == 5


# While a member leaves


def test_messages_that_a_worker_finishes_during_shutdown_are_committed(cluster):
    cluster.produce(20, TPS[0])
    connector = cluster.connector(auto_commit_enable=False, drain_timeout_ms=20_000)
    stream = stream_of(connector)
    working, go_on = threading.Event(), threading.Event()
    errors = []

    def work():
        try:
            for message in stream:
                if message.offset() == 3:
                    working.set()
                    go_on.wait(60)
                connector.commit_offsets()
        except Exception as error:
            errors.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert working.wait(60)
    closing = threading.Thread(target=connector.shutdown)
    closing.start()
    eventually(lambda: connector.status.phase is Phase.LEAVING)
    go_on.set()
    closing.join(60)
    worker.join(60)
    assert errors == []
    assert cluster.committed(TPS[0]) == 4
    with pytest.raises(ConsumerClosedError):
        connector.commit_offsets()


def test_a_listener_may_commit_in_its_last_hook(cluster):
    cluster.produce(5, *TPS)
    connector = cluster.connector(auto_commit_enable=False, consumer_timeout_ms=100)

    class Listener:
        def before_starting_fetchers(self, partitions, assignment):
            pass

        def before_releasing_partitions(self, partitions):
            connector.commit_offsets()

    connector.set_rebalance_listener(Listener())
    stream = stream_of(connector)
    with pytest.raises(ConsumerTimeoutError):
        take(stream, 21)
    connector.shutdown()
    assert connector.counters.listener_errors == 0
    assert [cluster.committed(tp) for tp in TPS] == [5] * 4


def test_a_commit_before_the_member_has_a_session_says_that_it_has_not_joined(cluster, monkeypatch):
    connector = cluster.connector()
    start, told = Coordinator.start, []

    def commit_first(coordinator):
        for offsets in (None, {TPS[0]: 1}):
            with pytest.raises(NotJoinedError):
                connector.commit_offsets(offsets)
            told.append(offsets)
        start(coordinator)

    monkeypatch.setattr(Coordinator, "start", commit_first)
    stream_of(connector)
    assert len(told) == 2
    assert connector.commit_offsets({TPS[0]: 1}).committed
