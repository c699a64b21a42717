"""shutdown() returns within its deadline in every state of a member; a second call is harmless; any thread may call it.

The tests run over the in-memory store and over a real ZooKeeper, without brokers.
"""

import logging
import threading
import uuid

import pytest

from legacy_consumer import ConsumerConnector, Phase
from legacy_consumer.errors import ConsumerClosedError
from tests.contract.backends import KazooBackend, MemoryBackend
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import eventually
from zk_layout.codecs import encode_registration, encode_topic
from zk_layout.errors import ConnectionLostError, NoNodeError
from zk_layout.memory_store import MemoryStore
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicAssignment, TopicPartition

P0 = TopicPartition("t", 0)
TIMEOUT_S = 1.0
MARGIN_S = 5.0
"""The most seconds that shutdown() may take beyond its timeout."""


class HangingStore(MemoryStore):
    """A store whose requests can hang until it is closed, as with a server that does not answer."""

    def __init__(self, server):
        super().__init__(server)
        self.hanging = threading.Event()
        self.entered = threading.Event()
        self._end = threading.Event()

    def _request(self, kind, carry_out):
        if self.hanging.is_set():
            self.entered.set()
            self._end.wait(110)
            raise ConnectionLostError("closed")
        return super()._request(kind, carry_out)

    def close(self):
        self._end.set()
        super().close()


class MemoryStageBackend(MemoryBackend):
    """A backend in memory, whose silence() lets the requests of a member's store hang."""

    def new_cuttable_store(self, chroot=""):
        store = HangingStore(self.server)
        self._stores.append(store)
        return store

    def silence(self, store):
        store.hanging.set()

    def restore(self, store):
        store.hanging.clear()


class KazooStageBackend(KazooBackend):
    """A backend over a real ZooKeeper, with a chroot for each test."""

    def __init__(self, connect):
        root = f"/{uuid.uuid4().hex}"
        super().__init__(connect)
        maker = self.new_store()
        maker.start()
        maker.create(root, None)
        self.connect, self._chroot = connect + root, root

    def new_cuttable_store(self, chroot=""):
        return super().new_cuttable_store(self._chroot)

    def silence(self, store):
        self.proxy(store).pause()


class Stage:
    """A group's ZooKeeper, and one member that tests bring into a state."""

    def __init__(self, backend):
        self.backend = backend
        self.kafka = FakeKafka()
        self.admin = backend.new_store()
        self.admin.start()
        data = encode_topic(TopicAssignment(dict.fromkeys(range(2), (0,))))
        self.admin.create("/brokers/topics/t", data, make_parents=True)
        self.store = backend.new_cuttable_store()
        self.is_out_of_sight = False
        self.threads = []
        self.gates = []
        self.connector = self.member()

    def member(self, **properties):
        return ConsumerConnector(
            store=self.store,
            fetchers=FakeFetchers(self.kafka),
            zookeeper_connect="memory",
            group_id="g",
            consumer_id="me",
            auto_offset_reset="smallest",
            drain_timeout_ms=60_000,
            group_mismatch="warn",
            **{"rebalance_max_retries": 50, "rebalance_backoff_ms": 2000, **properties},
        )

    def start(self, target):
        thread = threading.Thread(target=target)
        self.threads.append(thread)
        thread.start()

    def join_in_background(self):
        def join():
            try:
                self.connector.create_message_streams({"t": 1})
            except (ConsumerClosedError, ConnectionLostError) as error:
                self.refusal = error

        self.start(join)

    def join(self):
        (stream,) = self.connector.create_message_streams({"t": 1})["t"]
        return stream

    def wait_for(self, *phases):
        eventually(lambda: self.connector.status.phase in phases)

    def leave_to_itself(self, how):
        """Take ZooKeeper from the member by how(store): from now on none of its requests completes."""
        self.is_out_of_sight = True
        how(self.store)

    def ephemerals_of_the_member(self):
        found = []
        for folder in ("/consumers/g/ids", "/consumers/g/owners/t"):
            try:
                names = self.admin.get_children(folder)
            except NoNodeError:
                continue
            paths = [f"{folder}/{name}" for name in names]
            found += [path for path in paths if self.admin.get_data(path).stat.ephemeral_owner == self.session_id]
        return found


def created(stage):
    """Do nothing: the connector has no streams yet."""


def stable(stage):
    stage.join()
    stage.wait_for(Phase.STABLE)


def joining(stage):
    """Let another session have the member's id znode, so that the member cannot register."""
    stage.admin.create("/consumers/g/ids/g_me", b"{}", ephemeral=True, make_parents=True)
    stage.join_in_background()
    stage.wait_for(Phase.JOINING)


def waiting(stage):
    """Let another client's owner znode block the member's claim."""
    stage.admin.create("/consumers/g/owners/t/0", b"g_ghost-0", ephemeral=True, make_parents=True)
    stage.join_in_background()
    stage.wait_for(Phase.WAITING)


def degraded(stage):
    """Let another client's owner znode block the claim until the member has used up its tries."""
    stage.connector.shutdown(0)
    stage.store = stage.backend.new_cuttable_store()
    stage.connector = stage.member(rebalance_max_retries=1, rebalance_backoff_ms=50)
    stage.admin.create("/consumers/g/owners/t/0", b"g_ghost-0", ephemeral=True, make_parents=True)
    stage.join_in_background()
    stage.wait_for(Phase.DEGRADED)


def draining(stage):
    """Let the user's code hold messages of a partition that the member has to release to another member."""
    stream = stage.join()
    stage.kafka.produce(TopicPartition("t", 1))
    taken = threading.Event()

    def take():
        next(iter(stream))
        taken.set()

    stage.start(take)
    assert taken.wait(60)
    registration = ConsumerRegistration(SubscriptionPattern.STATIC, (("t", 1),), 0)
    stage.admin.create("/consumers/g/ids/g_you", encode_registration(registration), ephemeral=True)
    stage.wait_for(Phase.DRAINING)


def held(stage):
    """Let the user's code hold messages and never ask for more."""
    stream = stage.join()
    stage.kafka.produce(P0)
    taken = threading.Event()

    def take():
        next(iter(stream))
        taken.set()

    stage.start(take)
    assert taken.wait(60)


def suspended(stage):
    stage.join()
    stage.leave_to_itself(stage.backend.cut)
    eventually(lambda: not stage.connector.vitals.connected)


def expired(stage):
    """Let the server end the member's session."""
    stage.join()
    stage.leave_to_itself(stage.backend.expire)


def silent(stage):
    """Let ZooKeeper stop answering, while its connection stays open."""
    stage.join()
    stage.leave_to_itself(stage.backend.silence)


def rebalancing(stage):
    """Let the coordinator wait, in the middle of a rebalance, for an answer that does not come."""
    stage.join()
    if isinstance(stage.store, HangingStore):
        stage.leave_to_itself(stage.backend.silence)
        stage.admin.create("/consumers/g/ids/g_you", b"", ephemeral=True)
        assert stage.store.entered.wait(60)
    else:
        # each answer takes longer than shutdown() may
        stage.is_out_of_sight = True
        stage.backend.proxy(stage.store).slow(2.0)
        stage.admin.create("/consumers/g/ids/g_you", b"", ephemeral=True)
        stage.wait_for(Phase.REBALANCING)


def blocked_in_a_hook(stage):
    gate = threading.Event()
    entered = threading.Event()
    stage.gates.append(gate)

    class Listener:
        def before_releasing_partitions(self, partitions):
            pass

        def before_starting_fetchers(self, partitions, assignment):
            entered.set()
            gate.wait(110)

    stage.connector.set_rebalance_listener(Listener())
    stage.join_in_background()
    assert entered.wait(60)


STATES = [
    created,
    joining,
    waiting,
    degraded,
    draining,
    held,
    stable,
    suspended,
    expired,
    silent,
    rebalancing,
    blocked_in_a_hook,
]


@pytest.fixture(params=["memory", pytest.param("3.9", marks=pytest.mark.zookeeper, id="zookeeper-3.9")])
def place(request, zookeeper):
    made = MemoryStageBackend() if request.param == "memory" else KazooStageBackend(zookeeper(request.param).connect)
    yield made
    made.close()


@pytest.fixture(params=STATES, ids=lambda state: state.__name__)
def stage(request, place):
    stage = Stage(place)
    request.param(stage)
    yield stage
    place.restore(stage.store)
    stage.connector.shutdown(0)
    for gate in stage.gates:
        gate.set()
    for thread in stage.threads:
        thread.join(60)
    left = ("coordinator", "listener")
    eventually(lambda: not [thread.name for thread in threading.enumerate() if thread.name.endswith(left)])


def seconds_of(call):
    with Stopwatch() as watch:
        call()
    return watch.seconds


def test_shutdown_by_several_threads_at_once_returns_to_each_in_time_and_once_more_is_harmless(stage):
    stage.session_id = stage.store.session_id if stage.connector.status.phase is not Phase.CREATED else None
    took = []
    threads = [
        threading.Thread(target=lambda: took.append(seconds_of(lambda: stage.connector.shutdown(TIMEOUT_S))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(took) == 4
    assert max(took) < TIMEOUT_S + MARGIN_S
    assert seconds_of(stage.connector.shutdown) < 1
    assert stage.connector.status.phase in (Phase.CLOSED, Phase.CREATED)
    if not stage.is_out_of_sight:
        assert stage.ephemerals_of_the_member() == []
    with pytest.raises(ConsumerClosedError):
        stage.connector.create_message_streams({"t": 1})


class LeavingHandler(logging.Handler):
    """A logging handler that shuts a connector down at the first record with this text, on the logging thread."""

    def __init__(self, connector, text):
        super().__init__()
        self.connector = connector
        self.text = text
        self.took = []
        self.thread = None

    def emit(self, record):
        if self.thread is None and self.text in record.getMessage():
            self.thread = threading.current_thread()
            self.took.append(seconds_of(lambda: self.connector.shutdown(TIMEOUT_S)))


@pytest.mark.parametrize(
    ("place", "text", "room"),
    [
        # only the real store has a connection thread
        pytest.param("3.9", ": connected", "zk_layout", marks=pytest.mark.zookeeper, id="connection"),
        pytest.param("3.9", "joins group", "rebalance", marks=pytest.mark.zookeeper, id="coordinator"),
        pytest.param("memory", "joins group", "rebalance", id="coordinator, memory"),
        pytest.param("memory", "rebalanced group", "rebalance", id="coordinator, joined, memory"),
    ],
    indirect=["place"],
)
def test_shutdown_in_a_logging_handler_on_a_thread_of_the_library_returns_and_leaves_the_group(
    place, request, text, room
):
    stage = Stage(place)
    logger = logging.getLogger(room)
    handler = LeavingHandler(stage.connector, text)
    request.addfinalizer(lambda: logger.removeHandler(handler))
    before = logger.level
    request.addfinalizer(lambda: logger.setLevel(before))
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    stage.join_in_background()
    eventually(lambda: handler.took)
    assert handler.thread not in (*stage.threads, threading.main_thread())
    assert handler.took[0] < 1
    for thread in stage.threads:
        thread.join(60)
        assert not thread.is_alive()
    eventually(lambda: not [t for t in threading.enumerate() if t.name.endswith("-shutdown")])
    assert stage.connector.status.phase in (Phase.CLOSED, Phase.CREATED)
    eventually(lambda: stage.admin.exists("/consumers/g/ids/g_me") is None)
    with pytest.raises(ConsumerClosedError):
        stage.connector.create_message_streams({"t": 1})


@pytest.mark.parametrize("which", ["before_starting_fetchers", "before_releasing_partitions"])
def test_shutdown_inside_either_hook_returns_in_time_and_leaves_the_group(place, which):
    stage = Stage(place)
    took = []

    class Leaver:
        def _leave(self, name):
            if name == which and not took:
                took.append(seconds_of(lambda: stage.connector.shutdown(TIMEOUT_S)))

        def before_releasing_partitions(self, partitions):
            self._leave("before_releasing_partitions")

        def before_starting_fetchers(self, partitions, assignment):
            self._leave("before_starting_fetchers")

    stage.connector.set_rebalance_listener(Leaver())
    stage.join_in_background()
    if which == "before_releasing_partitions":
        stage.wait_for(Phase.STABLE)
        registration = ConsumerRegistration(SubscriptionPattern.STATIC, (("t", 2),), 0)
        stage.admin.create("/consumers/g/ids/g_a", encode_registration(registration), ephemeral=True)
    eventually(lambda: took)
    assert took[0] < TIMEOUT_S + MARGIN_S
    stage.wait_for(Phase.CLOSED)
    stage.session_id = stage.store.session_id
    eventually(lambda: "g_me" not in stage.admin.get_children("/consumers/g/ids"))
    for thread in stage.threads:
        thread.join(60)
    assert stage.connector.status.phase is Phase.CLOSED


def test_shutdown_where_no_thread_begins_any_more_leaves_the_group_in_order(place, monkeypatch, caplog):
    """From Python 3.12 on, no thread can start in an atexit handler."""
    stage = Stage(place)
    told = []

    class Listener:
        def before_releasing_partitions(self, partitions):
            told.append(sorted(tp.partition for tp in partitions))

        def before_starting_fetchers(self, partitions, assignment):
            pass

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    def shut_down():
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            stage.connector.shutdown(TIMEOUT_S)

    stage.connector.set_rebalance_listener(Listener())
    stage.join()
    stage.session_id = stage.store.session_id
    assert seconds_of(shut_down) < TIMEOUT_S + MARGIN_S
    assert told == [[0, 1]]
    assert stage.ephemerals_of_the_member() == []
    assert stage.connector.status.phase is Phase.CLOSED
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
