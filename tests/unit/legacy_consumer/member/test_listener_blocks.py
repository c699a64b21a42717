"""A user's listener, or a broker that is slow to answer, does not hold up the group."""

import threading

import pytest

from legacy_consumer import ConsumerConnector, Phase
from legacy_consumer.errors import BrokersUnavailableError, ConsumerClosedError, OffsetsNotCommittedError
from legacy_consumer.member.listener_calls import ListenerCalls
from rebalance.events import Doubted, Timer
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

TPS = [TopicPartition("t", n) for n in range(4)]


class Gate:
    """A listener whose hooks wait until the test sets `open`, and then raise `error` if it is set."""

    def __init__(self):
        self.entered = threading.Event()
        self.open = threading.Event()
        self.error = None
        self.told = []

    def before_releasing_partitions(self, partitions):
        self._hook("release", sorted(partitions))

    def before_starting_fetchers(self, partitions, assignment):
        self._hook("start", sorted(partitions))

    def _hook(self, *what):
        self.told.append(what)
        self.entered.set()
        if not self.open.wait(60):
            raise AssertionError("nobody let it through")
        if self.error is not None:
            raise self.error


class SlowFetchers(FakeFetchers):
    """Brokers that do not answer where a log ends before the test sets `open`."""

    def __init__(self, kafka):
        super().__init__(kafka)
        self.open = threading.Event()

    def latest(self, partitions):
        self.open.wait(60)
        return super().latest(partitions)


class Cluster:
    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.kafka = FakeKafka()
        admin = MemoryStore(self.zookeeper)
        admin.start()
        data = encode_topic(TopicAssignment(dict.fromkeys(range(4), (0,))))
        admin.create("/brokers/topics/t", data, make_parents=True)
        self.connectors = []

    def connector(self, fetchers=None, **properties):
        properties = {
            "auto_offset_reset": "smallest", "consumer_timeout_ms": 20_000, "drain_timeout_ms": 200, **properties
        }  # fmt: skip
        connector = ConsumerConnector(
            store=MemoryStore(self.zookeeper),
            fetchers=fetchers or FakeFetchers(self.kafka),
            zookeeper_connect="memory",
            group_id="g",
            **properties,
        )
        self.connectors.append(connector)
        return connector


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def cluster(gate):
    cluster = Cluster()
    yield cluster
    gate.open.set()
    for connector in cluster.connectors:
        connector.shutdown()
    eventually(lambda: not [t for t in threading.enumerate() if "listener" in t.name or "coordinator" in t.name])


def is_settled_with(connector, count):
    return connector.wait_until(lambda status: len(status.owned) == count and status.phase is Phase.STABLE, 60)


def test_a_hook_that_never_returns_holds_up_neither_its_member_nor_the_group(cluster, gate, caplog):
    """In an earlier version, one member's callback waited for a database, and the whole group waited with it."""
    first = cluster.connector()
    first.set_rebalance_listener(gate)
    cluster.kafka.produce(TPS[0], 1)
    (stream,) = first.create_message_streams({"t": 1})["t"]
    assert next(stream).offset() == 0, "its own messages flow"
    second = cluster.connector()
    second.create_message_streams({"t": 1})
    assert is_settled_with(first, 2)
    assert is_settled_with(second, 2)
    assert gate.entered.wait(60)
    assert gate.told == [("start", TPS)], "the hook behind the one that does not return waits for it"
    assert "did not return within 0.2 s" in caplog.text
    assert "does not wait for the rebalance listener" in caplog.text
    assert first.counters.listener_errors == 3
    gate.open.set()
    eventually(lambda: [what for what, _ in gate.told] == ["start", "release", "start"])


def test_a_member_is_sound_after_a_hook_was_late_and_waits_for_hooks_again(cluster, gate):
    # long enough for the later hooks, whose thread may begin late on a busy machine
    first = cluster.connector(drain_timeout_ms=2000)
    first.set_rebalance_listener(gate)
    first.create_message_streams({"t": 1})
    gate.open.set()
    eventually(lambda: not first._membership.delivery.telling.calls.is_late)
    second = cluster.connector()
    second.create_message_streams({"t": 1})
    assert is_settled_with(first, 2)
    assert is_settled_with(second, 2)
    assert first.counters.listener_errors == 1
    assert [what for what, _ in gate.told] == ["start", "release", "start"]


def test_a_hook_that_returns_in_the_very_moment_it_is_given_up_is_not_held_against_the_next():
    """An earlier version did not wait for the next hook, as if the first had not ended."""
    listener = Gate()
    listener.open.set()
    calls = ListenerCalls("g_me", listener)
    given_up = calls.begin(lambda hooks: hooks.before_releasing_partitions([]), 0.2)
    eventually(lambda: given_up.done.is_set() and calls._running is None)
    calls.conclude(given_up)
    ended = []
    calls.wait(calls.begin(ended.append, 60))
    calls.end()
    assert (ended, calls.errors) == ([listener], 0)


@pytest.mark.parametrize("error", [RuntimeError("a user's defect"), SystemExit(3)])
def test_a_hook_that_raises_is_logged_and_counted_and_stops_nothing(cluster, gate, caplog, error):
    gate.error = error
    gate.open.set()
    first = cluster.connector(drain_timeout_ms=60_000)
    first.set_rebalance_listener(gate)
    first.create_message_streams({"t": 1})
    assert is_settled_with(first, 4)
    assert first.counters.listener_errors == 1
    assert "the rebalance listener raised" in caplog.text


@pytest.mark.parametrize("loss", ["session", "owner znode"])
def test_lost_partitions_begin_anew_though_no_thread_is_left_for_the_hook(cluster, gate, monkeypatch, loss):
    """An earlier version owned but never delivered them, and refused their commits as another member's."""
    gate.open.set()
    connector = cluster.connector(rebalance_backoff_ms=20)
    connector.set_rebalance_listener(gate)
    cluster.kafka.produce(TPS[0], 1)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    next(stream)
    connector.commit_offsets()
    delivery, start = connector._membership.delivery, threading.Thread.start
    delivery.telling.calls.end()
    delivery.telling.calls = ListenerCalls("g_a", gate)
    refused = []

    def refuse(thread):
        if "listener" in thread.name and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    if loss == "session":
        cluster.zookeeper.expire(connector._store.session_id)
    else:
        connector._store.delete("/consumers/g/owners/t/0")
        connector._membership._coordinator.post(Doubted())
    eventually(lambda: refused)
    assert is_settled_with(connector, 4)
    cluster.kafka.produce(TPS[0], 1)
    assert next(stream).offset() == 1
    assert connector.commit_offsets({TPS[0]: 2}).committed[TPS[0]].offset == 2


def test_a_partition_that_could_not_begin_is_no_more_the_members_once_it_is_released(cluster, gate, monkeypatch):
    """An earlier version kept it in the member's progress, and a commit by name overwrote its new owner's offset."""
    gate.open.set()
    first = cluster.connector(rebalance_backoff_ms=20)
    first.set_rebalance_listener(gate)
    first.create_message_streams({"t": 1})
    delivery, start = first._membership.delivery, threading.Thread.start
    delivery.telling.calls.end()
    delivery.telling.calls = ListenerCalls("g_a", gate)

    def refuse(thread):
        if thread.name == "g_a-listener":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        cluster.zookeeper.expire(first._store.session_id)
        assert first.wait_until(lambda status: status.phase is Phase.DEGRADED and len(status.owned) == 4, 60)
        second = cluster.connector()
        second.create_message_streams({"t": 1})
        assert is_settled_with(second, 2)
    assert is_settled_with(first, 2)
    assert first.progress.keys() == first.status.owned.keys()
    with pytest.raises(OffsetsNotCommittedError, match="this member does not read it, and it has an owner"):
        first.commit_offsets({min(second.status.owned): 1})


def test_hooks_with_javas_names_may_raise_each_and_the_group_goes_on(cluster):
    class Raises:
        def __init__(self):
            self.told = []

        def on_partitions_assigned(self, partitions):
            self._tell("assigned")

        def on_partitions_revoked(self, partitions):
            self._tell("revoked")

        def on_partitions_lost(self, partitions):
            self._tell("lost")

        def _tell(self, what):
            self.told.append(what)
            raise RuntimeError("a user's defect")

    listener = Raises()
    first = cluster.connector(drain_timeout_ms=60_000)
    first.set_rebalance_listener(listener)
    first.create_message_streams({"t": 1})
    assert is_settled_with(first, 4)
    cluster.zookeeper.expire(first._store.session_id)
    eventually(lambda: listener.told == ["assigned", "lost", "assigned"])
    assert is_settled_with(first, 4)
    second = cluster.connector()
    second.create_message_streams({"t": 1})
    assert is_settled_with(first, 2)
    assert is_settled_with(second, 2)
    eventually(lambda: listener.told[3:4] == ["revoked"])
    eventually(lambda: first.counters.listener_errors == len(listener.told))


@pytest.mark.parametrize("call", ["log_offsets", "latest"])
def test_brokers_that_cannot_be_asked_where_a_log_ends_hold_up_nobody(cluster, caplog, call, monkeypatch):
    def fail(*_):
        raise BrokersUnavailableError("none is registered")

    monkeypatch.setattr(FakeFetchers, call, fail)
    cluster.kafka.produce(TPS[0], 3)
    connector = cluster.connector(auto_offset_reset="largest")
    connector.create_message_streams({"t": 1})
    assert is_settled_with(connector, 4)
    assert "starts without log offsets: " in caplog.text


def test_brokers_that_do_not_say_where_a_log_ends_hold_up_nobody(cluster, caplog):
    fetchers = SlowFetchers(cluster.kafka)
    cluster.kafka.produce(TPS[0], 3)
    first = cluster.connector(fetchers, auto_offset_reset="largest")
    first.create_message_streams({"t": 1})
    assert is_settled_with(first, 4)
    assert "starts without log offsets: no answer within" in caplog.text
    second = cluster.connector()
    second.create_message_streams({"t": 1})
    assert is_settled_with(first, 2)
    assert is_settled_with(second, 2)
    fetchers.open.set()


def test_a_hook_may_shut_the_connector_down_and_no_other_is_called_after_it(cluster, gate):
    """In an earlier version, shutdown() inside a listener waited for the listener."""
    gate.open.set()
    connector = cluster.connector(drain_timeout_ms=30_000)
    ended = threading.Event()

    class Leaver(Gate):
        def _hook(self, *what):
            self.told.append(what)
            connector.shutdown(timeout=60)
            ended.set()

    leaver = Leaver()
    connector.set_rebalance_listener(leaver)
    with pytest.raises(ConsumerClosedError):
        connector.create_message_streams({"t": 1})
    assert ended.wait(50), "it is not waited for by itself"
    assert leaver.told == [("start", TPS)]
    assert connector.status.phase is Phase.CLOSED


class SlowRelease(Gate):
    """A listener whose hook of a release alone waits until the test sets `open`."""

    def before_starting_fetchers(self, partitions, assignment):
        self.told.append(("start", sorted(partitions)))


class TellsOfLosses(Gate):
    """A listener that is told of losses; that hook alone waits until the test sets `open`."""

    def before_starting_fetchers(self, partitions, assignment):
        self.told.append(("start", sorted(partitions)))

    def before_releasing_partitions(self, partitions):
        self.told.append(("release", sorted(partitions)))

    def on_partitions_lost(self, partitions):
        self._hook("lost", sorted(partitions))


def committed(connector, tp):
    path = f"/consumers/g/offsets/{tp.topic}/{tp.partition}"
    store = connector._store
    return int(store.get_data(path).data) if store.exists(path) is not None else None


def released_by(cluster, listener, **properties):
    """Return the members of a group whose first member must release t/2 and t/3 and is in the hook of the release."""
    first = cluster.connector(drain_timeout_ms=60_000, consumer_id="a", **properties)
    first.set_rebalance_listener(listener)
    (stream,) = first.create_message_streams({"t": 1})["t"]
    second = cluster.connector(consumer_id="b", rebalance_backoff_ms=50)
    second.create_message_streams({"t": 1})
    assert listener.entered.wait(60)
    assert listener.told == [("start", TPS), ("release", TPS[2:])]
    return first, second, stream


def that_lost_all(cluster, listener):
    """Return a member that has lost its session and is in the hook of that loss."""
    connector = cluster.connector(drain_timeout_ms=60_000)
    connector.set_rebalance_listener(listener)
    connector.create_message_streams({"t": 1})
    cluster.zookeeper.expire(connector._store.session_id)
    assert listener.entered.wait(60)
    return connector


def test_while_a_hook_runs_the_member_commits_what_it_keeps_and_learns_that_its_connection_is_lost(cluster):
    """In an earlier version, the coordinator waited for the hook: no periodic commit, and no pause."""
    listener = SlowRelease()
    first, second, stream = released_by(cluster, listener, auto_commit_interval_ms=20)
    cluster.kafka.produce(TPS[0], 3)
    for _ in range(3):
        next(stream)
    eventually(lambda: committed(first, TPS[0]) == 2)
    third = cluster.connector(consumer_id="c", rebalance_backoff_ms=50)
    third.create_message_streams({"t": 1})
    cluster.kafka.produce(TPS[0], 1)
    next(stream)
    eventually(lambda: committed(first, TPS[0]) == 3)
    third.shutdown()
    cluster.zookeeper.suspend(first._store)
    eventually(lambda: not first.vitals.connected)
    cluster.zookeeper.resume(first._store)
    eventually(lambda: first.vitals.connected)
    assert len(first.status.owned) == 4, "nothing is released before the hook has returned"
    listener.open.set()
    assert is_settled_with(first, 2)
    assert is_settled_with(second, 2)
    assert listener.told[2:] == [("start", [])]
    assert first.counters.listener_errors == 0


def test_a_session_that_ends_while_a_hook_of_a_start_runs_is_told_to_the_listener_before_the_next_start(cluster, gate):
    connector = cluster.connector(drain_timeout_ms=60_000)
    connector.set_rebalance_listener(gate)
    joining = threading.Thread(target=connector.create_message_streams, args=({"t": 1},))
    joining.start()
    assert gate.entered.wait(60)
    cluster.zookeeper.expire(connector._store.session_id)
    eventually(lambda: len(connector._membership.delivery.telling.calls._waiting) == 1)
    gate.open.set()
    joining.join(60)
    assert is_settled_with(connector, 4)
    assert gate.told == [("start", TPS), ("release", TPS), ("start", TPS)]


def test_a_session_that_ends_while_a_hook_of_a_release_runs_loses_the_other_partitions_alone(cluster):
    class Listener(SlowRelease):
        def on_partitions_lost(self, partitions):
            self.told.append(("lost", sorted(partitions)))

    listener = Listener()
    first, second, _ = released_by(cluster, listener)
    cluster.zookeeper.expire(first._store.session_id)
    eventually(lambda: len(first._membership.delivery.telling.calls._waiting) == 1)
    listener.open.set()
    assert is_settled_with(first, 2)
    assert is_settled_with(second, 2)
    assert listener.told[2:] == [("lost", TPS[:2]), ("start", TPS[:2])]


def test_a_member_that_is_shut_down_while_its_hook_of_a_release_runs_ends_when_the_hook_returns(cluster):
    listener = SlowRelease()
    first, second, _ = released_by(cluster, listener)
    closing = threading.Thread(target=first.shutdown, args=(60,))
    closing.start()
    eventually(lambda: first.status.phase is Phase.LEAVING)
    assert len(first.status.owned) == 4
    listener.open.set()
    closing.join(60)
    assert is_settled_with(second, 4)
    assert listener.told[2:] == [("release", TPS[:2])]


@pytest.mark.parametrize("ends", ["shutdown", "unsubscribe"])
def test_a_listener_hears_of_all_losses_before_its_member_has_left(cluster, ends):
    listener = TellsOfLosses()
    connector = that_lost_all(cluster, listener)
    ending = threading.Thread(target=getattr(connector, ends))
    ending.start()
    eventually(lambda: connector.status.phase in (Phase.LEAVING, Phase.CLOSED))
    assert ending.is_alive()
    listener.open.set()
    ending.join(60)
    assert [what for what in listener.told if what[0] == "lost"] == [("lost", TPS)]


def test_a_member_begins_no_partition_before_its_listener_has_heard_of_the_loss(cluster):
    listener = TellsOfLosses()
    connector = cluster.connector(drain_timeout_ms=60_000)
    connector.set_rebalance_listener(listener)
    cluster.kafka.produce(TPS[0], 1)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    assert next(stream).offset() == 0
    cluster.zookeeper.expire(connector._store.session_id)
    assert listener.entered.wait(60)
    eventually(lambda: len(connector.status.owned) == 4)
    assert listener.told == [("start", TPS), ("lost", TPS)]
    listener.open.set()
    assert is_settled_with(connector, 4)
    assert listener.told == [("start", TPS), ("lost", TPS), ("start", TPS)]


def after_chores(connector, count=3):
    """Wait until the coordinator has begun `count` more periodic commits, so all but the last of them have ended."""
    upkeep, done = connector._membership._coordinator._upkeep, []
    do = upkeep.do

    def counted(chore, state):
        done.append(chore)
        return do(chore, state)

    upkeep.do = counted
    eventually(lambda: len(done) >= count)
    upkeep.do = do


def test_while_a_hook_runs_nothing_is_committed_for_a_topic_that_was_created_again(cluster):
    """In an earlier version, the new topic began at an offset of the old one if the session ended before the hook."""
    listener = SlowRelease()
    cluster.kafka.produce(TPS[0], 5)
    first, second, stream = released_by(cluster, listener, auto_commit_interval_ms=20)
    for _ in range(3):
        next(stream)
    eventually(lambda: committed(first, TPS[0]) == 2)
    second._store.delete("/brokers/topics/t")
    data = encode_topic(TopicAssignment(dict.fromkeys(range(4), (0,))))
    second._store.create("/brokers/topics/t", data)
    eventually(lambda: not first._membership._coordinator._reader.knows({"t"}))
    next(stream)
    after_chores(first)
    assert committed(first, TPS[0]) == 2
    listener.open.set()


def test_what_the_user_finishes_while_the_hook_of_its_release_runs_is_delivered_again(cluster):
    """In an earlier version, a periodic commit counted it: a listener that stores its results there lost them."""
    listener = SlowRelease()
    cluster.kafka.produce(TPS[3], 5)
    first = cluster.connector(consumer_id="a", drain_timeout_ms=60_000, auto_commit_interval_ms=20)
    first.set_rebalance_listener(listener)
    (stream,) = first.create_message_streams({"t": 1})["t"]
    assert [next(stream).offset() for _ in range(3)] == [0, 1, 2]
    eventually(lambda: committed(first, TPS[3]) == 2)
    second = cluster.connector(consumer_id="b", rebalance_backoff_ms=50)
    joining = threading.Thread(target=second.create_message_streams, args=({"t": 1},))
    joining.start()
    eventually(lambda: first.status.phase is Phase.DRAINING)
    first._membership._coordinator.post(Timer.DRAIN)
    assert listener.entered.wait(60)
    for one in first._membership.streams.all():
        one.come_back()
    after_chores(first)
    assert committed(first, TPS[3]) == 2
    listener.open.set()
    joining.join(60)
    assert is_settled_with(second, 2)


def test_a_hook_that_shuts_its_member_down_ends_a_shutdown_that_waits_for_it(cluster):
    """In an earlier version, both waited for the whole timeout."""

    class Leaver(SlowRelease):
        def _hook(self, *what):
            super()._hook(*what)
            connector.shutdown(60)

    leaver = Leaver()
    connector = cluster.connector(drain_timeout_ms=60_000)
    connector.set_rebalance_listener(leaver)
    connector.create_message_streams({"t": 1})
    closing = threading.Thread(target=connector.shutdown, args=(60,))
    closing.start()
    assert leaver.entered.wait(60)
    leaver.open.set()
    closing.join(30)
    assert not closing.is_alive()


def test_ctrl_c_while_the_end_of_a_member_waits_for_the_hook_of_a_loss_ends_the_wait(cluster, monkeypatch):
    listener = TellsOfLosses()
    connector = that_lost_all(cluster, listener)
    delivery = connector._membership.delivery

    def interrupted(call):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(delivery.telling.calls, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            delivery.close()
    assert delivery.telling.calls.is_over
    delivery.close()
    listener.open.set()


def test_a_listener_hears_once_of_a_loss_though_the_next_session_ends_before_the_next_start(cluster):
    """In an earlier version, it heard of two losses after one start."""
    listener = TellsOfLosses()
    connector = cluster.connector(drain_timeout_ms=60_000)
    connector.set_rebalance_listener(listener)
    connector.create_message_streams({"t": 1})
    for _ in range(2):
        before = connector._store.session_id
        eventually(lambda: len(connector.status.owned) == 4)
        cluster.zookeeper.expire(before)
        eventually(lambda before=before: connector._store.session_id not in (0, before))
    assert listener.entered.wait(60)
    listener.open.set()
    assert is_settled_with(connector, 4)
    assert listener.told == [("start", TPS), ("lost", TPS), ("start", TPS)]


def test_a_listener_hears_of_a_loss_in_the_middle_of_a_release_that_it_has_not_heard_of(cluster):
    """In an earlier version, it heard neither of the release nor of the loss."""
    listener = TellsOfLosses()
    first = cluster.connector(drain_timeout_ms=60_000, consumer_id="a")
    first.set_rebalance_listener(listener)
    first.create_message_streams({"t": 1})
    stranger = MemoryStore(cluster.zookeeper)
    stranger.start()
    stranger.delete("/consumers/g/owners/t/0")
    stranger.create("/consumers/g/owners/t/0", b"g_x-0", ephemeral=True)
    first._membership._coordinator.post(Doubted())
    assert listener.entered.wait(60)
    second = cluster.connector(consumer_id="b", rebalance_backoff_ms=50)
    second.create_message_streams({"t": 1})
    eventually(lambda: first._membership.delivery.committer._held_back)
    cluster.zookeeper.expire(first._store.session_id)
    eventually(lambda: not first._membership.delivery.committer._held_back)
    stranger.close()
    listener.open.set()
    assert is_settled_with(first, 2)
    assert [what for what in listener.told if what[0] != "start"] == [("lost", TPS[:1]), ("lost", TPS[1:])]


class OfJava:
    """A listener with Java's hooks, which wait until the test sets `open` if they are told of nothing."""

    def __init__(self):
        self.entered, self.open = threading.Event(), threading.Event()

    def on_partitions_assigned(self, partitions):
        if not partitions:
            self.entered.set()
            self.open.wait(60)

    on_partitions_revoked = on_partitions_assigned


@pytest.mark.parametrize("hook", ["tell_nothing_assigned", "tell_nothing_revoked"])
@pytest.mark.parametrize("returns", [True, False])
def test_a_hook_of_java_that_is_told_of_nothing_is_waited_for_and_counted_as_any_other(hook, returns, cluster):
    listener = OfJava()
    connector = cluster.connector(drain_timeout_ms=60_000 if returns else 50)
    connector.set_rebalance_listener(listener)
    delivery = connector._membership.delivery
    assert next(delivery.finish_telling(), None) is None
    getattr(delivery.telling, hook)()
    assert listener.entered.wait(60)
    step = delivery.finish_telling()
    assert next(step) > 0
    if returns:
        listener.open.set()
    eventually(lambda: next(step, None) is None)
    assert connector.counters.listener_errors == (0 if returns else 1)
    assert next(delivery.finish_telling(), None) is None
    listener.open.set()


def test_a_start_that_fails_while_the_member_leaves_keeps_no_other_partition_from_its_last_commit(cluster):
    class Starts(SlowRelease):
        def starting_offsets(self, partitions):
            if TPS[2] in partitions and connector.status.owned:
                self._hook("starts", sorted(partitions))
            return {}

        def before_releasing_partitions(self, partitions):
            pass

    listener = Starts()
    for tp in TPS[:2]:
        cluster.kafka.produce(tp, 2)
    other = cluster.connector(consumer_id="b")
    other.create_message_streams({"t": 1})
    connector = cluster.connector(consumer_id="a", drain_timeout_ms=60_000, auto_commit_interval_ms=60_000)
    connector.set_rebalance_listener(listener)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    assert is_settled_with(connector, 2)
    for _ in range(4):
        next(stream)
    other.shutdown()
    assert listener.entered.wait(60)
    offsets, read = connector._membership.delivery._offsets, connector._membership.delivery._offsets.read

    def fail(partitions):
        if TPS[2] in partitions:
            raise RuntimeError("a defect")
        return read(partitions)

    offsets.read = fail
    connector.shutdown(0.1)
    reader = MemoryStore(cluster.zookeeper)
    reader.start()
    stored = [int(reader.get_data(f"/consumers/g/offsets/t/{n}").data) for n in (0, 1)]
    reader.close()
    assert sorted(stored) in ([1, 2], [2, 2])
    listener.open.set()


def test_a_start_is_not_committed_while_the_listener_may_still_seek(cluster, gate):
    """In an earlier version, a member that died in the hook had skipped messages that its listener wanted."""
    cluster.kafka.produce(TPS[0], 7)
    connector = cluster.connector(drain_timeout_ms=60_000, auto_commit_interval_ms=20, auto_offset_reset="largest")
    connector.set_rebalance_listener(gate)
    joining = threading.Thread(target=connector.create_message_streams, args=({"t": 1},))
    joining.start()
    assert gate.entered.wait(60)
    assert connector.progress[TPS[0]].consumed == 7
    after_chores(connector)
    assert committed(connector, TPS[0]) is None
    gate.open.set()
    joining.join(60)
    eventually(lambda: committed(connector, TPS[0]) == 7)


def test_a_rebalance_waits_once_for_a_hook_that_hangs_however_many_wait_behind_it():
    """In an earlier version, it waited as long for each hook behind it, though none of them could run."""
    listener = Gate()
    calls = ListenerCalls("g_me", listener)
    hanging = calls.begin(lambda hooks: hooks.before_releasing_partitions([]), 0.05)
    behind = [calls.begin(lambda hooks: None, 3600.0) for _ in range(3)]
    calls.wait(hanging)
    assert [calls.left_s(call) for call in behind] == [0.0] * 3
    listener.open.set()
    eventually(lambda: not calls.is_late)
    calls.end()


def test_a_hook_that_was_told_behind_a_late_one_is_waited_for_once_the_late_one_has_returned():
    """In an earlier version, it counted as late itself, and the next one was not waited for either."""
    listener, second = Gate(), Gate()
    calls = ListenerCalls("g_me", listener)
    late = calls.begin(lambda hooks: hooks.before_releasing_partitions([]), 0.0)
    calls.conclude(late)
    behind = calls.begin(lambda hooks: second.before_releasing_partitions([]), 3600.0)
    listener.open.set()
    assert second.entered.wait(60)
    assert calls.left_s(behind) > 0
    second.open.set()
    calls.wait(behind)
    assert calls.errors == 1
    calls.end()
