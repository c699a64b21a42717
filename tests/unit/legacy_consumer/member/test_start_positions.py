"""Whole connectors whose users choose positions, with a listener, seek() and pause(), and ask for them."""

import contextlib
import threading
from collections.abc import Mapping

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition

from legacy_consumer import EARLIEST, LATEST, NotAssignedError, Phase
from legacy_consumer.errors import OffsetsNotCommittedError
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition
from zk_layout.store import CreateOp, DeleteOp

P0, P1 = TPS = [TopicPartition("t", n) for n in range(2)]


@pytest.fixture
def cluster():
    """A cluster with ten messages in each partition; the committed offset of the first is 4."""
    cluster = MemberCluster({"t": 2}, auto_commit_enable=False, drain_timeout_ms=2000, rebalance_backoff_ms=20)
    cluster.produce(10, *TPS)
    cluster.write(P0, b"4")
    yield cluster
    cluster.close()


class Listener:
    """Records the calls of its hooks."""

    def __init__(self):
        self.told = []

    def before_releasing_partitions(self, partitions):
        self.told.append(("release", partitions))

    def before_starting_fetchers(self, partitions, assignment):
        if partitions:
            self.told.append(("start", frozenset(partitions)))


class Starts(Listener):
    """A listener whose starting_offsets() returns the given answers in turn, or raises them if they are errors."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)

    def starting_offsets(self, partitions):
        self.told.append(("asked", dict(partitions)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def take(stream, count):
    """Take the next count messages. Returns: {partition: offsets}."""
    taken = {}
    for _ in range(count):
        message = next(stream)
        taken.setdefault(TopicPartition(message.topic(), message.partition()), []).append(message.offset())
    return taken


# Start positions


def test_a_listener_is_asked_where_partitions_start_before_any_message(cluster):
    listener = Starts({P0: 8, P1: 9})
    _, stream = cluster.join(listener)
    assert take(stream, 3) == {P0: [8, 9], P1: [9]}
    assert listener.told == [("asked", {P0: 4, P1: None}), ("start", frozenset(TPS))]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({}, {P0: 4, P1: 0}),
        ({P0: None}, {P0: 4, P1: 0}),
        ({P0: EARLIEST, P1: LATEST}, {P0: 0, P1: None}),
        ({P1: 3, TopicPartition("other", 5): 7}, {P0: 4, P1: 3}),
        ({("t", 1): 3}, {P0: 4, P1: 3}),
    ],
)
def test_a_partition_that_the_listener_leaves_out_starts_as_without_it(cluster, answer, expected):
    connector, stream = cluster.join(Starts(answer))
    count = sum(10 - start for start in expected.values() if start is not None)
    taken = take(stream, count)
    assert {tp: offsets[0] for tp, offsets in taken.items()} == {tp: n for tp, n in expected.items() if n is not None}
    assert set(connector.lag().values()) == {0}


class Table(Mapping):
    """A mapping that reads an entry only when asked, as a database table does, and records the reading threads."""

    def __init__(self, starts):
        self.starts, self.threads = starts, []

    def __getitem__(self, tp):
        self.threads.append(threading.current_thread())
        if self.starts is None:
            raise RuntimeError("no database")
        return self.starts[tp]

    def __iter__(self):
        raise AssertionError("a table may be too large to be listed")

    __len__ = __iter__


class Unprintable:
    """An object whose repr() asks a database, and fails."""

    def __repr__(self):
        raise RuntimeError("no database")


@pytest.mark.parametrize(
    "first",
    [
        *[RuntimeError("no database"), None, [P0], {P0: -3, P1: 0}, {P0: "8", P1: 0}, {P0: True}],
        *[Table(None), Unprintable(), {P0: Unprintable()}],
        *[{"t/0": 8, "t/1": 9}, {("t", "0"): 8}, {(0, "t"): 8}, {P1: 9, ConfluentPartition("t", 0): 8}],
    ],
)
def test_partitions_wait_for_a_listener_that_does_not_say_where_they_start(cluster, caplog, first):
    """From the committed offset, the user's code would get messages twice, or not at all."""
    listener = Starts(first, {P0: 8, P1: 9})
    connector, stream = cluster.join(listener)
    assert connector.wait_until(lambda status: status.phase is Phase.STABLE, 60)
    taken = take(stream, 3)
    assert taken[P0] == [8, 9]
    assert "where to begin is not known: t/0: the listener's starting_offsets" in caplog.text


def test_what_a_listener_answers_is_read_on_the_thread_of_its_hooks(cluster):
    class Tells(Starts):
        def starting_offsets(self, partitions):
            threads.append(threading.current_thread())
            return super().starting_offsets(partitions)

    threads = []
    table = Table({P0: 8, P1: 9})
    _, stream = cluster.join(Tells(table))
    assert take(stream, 3) == {P0: [8, 9], P1: [9]}
    assert set(table.threads) == set(threads)


def test_one_partition_without_a_start_does_not_keep_the_others(cluster):
    connector, stream = cluster.join(Starts({P0: -7, P1: 9}))
    assert take(stream, 1) == {P1: [9]}
    assert connector.status.phase is not Phase.STABLE
    assert "t/0: the listener's starting_offsets says -7, which is no offset" in str(connector.status.error)
    with pytest.raises(NotAssignedError, match=r"t/0 .*, or has not begun: .* status.owned and status.error"):
        connector.seek(P0, 5)
    with pytest.raises(OffsetsNotCommittedError) as refused:
        connector.commit_offsets({P0: 5})
    assert "another member" not in str(refused.value), "this member is its owner"


def test_a_partition_whose_offset_is_repaired_while_the_listener_answers_begins_where_the_listener_says(cluster):
    """An earlier version did not ask for the partition, and began at the repaired offset without an answer."""

    class Repairs(Starts):
        def starting_offsets(self, partitions):
            cluster.write(P0, b"4")
            return super().starting_offsets(partitions)

    cluster.write(P0, b"no number")
    _, stream = cluster.join(Repairs({P0: 8, P1: 9}))
    assert take(stream, 3) == {P0: [8, 9], P1: [9]}


def test_a_listener_may_commit_by_name_what_it_is_asked_about(cluster):
    class Commits(Starts):
        def starting_offsets(self, partitions):
            consumer.commit_offsets({P0: 6, P1: 2})
            return super().starting_offsets(partitions)

    consumer = cluster.connector()
    consumer.set_rebalance_listener(Commits({P0: 8}))
    stream = consumer.create_message_streams({"t": 1})["t"][0]
    taken = take(stream, 10)
    assert taken == {P0: [8, 9], P1: list(range(2, 10))}
    assert (cluster.committed(P0), cluster.committed(P1)) == (6, 2)
    consumer.commit_offsets()
    assert (cluster.committed(P0), cluster.committed(P1)) == (10, 10)


def test_a_listener_that_is_asked_where_to_begin_moves_the_group_back_only_unfenced(cluster):
    class Commits(Starts):
        def starting_offsets(self, partitions):
            with pytest.raises(OffsetsNotCommittedError, match="t/0: the group has committed 4 already"):
                consumer.commit_offsets({P0: 2})
            consumer.commit_offsets({P0: 3}, unfenced=True)
            return super().starting_offsets(partitions)

    consumer = cluster.connector()
    consumer.set_rebalance_listener(Commits({P1: LATEST}))
    stream = consumer.create_message_streams({"t": 1})["t"][0]
    assert take(stream, 1) == {P0: [3]}


def test_a_listener_that_is_slow_to_say_is_not_asked_again_before_it_has_answered(cluster):
    answered = threading.Event()

    class Slow(Starts):
        def starting_offsets(self, partitions):
            super().starting_offsets(partitions)
            answered.wait(60)
            return {P0: 9, P1: 9}

    listener = Slow({})
    connector, stream = cluster.join(listener, drain_timeout_ms=50, rebalance_backoff_ms=5, rebalance_max_retries=3)
    assert connector.status.phase is Phase.DEGRADED
    assert len(listener.told) == 1
    answered.set()
    assert take(stream, 2) == {P0: [9], P1: [9]}
    assert [what for what, _ in listener.told] == ["asked", "asked", "start"]


def test_a_hook_may_seek_and_pause_before_anything_is_handed_out(cluster):
    class Seeks(Listener):
        def before_starting_fetchers(self, partitions, assignment):
            connector = cluster.connectors[0]
            if partitions:
                connector.seek(P0, 9)
                connector.pause([P1])

    connector, stream = cluster.join(Seeks())
    assert take(stream, 1) == {P0: [9]}
    assert connector.paused() == {P1}
    connector.resume([P1])
    assert take(stream, 2) == {P1: [0, 1]}


# Seek


def test_a_seek_in_the_middle_of_a_loop_moves_what_comes_next(cluster):
    connector, stream = cluster.join(Starts({P1: LATEST}))
    taken = []
    for message in stream:
        taken.append(message.offset())
        if taken == [4, 5]:
            connector.seek(P0, 8)
        if len(taken) == 4:
            break
    assert taken == [4, 5, 8, 9]
    stream.seek(P0, 7)
    assert take(stream, 3) == {P0: [7, 8, 9]}


@pytest.mark.parametrize("auto", [True, False])
def test_a_commit_after_a_seek_moves_the_group_back_and_the_seek_alone_does_not(cluster, auto):
    connector, stream = cluster.join(Starts({P1: LATEST}), auto_commit_enable=auto, auto_commit_interval_ms=3_600_000)
    take(stream, 6)
    connector.commit_offsets()
    assert cluster.committed(P0) == 10
    connector.seek(P0, 2)
    assert (cluster.committed(P0), connector.position(P0)) == (10, 2)
    if auto:
        connector.shutdown()
    else:
        connector.commit_offsets()
    assert cluster.committed(P0) == 2


def test_messages_in_hand_at_a_seek_do_not_count(cluster):
    connector, stream = cluster.join(Starts({P1: LATEST}))
    batches = stream.batches(3)
    assert [message.offset() for message in next(batches)] == [4, 5, 6]
    connector.seek(P0, 1)
    connector.commit_offsets()
    assert cluster.committed(P0) == 1
    assert next(batches)[0].offset() == 1


def test_an_explicit_commit_does_not_prevent_a_seek(cluster):
    connector, _ = cluster.join()
    connector.commit_offsets({P0: 9})
    connector.seek(P0, 3)
    connector.commit_offsets()
    assert cluster.committed(P0) == 3


def test_a_partition_of_another_member_is_not_moved(cluster):
    first, _ = cluster.join()
    second, _ = cluster.join()
    for connector in (first, second):
        assert connector.wait_until(lambda status: len(status.owned) == 1 and status.phase is Phase.STABLE, 60)
        (theirs,) = set(TPS) - connector.status.owned.keys()
        for call in (
            lambda connector=connector, tp=theirs: connector.seek(tp, 0),
            lambda connector=connector, tp=theirs: connector.pause([tp]),
            lambda connector=connector: connector.resume(TPS),
            lambda connector=connector, tp=theirs: connector.position(tp),
            lambda connector=connector: connector.lag(TPS),
        ):
            with pytest.raises(NotAssignedError, match=f"{theirs} is not assigned"):
                call()
        assert connector.paused() == frozenset()


# Pause


def test_a_paused_partition_stays_its_members_and_goes_on_where_it_stood(cluster):
    connector, stream = cluster.join(Starts({P0: 0, P1: 0}))
    taken = take(stream, 1)
    (tp,) = taken
    (other,) = set(TPS) - {tp}
    connector.pause([tp])
    assert take(stream, 10) == {other: list(range(10))}
    assert connector.status.owned.keys() == set(TPS)
    connector.resume([tp])
    assert take(stream, 9) == {tp: list(range(1, 10))}


def test_a_paused_stream_waits_and_its_commits_go_on(cluster):
    connector, stream = cluster.join(Starts({P1: LATEST}))
    batches = stream.batches(2, timeout=0.01)
    assert len(next(batches)) == 2
    stream.pause()
    assert len(next(batches)) == 0
    assert connector.paused() == set(TPS)
    connector.commit_offsets()
    assert cluster.committed(P0) == 6
    stream.resume()
    assert [message.offset() for message in next(batches)] == [6, 7]


def test_a_pause_ends_with_the_ownership(cluster):
    connector, _ = cluster.join()
    connector.pause(TPS)
    other, _ = cluster.join()
    assert other.wait_until(lambda status: len(status.owned) == 1, 60)
    other.shutdown()
    assert connector.wait_until(lambda status: len(status.owned) == 2 and status.phase is Phase.STABLE, 60)
    assert len(connector.paused()) == 1, "what came back flows"


def test_the_pause_of_a_partition_ends_when_the_same_member_claims_it_in_a_new_session(cluster):
    connector, stream = cluster.join()
    connector.pause(TPS)
    before = connector.status.rebalances
    cluster.zookeeper.expire(connector._store.session_id)
    assert connector.wait_until(lambda status: status.rebalances > before and len(status.owned) == 2, 60)
    assert connector.paused() == frozenset()
    assert {message.partition() for _, message in zip(range(16), stream, strict=False)} == {0, 1}


@pytest.mark.parametrize("lost", TPS)
def test_a_pause_or_a_resume_of_which_one_partition_is_just_being_lost_changes_no_stream(cluster, lost):
    connector = cluster.connector()
    connector.create_message_streams({"t": 2})
    (kept,) = set(TPS) - {lost}
    # the member forgets a lost partition in two steps, and another thread may call in between
    connector._progress.forget([lost])
    with pytest.raises(NotAssignedError, match=f"{lost} is not assigned"):
        connector.pause(TPS)
    assert connector.paused() == frozenset()
    connector.pause([kept])
    with pytest.raises(NotAssignedError, match=f"{lost} is not assigned"):
        connector.resume(TPS)
    assert connector.paused() == {kept}


# Positions, as the user's code reads them


def test_position_committed_and_lag_are_three_things(cluster):
    connector, stream = cluster.join(Starts({P1: 7}))
    connector.pause([P1])
    assert take(stream, 2) == {P0: [4, 5]}
    assert (connector.position(P0), connector.progress[P0].consumed) == (6, 5)
    assert connector.committed([P0, P1]) == {P0: 4, P1: None}
    assert connector.lag() == {P0: 4, P1: 3}
    assert connector.lag([P1]) == {P1: 3}


def test_a_position_that_no_broker_has_told_is_none_and_has_no_lag(cluster):
    connector, _ = cluster.join(Starts({P0: 3, P1: EARLIEST}))
    assert connector.position(P1) is None
    assert connector.lag() == {P0: 7}


def test_a_position_beyond_the_end_of_the_log_has_no_lag_not_even_0(cluster):
    connector, _ = cluster.join(Starts({P0: 3, P1: 10}))
    connector.seek(P0, 11)
    assert connector.lag() == {P1: 0}


# Lost is not revoked


class PassesOn:
    """A listener without hooks of its own, such as a proxy that records the calls of another object."""

    def __init__(self, listener):
        self._listener = listener

    def __getattr__(self, name):
        return getattr(self._listener, name)


class InJavasWords:
    """A listener with the hooks of Java's, and starting_offsets()."""

    def __init__(self):
        self.told = []

    def starting_offsets(self, partitions):
        return {P0: 8, P1: 9}

    def on_partitions_assigned(self, partitions):
        self.told.append(("start", partitions))

    def on_partitions_revoked(self, partitions):
        self.told.append(("release", partitions))

    def on_partitions_lost(self, partitions):
        self.told.append(("lost", partitions))


class InOurWords(Starts):
    """A listener with the hooks of RebalanceListener, and both optional hooks."""

    def __init__(self):
        super().__init__({P0: 8, P1: 9})

    def on_partitions_lost(self, partitions):
        self.told.append(("lost", partitions))


@pytest.mark.parametrize("make", [InOurWords, InJavasWords])
def test_a_listener_that_passes_its_calls_on_is_told_all_that_the_one_behind_it_would_be(cluster, make):
    listener = make()
    connector, stream = cluster.join(PassesOn(listener))
    assert take(stream, 3) == {P0: [8, 9], P1: [9]}
    cluster.admin.delete("/brokers/topics/t")
    eventually(lambda: listener.told[-1] == ("lost", frozenset(TPS)))
    cluster.create_topic("t", 2)
    assert connector.wait_until(lambda status: len(status.owned) == 2 and status.phase is Phase.STABLE, 60)
    connector.shutdown()
    assert [what for what, _ in listener.told if what != "asked"] == ["start", "lost", "start", "release"]
    assert connector.counters.listener_errors == 0


class Losing(Listener):
    """Commits 6 when partitions are released, and only records lost partitions."""

    def __init__(self):
        super().__init__()
        self.connector = None

    def before_releasing_partitions(self, partitions):
        super().before_releasing_partitions(partitions)
        self.connector.commit_offsets(dict.fromkeys(partitions, 6))

    def on_partitions_lost(self, partitions):
        self.told.append(("lost", partitions))


def test_partitions_of_a_session_that_ended_are_lost_and_those_that_are_released_are_not(cluster):
    listener = Losing()
    connector, _ = cluster.join(listener)
    listener.connector = connector
    cluster.zookeeper.expire(connector._store.session_id)
    eventually(lambda: ("lost", frozenset(TPS)) in listener.told)
    assert connector.wait_until(lambda status: len(status.owned) == 2 and status.phase is Phase.STABLE, 60)
    connector.shutdown()
    assert [what for what, _ in listener.told] == ["start", "lost", "start", "release"]
    assert cluster.committed(P0) == 6, "what is released can be committed in the hook"


class CommitsWhatIsLost(Listener):
    """Commits 20 for lost partitions, and records the result."""

    connector = None

    def on_partitions_lost(self, partitions):
        try:
            result = self.connector.commit_offsets(dict.fromkeys(sorted(partitions), 20))
        except OffsetsNotCommittedError as error:
            self.told.append(error.reasons)
        else:
            self.told.append(result.committed.keys())


def test_an_offset_of_a_partition_that_was_lost_with_its_session_can_be_committed_while_nobody_owns_it(cluster):
    listener = CommitsWhatIsLost()
    listener.connector, _ = cluster.join(listener)
    cluster.zookeeper.expire(listener.connector._store.session_id)
    eventually(lambda: set(TPS) in listener.told)
    assert [cluster.committed(tp) for tp in TPS] == [20, 20]


def test_an_offset_of_a_partition_that_was_lost_to_another_member_is_refused_in_the_hook(cluster):
    listener = CommitsWhatIsLost()
    connector, stream = cluster.join(listener)
    listener.connector = connector
    take(stream, 16)
    cluster.admin.delete(cluster.owner_path(P0))
    cluster.admin.create(cluster.owner_path(P0), b"another-0", ephemeral=True)
    with contextlib.suppress(OffsetsNotCommittedError):
        connector.commit_offsets()
    eventually(
        lambda: (
            {P0: "this member does not read it, and it has an owner; with unfenced=True it is written all the same"}
            in listener.told
        )
    )


class TriesAllCalls(Listener):
    """Tries each call that names a partition with each lost one; records which succeed, and the listed partitions."""

    connector = message = None

    def on_partitions_lost(self, partitions):
        for tp in sorted(partitions):
            calls = [
                lambda tp=tp: self.connector.position(tp),
                lambda tp=tp: self.connector.seek(tp, 3),
                lambda tp=tp: self.connector.pause([tp]),
                lambda tp=tp: self.connector.resume([tp]),
                lambda tp=tp: self.connector.lag([tp]),
            ]
            for number, call in enumerate(calls):
                with contextlib.suppress(NotAssignedError):
                    call()
                    self.told.append((tp, number))
        listed = {*self.connector.progress, *self.connector.lag(), *self.connector.paused()}
        self.told.append(("lost", self.connector.acknowledge(self.message), listed))


def test_no_call_works_for_a_partition_that_is_lost_while_a_hook_is_told(cluster):
    listener = TriesAllCalls()
    listener.connector, stream = cluster.join(listener, audit_interval_ms=100, delivery_rule="acknowledged")
    listener.message = next(message for message in stream if message.partition() == 0)
    listener.connector.pause(TPS)
    owner = CreateOp(cluster.owner_path(P0), b"another-0", ephemeral=True)
    cluster.admin.multi([DeleteOp(cluster.owner_path(P0)), owner])
    eventually(lambda: len(listener.told) > 1)
    assert listener.told[1] == ("lost", False, {P1})


class CommitsWhatIsConsumed(Listener):
    """Commits consumed messages before a release, and records the committed partitions."""

    connector = None
    before = staticmethod(lambda: None)

    def before_releasing_partitions(self, partitions):
        self.before()
        self.told.append(("committed", self.connector.commit_offsets().committed.keys()))


@pytest.mark.parametrize("loss", ["another member took one", "the topic was deleted", "it was created again, too"])
def test_a_commit_of_what_is_consumed_leaves_out_what_is_lost_while_a_hook_is_told(cluster, loss):
    listener = CommitsWhatIsConsumed()
    listener.connector, stream = cluster.join(listener, audit_interval_ms=100)
    take(stream, 16)
    assert not next(stream.batches(timeout=0)), "all of them are done"
    if loss == "another member took one":
        owner = CreateOp(cluster.owner_path(P0), b"another-0", ephemeral=True)
        cluster.admin.multi([DeleteOp(cluster.owner_path(P0)), owner])
    else:
        if loss == "it was created again, too":
            listener.before = lambda: cluster.create_topic("t", 2)
        cluster.admin.delete("/brokers/topics/t")
    eventually(lambda: [what for what, _ in listener.told][:2] == ["start", "committed"])
    lost = [P0] if loss == "another member took one" else TPS
    assert listener.told[1][1] == set(TPS) - set(lost)
    assert [cluster.committed(tp) for tp in TPS] == [4, None if P1 in lost else 10]


class ToldOfLosses(Listener):
    """Records P0's committed offset in on_partitions_lost(): as it begins, and when the test lets it continue."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster, self.may_go_on, self.seen = cluster, threading.Event(), []

    def on_partitions_lost(self, partitions):
        self.seen.append(self.cluster.committed(P0))
        assert self.may_go_on.wait(60)
        self.seen.append(self.cluster.committed(P0))


def test_a_hook_is_told_of_lost_partitions_when_the_commit_that_is_under_way_has_ended(cluster, monkeypatch):
    """In an earlier version, a commit that had read the progress before the loss was written while the hook ran."""
    listener = ToldOfLosses(cluster)
    connector, stream = cluster.join(listener, audit_interval_ms=100)
    take(stream, 16)
    sending, may_send = threading.Event(), threading.Event()
    write, delivery = connector._store.multi, connector._membership.delivery

    def hold(ops, **how):
        if threading.current_thread() is committing:
            sending.set()
            assert may_send.wait(60)
        return write(ops, **how)

    def commit():
        with contextlib.suppress(OffsetsNotCommittedError):
            connector.commit_offsets({P0: 9})
        listener.may_go_on.set()

    monkeypatch.setattr(connector._store, "multi", hold)
    committing = threading.Thread(target=commit)
    committing.start()
    assert sending.wait(60)
    owner = CreateOp(cluster.owner_path(P0), b"another-0", ephemeral=True)
    cluster.admin.multi([DeleteOp(cluster.owner_path(P0)), owner])
    # the listener's thread is inside the hook, or waits for the commit
    eventually(lambda: P0 not in connector.progress and (listener.seen or delivery.telling.calls._running is not None))
    may_send.set()
    committing.join(60)
    eventually(lambda: len(listener.seen) == 2)
    assert listener.seen == [9, 9]


def test_a_hook_that_waits_for_a_commit_is_not_called_after_a_shutdown(cluster, monkeypatch):
    listener = ToldOfLosses(cluster)
    listener.may_go_on.set()
    connector, stream = cluster.join(listener, audit_interval_ms=100, drain_timeout_ms=60_000)
    take(stream, 16)
    committer, calls = connector._membership.delivery.committer, connector._membership.delivery.telling.calls
    with committer.lock:
        cluster.admin.delete(cluster.owner_path(P0))
        eventually(lambda: P0 not in connector.progress and calls._running is not None)
        connector.shutdown(0)
    calls._thread.join(60)
    assert listener.seen == []


def test_partitions_of_a_deleted_topic_are_lost(cluster):
    listener = Losing()
    connector, _ = cluster.join(listener)
    listener.connector = connector
    cluster.admin.delete("/brokers/topics/t")
    eventually(lambda: listener.told[-1] == ("lost", frozenset(TPS)))


@pytest.mark.parametrize("by_hand", [{}, {"offsets_by_hand": "t"}])
def test_a_listeners_start_comes_first_also_for_a_topic_that_was_created_again(cluster, caplog, by_hand):
    """The member cannot know to which of both topics the offset belongs, and logs that."""
    listener = Starts({P0: 0, P1: 0}, {P0: 8, P1: EARLIEST})
    _, stream = cluster.join(listener, **by_hand)
    take(stream, 20)
    data = cluster.admin.get_data("/brokers/topics/t").data
    cluster.admin.multi([DeleteOp("/brokers/topics/t"), CreateOp("/brokers/topics/t", data)])
    assert take(stream, 12) == {P0: [8, 9], P1: list(range(10))}
    assert [what for what, _ in listener.told] == ["asked", "start", "release", "asked", "start"]
    assert listener.told[3] == ("asked", {P0: None, P1: None})
    assert "created again: it is read from its beginning, or where a listener says" in caplog.text


def test_a_listener_without_that_hook_is_told_of_a_release(cluster):
    listener = Listener()
    cluster.join(listener)
    cluster.admin.delete("/brokers/topics/t")
    eventually(lambda: listener.told[-1] == ("release", frozenset(TPS)))


def test_a_partition_whose_owner_znode_somebody_deleted_is_lost_and_the_others_stay(cluster):
    listener = Losing()
    connector, stream = cluster.join(listener)
    listener.connector = connector
    take(stream, 16)
    cluster.admin.delete(cluster.owner_path(P0))
    with pytest.raises(OffsetsNotCommittedError, match="t/0: this member does not own it"):
        connector.commit_offsets()
    assert cluster.committed(P1) == 10, "what could be committed is committed, and the error tells of the rest"
    eventually(lambda: listener.told[-1] == ("start", frozenset({P0})))
    assert [what for what in listener.told if what[0] != "start"] == [("lost", frozenset({P0}))]
