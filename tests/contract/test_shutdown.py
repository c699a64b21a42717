"""shutdown() returns within its deadline in every state of a member, twice is harmless, any thread may call."""

import threading
import time

import pytest

from legacy_consumer import ConsumerConnector, Phase
from legacy_consumer.errors import ConsumerClosedError
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_registration, encode_topic
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicAssignment, TopicPartition

P0 = TopicPartition("t", 0)
TIMEOUT_S = 1.0
MARGIN_S = 5.0
"""What shutdown() promises beyond its timeout."""


class HangingStore(MemoryStore):
    """A store whose requests hang, as at a server that does not answer, until it is closed."""

    def __init__(self, server):
        super().__init__(server)
        self.hanging = threading.Event()
        self.entered = threading.Event()
        self._end = threading.Event()

    def _request(self, kind, carry_out):
        if self.hanging.is_set():
            self.entered.set()
            self._end.wait(60)
            raise ConnectionLostError("closed")
        return super()._request(kind, carry_out)

    def close(self):
        self._end.set()
        super().close()


class Stage:
    """A group's ZooKeeper and one member of it, that tests bring into a state."""

    def __init__(self):
        self.server = MemoryZooKeeper()
        self.kafka = FakeKafka()
        self.admin = MemoryStore(self.server)
        self.admin.start()
        data = encode_topic(TopicAssignment(dict.fromkeys(range(2), (0,))))
        self.admin.create("/brokers/topics/t", data, make_parents=True)
        self.store = HangingStore(self.server)
        self.threads = []
        self.connector = ConsumerConnector(
            store=self.store,
            fetchers=FakeFetchers(self.kafka),
            zookeeper_connect="memory",
            group_id="g",
            consumer_id="me",
            auto_offset_reset="smallest",
            drain_timeout_ms=60_000,
            rebalance_max_retries=50,
            rebalance_backoff_ms=2000,
            group_mismatch="warn",
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


def created(stage):
    """No streams yet."""


def stable(stage):
    stage.join()
    stage.wait_for(Phase.STABLE)


def joining(stage):
    """The id is another session's."""
    stage.admin.create("/consumers/g/ids/g_me", b"{}", ephemeral=True, make_parents=True)
    stage.join_in_background()
    stage.wait_for(Phase.JOINING)


def waiting(stage):
    """Somebody else's owner znode is in the way."""
    stage.admin.create("/consumers/g/owners/t/0", b"g_ghost-0", ephemeral=True, make_parents=True)
    stage.join_in_background()
    stage.wait_for(Phase.WAITING, Phase.DEGRADED)


def draining(stage):
    """A user holds messages of a partition that another member is to have."""
    stream = stage.join()
    stage.kafka.produce(TopicPartition("t", 1))
    taken = threading.Event()

    def take():
        next(iter(stream))
        taken.set()

    stage.start(take)
    assert taken.wait(10)
    registration = ConsumerRegistration(SubscriptionPattern.STATIC, (("t", 1),), 0)
    stage.admin.create("/consumers/g/ids/g_you", encode_registration(registration), ephemeral=True)
    stage.wait_for(Phase.DRAINING)


def held(stage):
    """A user holds messages and never comes back."""
    stream = stage.join()
    stage.kafka.produce(P0)
    taken = threading.Event()

    def take():
        next(iter(stream))
        taken.set()

    stage.start(take)
    assert taken.wait(10)


def suspended(stage):
    stage.join()
    stage.server.suspend(stage.store)
    eventually(lambda: not stage.connector.vitals.connected)


def hanging(stage):
    """The coordinator waits for an answer of ZooKeeper that does not come."""
    stage.join()
    stage.store.hanging.set()
    stage.admin.create("/consumers/g/ids/g_you", b"", ephemeral=True)
    assert stage.store.entered.wait(10)


def blocked_in_a_hook(stage):
    gate = threading.Event()
    entered = threading.Event()
    stage.gates = [gate]

    class Listener:
        def before_releasing_partitions(self, partitions):
            pass

        def before_starting_fetchers(self, partitions, assignment):
            entered.set()
            gate.wait(60)

    stage.connector.set_rebalance_listener(Listener())
    stage.join_in_background()
    assert entered.wait(10)


STATES = [created, joining, waiting, draining, held, stable, suspended, hanging, blocked_in_a_hook]


@pytest.fixture(params=STATES, ids=lambda state: state.__name__)
def stage(request):
    stage = Stage()
    stage.gates = []
    request.param(stage)
    yield stage
    stage.store.hanging.clear()
    stage.connector.shutdown(0)
    for gate in stage.gates:
        gate.set()
    for thread in stage.threads:
        thread.join(20)
    left = ("coordinator", "listener")
    eventually(lambda: not [thread.name for thread in threading.enumerate() if thread.name.endswith(left)])
    stage.admin.close()


def seconds_of(call):
    began = time.monotonic()
    call()
    return time.monotonic() - began


def test_shutdown_returns_within_its_deadline(stage):
    connected = stage.store.linked
    assert seconds_of(lambda: stage.connector.shutdown(TIMEOUT_S)) < TIMEOUT_S + MARGIN_S
    if connected:
        assert stage.server.tree.ephemerals(stage.store.server_session_id) == []
    with pytest.raises(ConsumerClosedError):
        stage.connector.create_message_streams({"t": 1})


def test_shutdown_by_several_threads_at_once_returns_to_each_and_once_more_is_harmless(stage):
    took = []
    threads = [
        threading.Thread(target=lambda: took.append(seconds_of(lambda: stage.connector.shutdown(TIMEOUT_S))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(took) == 4
    assert max(took) < TIMEOUT_S + MARGIN_S
    assert seconds_of(stage.connector.shutdown) < 1
    assert stage.connector.status.phase in (Phase.CLOSED, Phase.CREATED)
