"""A user's listener, or a broker that is slow to answer, does not hold up the group."""

import threading

import pytest

from legacy_consumer import ConsumerConnector, Phase
from legacy_consumer.errors import BrokersUnavailableError, ConsumerClosedError, OffsetsNotCommittedError
from legacy_consumer.member.listener_calls import ListenerCalls
from rebalance.events import Doubted
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
    eventually(lambda: not first._membership.delivery._calls.is_late)
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
    is_over_in_time = calls._is_over_in_time

    def too_late(done, timeout_s):
        eventually(lambda: done.is_set() and calls._running is None)
        return False

    calls._is_over_in_time = too_late
    calls.call(lambda hooks: hooks.before_releasing_partitions([]), 0.2)
    calls._is_over_in_time = is_over_in_time
    ended = []
    calls.call(ended.append, 60)
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
    delivery._calls.end()
    delivery._calls = ListenerCalls("g_a", gate)
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
    delivery._calls.end()
    delivery._calls = ListenerCalls("g_a", gate)

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
