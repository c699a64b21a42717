"""Brokers that misbehave: no message is lost or repeated, no partition stops, and the fetcher raises lasting errors."""

import json
import logging
import struct
import threading
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError, CorruptRecordsError, FetchError, OffsetOutOfRangeError
from legacy_consumer.fetching.columnar import ColumnarFetchers, open_fetcher, open_log_offsets
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from tests.support.fetching import Fetched, fetch, is_silent, poll_into
from tests.support.scripted_broker import HANG_UP, ScriptedBroker
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import eventually
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

COUNT = 200
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
VALUES = [b"%d" % number * (number % 7 + 1) for number in range(COUNT)]


class OutOfSight:
    """A store whose reads fail with ConnectionLostError while is_lost is set."""

    def __init__(self, store):
        self._store = store
        self.is_lost = False

    def __getattr__(self, name):
        if self.is_lost and name.startswith("get_"):
            raise ConnectionLostError("connection lost")
        return getattr(self._store, name)


class Cluster:
    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        store = MemoryStore(self.zookeeper)
        store.start()
        self.store = OutOfSight(store)
        self._stack = ExitStack()

    def broker(self, broker_id=0, *logs, **options):
        broker = self._stack.enter_context(closing(ScriptedBroker(broker_id, **options)))
        self.store.create(f"/brokers/ids/{broker_id}", broker.registration(), make_parents=True)
        for tp in logs:
            broker.logs[tp] = list(VALUES)
            self.lead(tp, broker_id)
        return broker

    def lead(self, tp, broker_id):
        path = f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state"
        state = {"leader": broker_id, "leader_epoch": 0, "isr": [0], "controller_epoch": 1, "version": 1}
        self.store.ensure_path(path)
        self.store.set_data(path, json.dumps(state).encode())

    def fetchers(self, **properties):
        return self._stack.enter_context(closing(ColumnarFetchers(self.config(**properties), self.store)))

    def fetcher(self, **properties):
        return self.fetchers(**properties).fetcher()

    def config(self, **properties):
        quick = {"refresh_leader_backoff_ms": 20, "fetch_wait_max_ms": 20, "socket_timeout_ms": 2000}
        chosen = {**quick, "auto_offset_reset": "smallest", **properties}
        return ConsumerConfig.load(zookeeper_connect="nowhere:1", group_id="g", **chosen)

    def close(self):
        self._stack.close()
        self.store.close()


class closing:  # noqa: N801
    def __init__(self, thing):
        self._thing = thing

    def __enter__(self):
        return self._thing

    def __exit__(self, *_):
        self._thing.close()


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


def assert_whole(got, *partitions):
    for tp in partitions:
        assert got.offsets(tp) == list(range(COUNT))
        assert [m.value() for m in got.messages[tp]] == VALUES


def other_id(frame):
    return frame[:4] + struct.pack(">i", 0x7ABCDEF) + frame[8:]


FAULTS = {
    "the answer to another request": [other_id],
    "a response that ends in the middle": [lambda f: (f[: len(f) // 2], HANG_UP)],
    "a response that ends in its head": [lambda f: (f[:6], HANG_UP)],
    "no response": [lambda f: HANG_UP],
    "no response, three times": [lambda f: HANG_UP] * 3,
    "a size of -1": [lambda f: struct.pack(">i", -1) + f[4:]],
    "more than its size says": [lambda f: f + b"more"],
    "less than its size says": [lambda f: (struct.pack(">i", len(f) + 1000) + f[4:], HANG_UP)],
    "an array that cannot be": [lambda f: f[:8] + b"\x7f\xff\xff\xff" + f[12:]],
    "dribble": [lambda f: tuple(f[i : i + 1] for i in range(len(f)))],
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", [0, 2])
def test_every_message_comes_once_and_in_order_in_spite_of(cluster, fault, at):
    broker = cluster.broker(0, T0, T1)
    broker.misbehave(*[lambda frame: frame] * at, *FAULTS[fault])
    fetcher = cluster.fetcher(fetch_message_max_bytes=2000)
    fetcher.assign({T0: 0, T1: 0})
    assert_whole(fetch(fetcher, 2 * COUNT, max_messages=50), T0, T1)
    assert not broker.has_faults_left
    assert is_silent(fetcher, 0.1)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_no_falsified_response_head_loses_or_repeats_a_message(data):
    """The head is all before the records. Records have checksums, which do not cover their offsets."""
    cluster = Cluster()
    try:
        broker = cluster.broker(0, T0)
        at = data.draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), min_size=1, max_size=4))

        def falsify(frame):
            head = 4 + 4 + 4 + 3 + 4 + 4 + 2 + 8 + 4
            falsified = bytearray(frame)
            for place, value in at:
                falsified[place % head] = value
            return bytes(falsified)

        broker.misbehave(falsify, falsify)
        fetcher = cluster.fetcher(socket_timeout_ms=200)
        fetcher.assign({T0: 0})
        got = Fetched()
        deadline = time.monotonic() + 90
        while got.count < COUNT:
            assert time.monotonic() < deadline
            try:
                poll_into(got, fetcher)
            except FetchError:
                continue
        assert_whole(got, T0)
    finally:
        cluster.close()


@pytest.mark.parametrize("code", [3, 5, 6, 7, 9, -1, 74, 999])
def test_an_error_that_passes_is_waited_out(cluster, code, caplog):
    broker = cluster.broker(0, T0, T1)
    broker.errors[T0] = deque([code] * 3)
    fetcher = cluster.fetcher()
    fetcher.assign({T0: 0, T1: 0})
    with caplog.at_level(logging.WARNING):
        assert_whole(fetch(fetcher, 2 * COUNT), T0, T1)
    assert caplog.text.count("t/0: waiting") == 1, "it is said once, not with every try, though the other one flows"


@pytest.mark.parametrize(("code", "name"), [(2, "CORRUPT_MESSAGE"), (29, "TOPIC_AUTHORIZATION_FAILED")])
def test_an_error_that_lasts_is_raised_and_others_flow(cluster, code, name):
    broker = cluster.broker(0, T0, T1)
    broker.errors[T0] = deque([code])
    fetcher = cluster.fetcher()
    fetcher.assign({T0: 0, T1: 0})
    got, errors = Fetched(), []
    while got.count < 2 * COUNT:
        try:
            poll_into(got, fetcher)
        except FetchError as error:
            errors.append(str(error))
    assert errors == [f"t/0: offset 0: the broker says {name}"]
    assert_whole(got, T0, T1)


def two_that_fetch(cluster):
    """Return two fetchers that have each fetched a partition of the same broker; the first is without one by now."""
    fetchers = cluster.fetchers()
    one, other = fetchers.fetcher(), fetchers.fetcher()
    one.assign({T0: 0})
    other.assign({T1: 0})
    assert_whole(fetch(one, COUNT), T0)
    assert_whole(fetch(other, COUNT), T1)
    one.unassign([T0])
    return one, other


def test_a_leader_known_from_another_member_of_the_process_is_left_when_the_broker_refuses(cluster):
    old = cluster.broker(0, T0, T1)
    _, other = two_that_fetch(cluster)
    old.errors[T0] = deque([6] * 1000)
    cluster.broker(1, T0)
    other.assign({T0: 0})
    assert_whole(fetch(other, COUNT), T0)


def test_a_broker_that_only_another_member_of_the_process_spoke_with_is_looked_for_all_the_same(cluster):
    cluster.broker(0, T0)
    fetchers = cluster.fetchers()
    one, other = fetchers.fetcher(), fetchers.fetcher()
    one.assign({T0: 0})
    assert_whole(fetch(one, COUNT), T0)
    before = cluster.zookeeper.requests.total()
    other.assign({T0: 0})
    assert_whole(fetch(other, COUNT), T0)
    assert cluster.zookeeper.requests.total() > before


def test_a_partition_whose_leader_moves_is_read_on_from_the_new_one(cluster):
    old, new = cluster.broker(1, T0), cluster.broker(2)
    new.logs[T0] = list(VALUES)
    fetcher = cluster.fetcher(fetch_message_max_bytes=500)
    fetcher.assign({T0: 0})
    got = fetch(fetcher, 10, max_messages=10)
    old.errors[T0] = deque([6] * 1000)
    cluster.lead(T0, 2)
    while got.count < COUNT:
        poll_into(got, fetcher)
    assert_whole(got, T0)
    assert new.fetches


def test_a_silent_broker_delays_no_other_broker_and_is_left(cluster):
    silent, sound = cluster.broker(1, T0), cluster.broker(2, T1)
    gate = threading.Event()

    def keep_quiet(frame):
        gate.wait(100)
        return HANG_UP

    silent.misbehave(keep_quiet)
    fetcher = cluster.fetcher(socket_timeout_ms=500)
    fetcher.assign({T0: 0, T1: 0})
    with Stopwatch() as watch:
        assert set(fetch(fetcher, COUNT).messages) == {T1}
        assert_whole(fetch(fetcher, COUNT), T0)
    assert watch.seconds < 10
    gate.set()
    assert sound.fetches


@pytest.mark.parametrize("sent", [0, 50])
def test_a_broker_whose_network_vanished_is_left_when_another_one_leads(cluster, sent):
    vanished, new, comes_back = cluster.broker(1, T0), cluster.broker(2), threading.Event()
    new.logs[T0] = list(VALUES)
    vanished.misbehave(lambda frame: (frame[:sent], comes_back, frame[sent:]))
    fetcher = cluster.fetcher(socket_timeout_ms=600_000)
    fetcher.assign({T0: 0})
    eventually(lambda: fetcher.poll(10, 0.001) is not None or vanished.fetches)
    cluster.lead(T0, 2)
    assert_whole(fetch(fetcher, COUNT), T0)
    comes_back.set()
    assert is_silent(fetcher, 0.1)
    assert len(vanished.fetches) == 1


def test_a_broker_that_is_slow_and_leads_is_waited_for(cluster):
    slow, goes_on = cluster.broker(1, T0), threading.Event()
    slow.misbehave(lambda frame: (frame[:50], goes_on, frame[50:]))
    fetcher = cluster.fetcher(socket_timeout_ms=600_000)
    fetcher.assign({T0: 0})
    got = Fetched()

    def asked_and_told():
        poll_into(got, fetcher, timeout_s=0.01)
        (broker,) = fetcher._core._brokers.values() or [None]
        return broker is not None and broker.suspected_until > 0 and not fetcher._leaders._open

    eventually(asked_and_told)
    goes_on.set()
    while got.count < COUNT:
        poll_into(got, fetcher)
    assert_whole(got, T0)
    assert [asked[T0][0] for asked in slow.fetches].count(0) == 1, "not asked for again"


def test_leaders_are_asked_of_the_brokers_while_zookeeper_is_out_of_sight(cluster, caplog):
    broker = cluster.broker(0, T0, T1)
    fetchers = cluster.fetchers()
    assert fetchers.log_offsets().latest([T0]) == {T0: COUNT}
    cluster.store.is_lost = True
    fetcher = fetchers.fetcher()
    fetcher.assign({T0: 0})
    broker.misbehave(lambda frame: HANG_UP)
    with caplog.at_level(logging.INFO):
        assert_whole(fetch(fetcher, COUNT), T0)
    assert "ZooKeeper cannot be asked for now: leaders from 127.0.0.1" in caplog.text


def test_a_throttled_client_waits_for_as_long_as_the_broker_asks(cluster):
    broker = cluster.broker(0, T0, registration_version=2, throttle_ms=400)
    fetcher = cluster.fetcher(fetch_message_max_bytes=2500)
    fetcher.assign({T0: 0})
    begun = time.monotonic()
    fetch(fetcher, 110)
    assert len(broker.fetches) >= 2
    assert time.monotonic() - begun > 0.35


# Sizes


def test_a_response_that_announces_two_gigabytes_is_refused_with_an_error(cluster):
    broker = cluster.broker(0, T0)
    broker.misbehave(lambda frame: b"\x7f\xff\xff\xff" + frame[4:])
    fetcher = cluster.fetcher()
    fetcher.assign({T0: 0})
    with pytest.raises(FetchError, match=r"response size 2147483647 .* raise fetch\.message\.max\.bytes"):
        fetch(fetcher, 1)
    assert_whole(fetch(fetcher, COUNT), T0)


def test_a_message_larger_than_the_fetch_size_is_asked_for_in_its_own_size(cluster):
    broker = cluster.broker(0, T0)
    broker.logs[T0] = [b"small", b"x" * 50_000, b"small"]
    fetcher = cluster.fetcher(fetch_message_max_bytes=1000)
    fetcher.assign({T0: 0})
    assert [len(m.value()) for m in fetch(fetcher, 3).messages[T0]] == [5, 50_000, 5]
    sizes = [asked[T0][1] for asked in broker.fetches]
    assert max(sizes) == 50_026
    assert sizes[-1] == 1000, "and no longer than that"


def test_a_message_larger_than_is_allowed_at_all_is_an_error_that_names_the_setting(cluster):
    broker = cluster.broker(0, T0)
    broker.logs[T0] = [b"x" * 50_000]
    fetchers = cluster.fetchers(fetch_message_max_bytes=1000)
    fetchers._settings = replace(fetchers._settings, largest_bytes=40_000)
    fetcher = fetchers.fetcher()
    fetcher.assign({T0: 0})
    with pytest.raises(FetchError, match=r"50026 bytes .* 40000 .* raise fetch\.message\.max\.bytes"):
        fetch(fetcher, 1)


def test_many_partitions_share_a_response_of_a_broker_that_knows_no_limit_for_it(cluster):
    many = [TopicPartition("many", number) for number in range(100)]
    broker = cluster.broker(0, *many)
    fetcher = cluster.fetcher()
    fetcher.assign(dict.fromkeys(many, 0))
    assert_whole(fetch(fetcher, 100 * COUNT), *many)
    assert max(sum(size for _, size in asked.values()) for asked in broker.fetches) <= 8 * 1024 * 1024


# Receiving


@pytest.mark.parametrize("sent", [0, 5, 100, None])
def test_a_fetcher_is_closed_wherever_in_a_response_it_is(cluster, sent):
    broker, go_on = cluster.broker(0, T0), threading.Event()
    if sent is not None:
        broker.misbehave(lambda frame: (frame[:sent], go_on))
    fetcher = cluster.fetcher()
    fetcher.assign({T0: 0})
    eventually(lambda: fetcher.poll(10, 0.001) is not None or broker.fetches)
    fetcher.close()
    go_on.set()
    assert fetcher.poll(10, 0.001) is None


def fetcher_with_a_response_in_store(cluster):
    """Return a fetcher that has handed out ten messages of each partition, and has requested the next response."""
    broker = cluster.broker(0, T0, T1)
    fetcher = cluster.fetcher(fetch_message_max_bytes=1000)
    fetcher.assign({T0: 0, T1: 0})
    got = fetch(fetcher, 20, max_messages=10)
    eventually(lambda: len(broker.fetches) > 1)
    return fetcher, got


def test_nothing_comes_of_a_partition_that_was_taken_away_while_its_response_was_received(cluster):
    fetcher, got = fetcher_with_a_response_in_store(cluster)
    fetcher.unassign([T0])
    before = got.offsets(T0)
    while len(got.messages[T1]) < COUNT:
        poll_into(got, fetcher)
    assert is_silent(fetcher, 0.1)
    assert got.offsets(T0) == before
    assert got.offsets(T1) == list(range(COUNT))


def test_nothing_comes_from_before_a_position_that_was_set_while_a_response_was_received(cluster):
    fetcher, _ = fetcher_with_a_response_in_store(cluster)
    fetcher.assign({T0: 150})
    assert fetch(fetcher, 50, until=lambda f: len(f.messages[T0]) >= 50).offsets(T0) == list(range(150, COUNT))


def test_received_messages_stay_within_the_backlog(cluster):
    broker = cluster.broker(0, T0)
    broker.logs[T0] = [b"x" * 1000] * 2000
    fetchers = cluster.fetchers(fetch_message_max_bytes=100_000)
    fetchers._settings = replace(fetchers._settings, backlog_bytes=250_000)
    fetcher = fetchers.fetcher()
    fetcher.assign({T0: 0})
    got, most = Fetched(), 0
    while got.count < 2000:
        poll_into(got, fetcher, 1)
        most = max(most, fetcher._backlog.nbytes)
    assert got.offsets(T0) == list(range(2000))
    assert most < 250_000 + 110_000, "the last response may go beyond it"


# Records


def test_messages_before_a_corrupt_one_come_and_the_corrupt_one_is_an_error_until_it_is_sound(cluster):
    broker = cluster.broker(0, T0)

    def spoil(frame):
        spoilt = bytearray(frame)
        at = spoilt.index(VALUES[100])
        spoilt[at] ^= 0xFF
        return bytes(spoilt)

    broker.misbehave(spoil)
    fetcher = cluster.fetcher()
    fetcher.assign({T0: 0})
    got = Fetched()
    with pytest.raises(CorruptRecordsError) as caught:  # noqa: PT012 - until it comes
        while True:
            poll_into(got, fetcher)
    assert (caught.value.partition, caught.value.offset) == (T0, 100)
    assert got.offsets(T0) == list(range(100))
    while got.count < COUNT:
        poll_into(got, fetcher)
    assert_whole(got, T0)


# Positions


def test_a_position_outside_the_log_is_reset_or_an_error(cluster, monkeypatch):
    monkeypatch.setattr("legacy_consumer.fetching.positions.LOG_END_WAIT_S", 0.1)
    cluster.broker(0, T0)
    for reset, goes_to in (("smallest", 0), ("largest", COUNT)):
        fetcher = cluster.fetcher(auto_offset_reset=reset)
        fetcher.assign({T0: 10_000})
        assert fetch(fetcher, 0, until=lambda f: f.moves).moves == [{T0: goes_to}]
    lookup = open_log_offsets(cluster.config(), cluster.store)
    fetcher = open_fetcher(cluster.config(), cluster.store, lookup)
    fetcher.assign({T0: 10_000})
    with pytest.raises(OffsetOutOfRangeError) as caught:
        fetch(fetcher, 1)
    assert (caught.value.earliest, caught.value.latest) == (0, COUNT)
    fetcher.close()
    lookup.close()


def test_received_messages_come_before_a_reset(cluster, monkeypatch):
    """The log loses its end while the user's code has still to take most of a response."""
    monkeypatch.setattr("legacy_consumer.fetching.positions.LOG_END_WAIT_S", 0.05)
    broker = cluster.broker(0, T0)
    fetcher = cluster.fetcher()
    fetcher.assign({T0: 0})
    got = fetch(fetcher, 1, max_messages=1)
    del broker.logs[T0][50:]
    eventually(lambda: not poll_into(got, fetcher, max_messages=1) or fetcher._finder.is_busy or got.moves)
    # the fetcher finds the partition's new position while most of the messages still wait in it
    eventually(lambda: not fetcher._finder._open)
    while not got.moves:
        poll_into(got, fetcher, max_messages=10)
    assert got.offsets(T0) == list(range(COUNT))
    assert got.moves == [{T0: 0}]


def test_log_ends_are_reported_before_messages(cluster):
    cluster.broker(0, T0, T1)
    fetcher = cluster.fetcher()
    fetcher.assign({T0: EARLIEST, T1: LATEST})
    got = fetch(fetcher, COUNT)
    assert {tp: at for move in got.moves for tp, at in move.items()} == {T0: 0, T1: COUNT}
    assert_whole(got, T0)


def test_log_offsets_of_leaderless_partitions_are_missing_and_without_brokers_an_error(cluster):
    lookup = cluster.fetchers().log_offsets()
    with pytest.raises(BrokersUnavailableError, match="no answer from the brokers: no broker is registered"):
        lookup.latest([T0])
    broker = cluster.broker(0, T0)
    assert lookup.latest([T0, T1]) == {T0: COUNT}
    broker.close()
    with pytest.raises(BrokersUnavailableError, match="no answer from the brokers: broker 0 at"):
        lookup.latest([T0])


# Threads


def test_closing_leaves_no_thread_while_a_position_is_looked_for(cluster):
    before = threading.active_count()
    fetchers = ColumnarFetchers(cluster.config(), cluster.store)
    fetcher = fetchers.fetcher()
    fetcher.assign({T0: EARLIEST})
    assert fetcher.poll(10, 0.05) is None
    fetchers.close()
    fetchers.close()
    assert fetcher.poll(10, 0.05) is None
    eventually(lambda: threading.active_count() <= before)
