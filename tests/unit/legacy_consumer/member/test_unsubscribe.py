"""unsubscribe() leaves the group in order and keeps the connector, which may join again for other topics."""

import contextlib
import itertools
import logging
import threading
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from legacy_consumer import (
    CallInProgressError,
    ConsumerClosedError,
    MessageStreamsExistError,
    NotAssignedError,
    NotJoinedError,
    Phase,
    UnsubscribeError,
    Whitelist,
)
from legacy_consumer.member import connector as connector_module
from legacy_consumer.member.resets import (
    Request,
    RequestState,
    answer_path,
    answers_path,
    encode_request,
    request_path,
)
from legacy_consumer.metrics import MemberCollector
from rebalance.led.records import leader_path
from tests.support.at_line import AtLine, interrupt
from tests.support.led_cluster import LedCluster
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually
from zk_layout.errors import MultiFailedError, NotEmptyError
from zk_layout.model import TopicPartition
from zk_layout.store import DeleteOp

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


@pytest.fixture
def cluster():
    """A cluster of the topics t and u with two partitions each, and ten messages in each partition."""
    cluster = MemberCluster({"t": 2, "u": 2}, drain_timeout_ms=2000, rebalance_backoff_ms=20)
    cluster.produce(10, T0, U0, TopicPartition("t", 1), TopicPartition("u", 1))
    yield cluster
    cluster.close()


def take(stream, count):
    return [(message.topic(), message.offset()) for _, message in zip(range(count), stream, strict=False)]


def traces(cluster):
    """Return the ids and the owners of t, of which none may stay after a member has left."""
    ids = cluster.admin.get_children("/consumers/g/ids")
    return ids, cluster.owners("t") if cluster.admin.exists("/consumers/g/owners/t") else []


def test_it_commits_releases_and_leaves_and_the_connector_joins_again_for_another_topic(cluster):
    connector, stream = cluster.join()
    session = connector._store.session_id
    assert len(take(stream, 20)) == 20
    next(iter(stream.batches(1, timeout=0.01)), None)  # the loop's last message is consumed
    connector.unsubscribe()
    assert traces(cluster) == ((), [])
    assert (cluster.committed(T0), cluster.committed(TopicPartition("t", 1))) == (10, 10)
    assert connector.status.phase is Phase.CREATED
    assert connector.progress == {}
    assert list(stream) == [], "the streams have ended"
    with pytest.raises(NotAssignedError):
        stream.seek(T0, 0)
    for call in (connector.commit_offsets, connector.lag, lambda: connector.seek(T0, 0)):
        with pytest.raises(NotJoinedError):
            call()
    (other,) = connector.create_message_streams({"u": 1})["u"]
    assert {topic for topic, _ in take(other, 20)} == {"u"}
    assert connector._store.session_id == session
    assert {tp.topic for tp in connector.status.owned} == {"u"}


def test_a_connector_that_unsubscribed_and_shut_down_is_closed(cluster):
    connector, _ = cluster.join()
    connector.unsubscribe()
    connector.shutdown()
    assert connector.status.phase is Phase.CLOSED


def test_the_same_topic_goes_on_behind_what_was_committed(cluster):
    connector, stream = cluster.join(auto_commit_enable=False)
    take(stream, 20)
    connector.commit_offsets({T0: 7, TopicPartition("t", 1): 9})
    connector.unsubscribe()
    [stream] = connector.create_message_streams_by_filter(Whitelist("t|u"))
    read = take(stream, 24)
    assert sorted(read) == [("t", n) for n in (7, 8, 9, 9)] + sorted([("u", n) for n in range(10)] * 2)


class AskedLock:
    """A lock that calls tell() when a thread asks for it."""

    def __init__(self, lock, tell):
        self._lock, self._tell = lock, tell

    def __enter__(self):
        self._tell()
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"consumer_id": "me"}, id="ZooKeeper, under the same id"),
        pytest.param({"offsets_storage": "kafka", "dual_commit_enabled": False}, id="Kafka"),
    ],
)
def test_a_connector_that_joins_again_begins_behind_a_commit_that_is_under_way(cluster, properties):
    """In an earlier version it began before that commit, which succeeded, and its next commit moved the group back."""
    connector, stream = cluster.join(auto_commit_enable=False, **properties)
    take(stream, 20)
    sending, may_send, store = threading.Event(), threading.Event(), connector._store

    def hold():
        if threading.current_thread() is committing:
            sending.set()
            assert may_send.wait(60)

    def join():
        streams.extend(connector.create_message_streams({"t": 1})["t"])
        may_send.set()

    if "offsets_storage" in properties:
        # after the check in ZooKeeper, which refuses the commit of a member that has left
        cluster.group_offsets.before_read = hold
    else:
        store.multi = lambda ops, _write=store.multi, **how: (hold(), _write(ops, **how))[1]
    committing = threading.Thread(target=lambda: connector.commit_offsets({T0: 6}))
    committing.start()
    assert sending.wait(60)
    connector._progress.committing = AskedLock(connector._progress.committing, may_send.set)
    connector.unsubscribe()
    streams = []
    joining = threading.Thread(target=join)
    joining.start()
    for thread in (committing, joining):
        thread.join(60)
    assert connector.position(T0) == 6
    assert take(streams[0], 14)
    connector.commit_offsets()
    assert connector.committed([T0])[T0] >= 6


def test_without_streams_and_twice_it_does_nothing(cluster):
    connector = cluster.connector()
    connector.unsubscribe()
    connector.create_message_streams({"t": 1})
    connector.unsubscribe()
    connector.unsubscribe(0)
    connector.create_message_streams({"t": 1})
    with pytest.raises(MessageStreamsExistError, match=r"call unsubscribe\(\) first"):
        connector.create_message_streams({"u": 1})
    connector.shutdown()
    with pytest.raises(ConsumerClosedError):
        connector.unsubscribe()


@pytest.mark.parametrize("topic", ["t", "u"])
@pytest.mark.parametrize("properties", [{}, {"consumer_id": "fixed"}], ids=["made-up", "configured"])
def test_other_members_see_a_leave_and_the_new_subscription(cluster, topic, properties):
    """Also if both happen before the other members look: a member reads a registration once while its id exists."""
    first = cluster.connector(**properties)
    before = first.consumer_id
    first.create_message_streams({"t": 1, "u": 1})
    second = cluster.connector()
    second.create_message_streams({"t": 1, "u": 1})
    assert first.wait_until(lambda status: len(status.owned) == 2, 60)
    first.unsubscribe()
    first.create_message_streams({topic: 1})
    assert (first.consumer_id == before) == bool(properties)
    assert first.wait_until(lambda status: len(status.owned) == 1, 60)
    assert second.wait_until(lambda status: len(status.owned) == 3, 60)
    assert {tp.topic for tp in first.status.owned} == {topic}


@pytest.mark.parametrize("session", ["suspended", "refused"])
def test_a_group_that_is_not_left_in_order_ends_the_connector_and_its_session(cluster, session, monkeypatch):
    connector, stream = cluster.join(drain_timeout_ms=100)
    closed = []
    connector.at_shutdown(lambda: closed.append(1))
    session_id = connector._store.session_id
    if session == "suspended":
        cluster.zookeeper.suspend(connector._store)
        eventually(lambda: not connector.vitals.connected)
    else:
        multi = connector._store.multi

        def refuse(ops, **options):
            if isinstance(ops[-1], DeleteOp) and "/ids/" in ops[-1].path:
                raise MultiFailedError(0, ops[-1].path, NotEmptyError(ops[-1].path))
            return multi(ops, **options)

        monkeypatch.setattr(connector._store, "multi", refuse)
    with pytest.raises(UnsubscribeError, match="the connector was shut down, and the end of its session frees"):
        connector.unsubscribe(0.2)
    assert closed == [1]
    assert list(stream) == []
    with pytest.raises(ConsumerClosedError):
        connector.create_message_streams({"u": 1})
    if session == "suspended":
        cluster.zookeeper.expire(session_id)  # as ZooKeeper does, which got no request to end the session
    assert traces(cluster) == ((), [])


def test_a_member_that_waits_for_its_id_without_a_connection_does_not_wait_for_the_timeout(cluster):
    cluster.join(consumer_id="x")
    connector, _ = cluster.join(consumer_id="x", rebalance_max_retries=1)
    cluster.zookeeper.suspend(connector._store)
    eventually(lambda: not connector.vitals.connected)
    with pytest.raises(UnsubscribeError):
        connector.unsubscribe(3600)


def test_counters_continue_after_unsubscribe_and_warnings_are_logged_once(cluster, caplog):
    caplog.set_level(logging.INFO)
    for topic, partition in itertools.product("tu", range(2)):
        cluster.write(TopicPartition(topic, partition), b"0")
    connector, stream = cluster.join(auto_offset_reset="earliest")
    take(stream, 20)
    connector.commit_offsets()
    connector.unsubscribe()
    before = connector.counters
    assert before.consumed["t"] == 20
    (stream,) = connector.create_message_streams({"u": 1})["u"]
    take(stream, 20)
    connector.commit_offsets()
    after = connector.counters
    assert after.consumed == {**before.consumed, "u": 20}
    assert after.commits > before.commits > 0
    assert after.member.rebalances["moved"] == 2
    assert caplog.text.count("auto.offset.reset=earliest is taken as smallest") == 1


class Listener:
    def __init__(self):
        self.told = []

    def before_releasing_partitions(self, partitions):
        self.told.append(("release", {tp.topic for tp in partitions}))

    def before_starting_fetchers(self, partitions, assignment):
        self.told.append(("start", {tp.topic for tp in partitions}))


def test_the_listener_stays_unless_another_one_is_set(cluster):
    listener, other = Listener(), Listener()
    connector, _ = cluster.join(listener)
    connector.unsubscribe()
    connector.create_message_streams({"u": 1})
    connector.unsubscribe()
    connector.set_rebalance_listener(other)
    connector.create_message_streams({"t": 1})
    assert listener.told == [("start", {"t"}), ("release", {"t"}), ("start", {"u"}), ("release", {"u"})]
    assert other.told == [("start", {"t"})]


class SlowToRelease:
    """A listener whose release hook returns only after the test sets `open`; records the begin and end of hooks."""

    def __init__(self):
        self.told, self.open = [], threading.Event()

    def before_releasing_partitions(self, partitions):
        self.told.append("release")
        assert self.open.wait(60)
        self.told.append("released")

    def starting_offsets(self, partitions):
        self.told.append("starts?")
        return {}

    def before_starting_fetchers(self, partitions, assignment):
        self.told.append("start")


def test_the_hooks_of_a_listener_that_stays_wait_for_one_that_is_late_when_the_connector_joins_again(cluster):
    """An earlier version called them at the same time as the late hook, on another thread."""
    listener, other = SlowToRelease(), Listener()
    connector, _ = cluster.join(listener, drain_timeout_ms=200)
    connector.unsubscribe()
    connector.create_message_streams({"u": 1})
    assert listener.told == ["starts?", "start", "release"]
    connector.unsubscribe()
    connector.create_message_streams({"t": 1})
    assert listener.told == ["starts?", "start", "release"]
    connector.unsubscribe()
    connector.set_rebalance_listener(other)
    connector.create_message_streams({"u": 1})
    assert other.told == [("start", {"u"})], "another listener does not wait for it"
    listener.open.set()


def test_the_hooks_of_a_listener_with_javas_names_wait_for_a_late_one_if_it_is_set_again(cluster):
    """Each set_rebalance_listener() wraps it in a new adapter, which an earlier version took for another listener."""

    class SlowToRevoke:
        def on_partitions_assigned(self, partitions):
            told.append("assigned")

        def on_partitions_revoked(self, partitions):
            told.append("revoked?")
            is_open.wait(60)
            told.append("revoked")

    told, is_open, listener = [], threading.Event(), SlowToRevoke()
    connector, _ = cluster.join(listener, drain_timeout_ms=200)
    connector.unsubscribe()
    connector.set_rebalance_listener(listener)
    connector.create_message_streams({"u": 1})
    assert told == ["assigned", "revoked?"]
    is_open.set()
    eventually(lambda: len(told) > 3)
    assert told[2:4] == ["revoked", "assigned"]


def test_a_listener_that_stays_hears_of_a_new_membership_when_its_late_hook_has_returned(cluster):
    listener = SlowToRelease()
    connector, _ = cluster.join(listener, drain_timeout_ms=200)
    connector.unsubscribe()
    connector.create_message_streams({"u": 1})
    listener.open.set()
    eventually(lambda: listener.told[-1] == "start" and len(listener.told) > 4)
    assert listener.told[:5] == ["starts?", "start", "release", "released", "starts?"]


def test_a_hook_that_unsubscribes_and_joins_again_does_not_wait_for_itself(cluster):
    joined = threading.Event()

    class JoinsAgain(Listener):
        def before_releasing_partitions(self, partitions):
            super().before_releasing_partitions(partitions)
            if not joined.is_set():
                joined.set()
                connector.unsubscribe(0)
                connector.create_message_streams({"u": 1})
                self.told.append("joined")

    listener = JoinsAgain()
    connector, _ = cluster.join(listener, drain_timeout_ms=60_000)
    cluster.join()
    eventually(lambda: "joined" in listener.told)
    assert listener.told == [("start", {"t"}), ("release", {"t"}), ("start", {"u"}), "joined"]


def test_a_listener_that_is_set_beside_joining_hears_of_the_first_share_or_is_refused(cluster):
    for line in itertools.count():
        connector, listener = cluster.connector(), Listener()
        other = threading.Thread(target=connector.create_message_streams, args=({"t": 1},))

        def join_beside(other=other):
            other.start()
            # the other thread may wait for a lock that this thread holds
            other.join(0.05)

        is_refused = False
        with AtLine(line, join_beside, (connector_module.__file__,)) as strike:
            try:
                connector.set_rebalance_listener(listener)
            except MessageStreamsExistError:
                is_refused = True
        if not strike.struck:
            break
        other.join(60)
        assert listener.told == ([] if is_refused else [("start", {"t"})]), f"joined at line {line}"
        connector.shutdown()
    assert line > 4, "the connector's lines were not seen"


@pytest.mark.parametrize(("rule", "left"), [("at_least_once", 17), ("at_next", 16), ("acknowledged", 20)])
def test_a_loop_may_unsubscribe_and_what_it_has_in_hand_is_delivered_again_as_the_rule_says(cluster, rule, left):
    connector, stream = cluster.join(delivery_rule=rule)
    read = []
    for message in stream:
        read.append(message.offset())
        if len(read) == 4:
            connector.unsubscribe()
    assert len(read) == 4
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    assert len(take(stream, left)) == left, "three were consumed; the fourth comes again if it was not counted"
    assert sum(connector.lag().values()) == 0


def test_a_hook_may_unsubscribe(cluster):
    done = threading.Event()

    class Leaving(Listener):
        def before_starting_fetchers(self, partitions, assignment):
            super().before_starting_fetchers(partitions, assignment)
            if len(self.told) > 1 and not done.is_set():
                connector.unsubscribe()
                done.set()

    connector = cluster.connector()
    connector.set_rebalance_listener(Leaving())
    connector.create_message_streams({"t": 1})
    cluster.join(topic="t")
    assert done.wait(60)
    assert connector.status.phase is Phase.CREATED
    connector.create_message_streams({"u": 1})


def test_two_threads_may_unsubscribe_and_a_third_may_shut_down(cluster):
    connector, _ = cluster.join()
    calls = [connector.unsubscribe, connector.unsubscribe, connector.shutdown]
    ended = []

    def call(one):
        try:
            one()
            ended.append(None)
        except ConsumerClosedError as error:
            ended.append(error)

    threads = [threading.Thread(target=call, args=(one,)) for one in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ended) == 3
    assert traces(cluster) == ((), [])
    with pytest.raises(ConsumerClosedError):
        connector.create_message_streams({"t": 1})


@pytest.fixture
def led():
    """A cluster whose groups are led by a member."""
    led = LedCluster(drain_timeout_ms=500)
    yield led
    led.close(0.5)


@pytest.fixture
def held(led, monkeypatch):
    """A member that unsubscribes on another thread, while ZooKeeper does not answer its read of the led group."""
    connector, _ = led.join()
    read, asked, answered = connector._store.get_data_many, threading.Event(), threading.Event()
    ended = []

    def hold(paths, *arguments):
        if {leader_path("g"), f"/consumers/g/ids/{connector.consumer_id}"} <= set(paths):
            asked.set()
            answered.wait(60)
        return read(paths, *arguments)

    def unsubscribe():
        try:
            connector.unsubscribe()
            ended.append(None)
        except (ConsumerClosedError, UnsubscribeError) as error:
            ended.append(error)

    led.await_shares([6], connector)
    monkeypatch.setattr(connector._store, "get_data_many", hold)
    threads = [threading.Thread(target=unsubscribe) for _ in range(2)]
    threads[0].start()
    assert asked.wait(60)
    yield SimpleNamespace(connector=connector, threads=threads, answered=answered, ended=ended)
    answered.set()


def test_a_shutdown_does_not_wait_for_what_an_unsubscribe_asks_zookeeper(held):
    closing = threading.Thread(target=held.connector.shutdown, args=(0,))
    closing.start()
    closing.join(30)
    is_closed = not closing.is_alive()
    held.answered.set()
    held.threads[0].join(60)
    assert is_closed, "it waits for the request"
    assert isinstance(held.ended[0], (ConsumerClosedError, UnsubscribeError))


def test_two_threads_that_unsubscribe_from_a_led_group_keep_the_connector(held):
    held.threads[1].start()
    held.threads[1].join(0.1)
    held.answered.set()
    for thread in held.threads:
        thread.join(60)
    assert held.ended == [None, None]
    held.connector.create_message_streams({"t": 1})


@pytest.mark.parametrize("by_filter", [False, True], ids=["by topic", "by filter"])
def test_an_unsubscribe_beside_joining_at_whatever_line_ends_the_streams_or_says_that_it_is_too_early(
    cluster, by_filter
):
    told = set()
    for line in itertools.count():
        connector = cluster.connector()

        def unsubscribe(connector=connector):
            try:
                connector.unsubscribe()
                told.add("unsubscribed" if connector.status.phase is Phase.CREATED else "joined")
            except NotJoinedError:
                told.add("too early")

        other = threading.Thread(target=unsubscribe)

        def unsubscribe_beside(other=other):
            other.start()
            # the other thread may wait for a lock that this thread holds
            other.join(0.05)

        with AtLine(line, unsubscribe_beside, (connector_module.__file__,)) as strike:
            if by_filter:
                (stream,) = connector.create_message_streams_by_filter(Whitelist("t"))
            else:
                (stream,) = connector.create_message_streams({"t": 1})["t"]
        if not strike.struck:
            break
        other.join(60)
        if connector.status.phase is Phase.CREATED:
            assert list(stream) == []
        else:
            connector.unsubscribe()
    assert told == {"unsubscribed", "too early"}


@pytest.mark.parametrize("line", range(0, 100, 4))
def test_unsubscribe_interrupted_at_any_line_may_be_called_again(cluster, line):
    connector, _ = cluster.join()
    with contextlib.suppress(KeyboardInterrupt), AtLine(line, interrupt):
        connector.unsubscribe()
    connector.unsubscribe()
    assert traces(cluster) == ((), [])
    connector.create_message_streams({"u": 1})


def test_unsubscribe_interrupted_at_any_line_of_the_connector_keeps_the_listener(cluster):
    for line in itertools.count():
        listener = Listener()
        connector, _ = cluster.join(listener)
        with AtLine(line, interrupt, (connector_module.__file__,)) as strike, contextlib.suppress(KeyboardInterrupt):
            connector.unsubscribe()
        connector.unsubscribe()
        connector.create_message_streams({"u": 1})
        assert listener.told == [("start", {"t"}), ("release", {"t"}), ("start", {"u"})], f"interrupted at line {line}"
        connector.shutdown()
        if not strike.struck:
            break
    assert line > 20, "the connector's lines were not seen"


def test_a_signal_handler_that_interrupts_a_call_of_the_connector_may_not_wait_for_it(cluster):
    connector, stream = cluster.join()
    refused = []

    def handle():
        with pytest.raises(CallInProgressError):
            connector.unsubscribe()
        refused.append(1)

    with AtLine(5, handle):
        next(stream)
    assert refused == [1]
    assert len(connector.status.owned) == 2


def test_metrics_are_those_of_no_member_until_it_joins_again(cluster):
    connector, stream = cluster.join()
    take(stream, 20)
    registry = CollectorRegistry()
    registry.register(MemberCollector([connector]))

    def owned():
        samples = [sample for family in registry.collect() for sample in family.samples]
        return [sample.value for sample in samples if sample.name.endswith("owned_partitions")]

    assert owned() == [2]
    connector.unsubscribe()
    assert owned() == [], "as before it joined"
    connector.create_message_streams({"u": 1})
    assert owned() == [2]


def test_a_connector_that_unsubscribes_during_a_live_reset_leaves_no_answer_behind(cluster):
    tp = TopicPartition("t", 0)
    connector, _ = cluster.join()
    cluster.admin.ensure_path(answers_path("g"))
    request = Request("r1", RequestState.PREPARE, frozenset({tp}))
    cluster.admin.create(request_path("g"), encode_request(request), ephemeral=True)
    answer = answer_path("g", connector.consumer_id)
    eventually(lambda: cluster.admin.exists(answer))
    session = connector._store.session_id
    connector.unsubscribe()
    assert connector._store.session_id == session
    assert not cluster.zookeeper.tree.ephemerals(session)
