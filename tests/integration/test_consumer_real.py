"""A consumer with a real ZooKeeper and a real Kafka: one test for each promise of the library."""

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import uuid

import pytest
from kazoo.client import KazooClient

from legacy_consumer import (
    ConsumerConnector,
    NoCommittedOffsetError,
    OffsetOutOfRangeError,
    Phase,
    PositionError,
    TopicPartition,
    Whitelist,
)
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.librdkafka import produce_all
from tests.support.waiting import eventually
from zk_layout.errors import ConnectTimeoutError, MissingChrootError

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def zookeeper(kafka):
    client = KazooClient(kafka.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


class Topic:
    """A topic for one test alone, with numbered messages, and a group for it."""

    def __init__(self, kafka, zookeeper, partitions=4):
        self.kafka = kafka
        self.zookeeper = zookeeper
        self.name = f"t-{uuid.uuid4().hex[:8]}"
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self.partitions = partitions
        self.next = 0
        self.connectors = []
        kafka.create_topic(self.name, partitions=partitions)

    def produce(self, count):
        values = [b"%d" % n for n in range(self.next, self.next + count)]
        self.next += count
        settings = {"bootstrap.servers": self.kafka.bootstrap_servers}
        produce_all(self.name, [(value, value, int(value) % self.partitions) for value in values], settings)

    def connector(self, **properties):
        properties = {
            "zookeeper_connect": self.kafka.zookeeper_connect,
            "group_id": self.group,
            "auto_offset_reset": "smallest",
            "consumer_timeout_ms": 60_000,
            **properties,
        }
        self.connectors.append(ConsumerConnector(**properties))
        return self.connectors[-1]

    def stream(self, **properties):
        connector = self.connector(**properties)
        return connector, connector.create_message_streams({self.name: 1})[self.name][0]

    def committed(self):
        path = f"/consumers/{self.group}/offsets/{self.name}"
        return {int(p): int(self.zookeeper.get(f"{path}/{p}")[0]) for p in self.zookeeper.get_children(path)}

    def owners(self):
        path = f"/consumers/{self.group}/owners/{self.name}"
        return {int(p): self.zookeeper.get(f"{path}/{p}")[0].decode() for p in self.zookeeper.get_children(path)}

    def tp(self, partition):
        return TopicPartition(self.name, partition)


@pytest.fixture
def topic(kafka, zookeeper):
    topic = Topic(kafka, zookeeper)
    yield topic
    for connector in topic.connectors:
        connector.shutdown()


def take(stream, count):
    return [int(message.value()) for _, message in zip(range(count), stream, strict=False)]


def test_every_message_arrives_once_and_the_next_consumer_continues_after_it(topic):
    topic.produce(1000)
    connector, stream = topic.stream()
    assert sorted(take(stream, 1000)) == list(range(1000))
    connector.commit_offsets()
    connector.shutdown()
    assert topic.committed() == dict.fromkeys(range(4), 250)
    topic.produce(10)
    _, stream = topic.stream()
    assert sorted(take(stream, 10)) == list(range(1000, 1010))


@pytest.mark.usefixtures("_lone_broker")
@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
@pytest.mark.parametrize("committed", [None, 999], ids=["never committed", "outside of the log"])
def test_with_no_reset_the_stream_raises_until_its_user_seeks(topic, zookeeper, fetcher, committed):
    topic.produce(8)
    if committed is not None:
        zookeeper.create(f"/consumers/{topic.group}/offsets/{topic.name}/1", b"%d" % committed, makepath=True)
    connector, stream = topic.stream(auto_offset_reset="none", fetcher=fetcher)
    if committed is not None:
        for partition in (0, 2, 3):
            connector.seek(topic.tp(partition), 1)
    read, told = [], []
    while len(read) < (8 if committed is None else 5):
        try:
            read.append(int(next(stream).value()))
        except PositionError as error:
            told.append((type(error), error.partition, error.earliest, error.latest))
            connector.seek(error.partition, error.earliest)
    if committed is None:
        assert sorted(told, key=str) == [(NoCommittedOffsetError, topic.tp(n), 0, 2) for n in range(4)]
        assert sorted(read) == list(range(8))
    else:
        assert told == [(OffsetOutOfRangeError, topic.tp(1), 0, 2)]
        assert sorted(read) == [1, 4, 5, 6, 7]


SLOW_TO_LOAD = """
import importlib.abc, sys, time

class SlowToLoad(importlib.abc.MetaPathFinder):
    late_s = 0

    def find_spec(self, name, path, target=None):
        SlowToLoad.late_s = 61  # by the clock of this process

monotonic = time.monotonic
time.monotonic = lambda: monotonic() + SlowToLoad.late_s
from legacy_consumer import ConsumerConnector

create = ConsumerConnector.create_message_streams
way, connect, topic, fetcher, count = sys.argv[1:]
session = 120_000  # longer than the time for which this process seems to stand still

def create_and_load_slowly(connector, topics):
    streams = create(connector, topics)
    sys.meta_path.insert(0, SlowToLoad())
    return streams

def values(stream):
    chosen = stream if way == "messages" else stream.arrow_batches()
    sys.meta_path.insert(0, SlowToLoad())
    for one in chosen:
        yield from [one.value()] if way == "messages" else one["value"].to_pylist()

if way == "command":
    from legacy_consumer.__main__ import program
    ConsumerConnector.create_message_streams = create_and_load_slowly
    which = "--topic", topic, "--from-beginning", "--timeout-ms=60000", "--max-messages", count
    properties = f"--property=fetcher={fetcher}", f"--property=zookeeper.session.timeout.ms={session}"
    sys.argv[1:] = ["consume", "--zookeeper", connect, *which, *properties]
    program()
with ConsumerConnector(
    zookeeper_connect=connect,
    group_id=f"g-{topic}",
    fetcher=fetcher,
    auto_offset_reset="smallest",
    consumer_timeout_ms=60_000,
    zookeeper_session_timeout_ms=session,
) as connector:
    [stream] = connector.create_message_streams({topic: 1})[topic]
    for _, value in zip(range(int(count)), values(stream)):
        print(value.decode())
"""


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
@pytest.mark.parametrize("way", ["messages", "arrow_batches", "command"])
def test_no_module_that_is_loaded_late_counts_against_the_timeout(topic, way, fetcher):
    """In a new process, a module that is loaded after the streams exist takes longer to load than the timeout."""
    topic.produce(200)
    ran = subprocess.run(
        [sys.executable, "-c", SLOW_TO_LOAD, way, topic.kafka.zookeeper_connect, topic.name, fetcher, "200"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert sorted(map(int, ran.stdout.split())) == list(range(200)), ran.stderr


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_a_connector_unsubscribes_and_joins_again_for_another_topic(topic, kafka, zookeeper, fetcher):
    other = Topic(kafka, zookeeper)
    topic.produce(40)
    other.produce(8)
    connector, stream = topic.stream(fetcher=fetcher)
    assert len(take(stream, 40)) == 40
    connector.commit_offsets()
    connector.unsubscribe()
    assert topic.owners() == {}
    assert zookeeper.get_children(f"/consumers/{topic.group}/ids") == []
    (stream,) = connector.create_message_streams({other.name: 1})[other.name]
    assert sorted(take(stream, 8)) == list(range(8))
    connector.commit_offsets()
    connector.unsubscribe()
    topic.produce(4)
    (stream,) = connector.create_message_streams({topic.name: 1})[topic.name]
    assert sorted(take(stream, 4)) == list(range(40, 44))


def test_batches_carry_the_same_messages_as_iteration(topic):
    topic.produce(1000)
    _, stream = topic.stream()
    seen = []
    for batch in stream.batches(max_messages=300, timeout=5):
        assert len(batch) <= 300
        seen += [int(message.value()) for message in batch]
        if len(seen) == 1000:
            break
    assert sorted(seen) == list(range(1000))


def test_a_group_that_grows_and_shrinks_loses_nothing_and_repeats_nothing(topic):
    topic.produce(4000)
    seen, threads = [], []

    def consume(stream):
        for message in stream:
            seen.append(int(message.value()))

    def join():
        connector, stream = topic.stream(consumer_timeout_ms=-1)
        threads.append(threading.Thread(target=consume, args=(stream,)))
        threads[-1].start()
        return connector

    first = join()
    second, third = join(), join()
    topic.produce(2000)
    second.shutdown()
    topic.produce(2000)
    first.shutdown()
    topic.produce(2000)
    eventually(lambda: len(seen) >= 10_000)
    third.shutdown()
    for thread in threads:
        thread.join(10)
    assert sorted(seen) == list(range(10_000))


def test_owner_and_registration_znodes_look_as_the_jvm_writes_them(topic):
    connector, _ = topic.stream()
    assert topic.owners() == dict.fromkeys(range(4), f"{connector.consumer_id}-0")
    data, stat = topic.zookeeper.get(f"/consumers/{topic.group}/ids/{connector.consumer_id}")
    assert data.startswith(
        b'{"version":1,"subscription":{"%s":1},"pattern":"static","timestamp":"1' % topic.name.encode()
    )
    assert stat.ephemeralOwner != 0


def test_auto_commit_writes_the_consumed_offsets(topic):
    topic.produce(100)
    _, stream = topic.stream(auto_commit_interval_ms=50)
    take(stream, 100)
    assert is_silent(stream)
    eventually(lambda: topic.committed() == dict.fromkeys(range(4), 25))


def is_silent(stream):
    """Ask the stream for more, and return whether no message comes."""
    return list(next(stream.batches(timeout=0.2))) == []


def test_largest_reads_only_messages_produced_after_joining(topic):
    topic.produce(100)
    _, stream = topic.stream(auto_offset_reset="largest")
    topic.produce(20)
    assert sorted(take(stream, 20)) == list(range(100, 120))


@pytest.mark.usefixtures("_lone_broker")
def test_an_offset_outside_the_log_is_reset_and_logged(topic, caplog):
    topic.produce(40)
    topic.zookeeper.create(f"/consumers/{topic.group}/offsets/{topic.name}/0", b"5000", makepath=True)
    with caplog.at_level(logging.WARNING):
        _, stream = topic.stream()
        assert sorted(take(stream, 40)) == list(range(40))
    assert "5000 is outside the log" in caplog.text


def test_a_filter_follows_a_topic_that_is_created_later(topic):
    connector = topic.connector()
    (stream,) = connector.create_message_streams_by_filter(Whitelist(f"{topic.name}|{topic.name}-later"))
    topic.produce(4)
    assert sorted(take(stream, 4)) == [0, 1, 2, 3]
    topic.kafka.create_topic(f"{topic.name}-later", partitions=1)
    produce_all(f"{topic.name}-later", [(None, b"99")], {"bootstrap.servers": topic.kafka.bootstrap_servers})
    assert take(stream, 1) == [99]


def test_added_partitions_are_consumed(topic):
    _, stream = topic.stream()
    topic.kafka.add_partitions(topic.name, 6)
    topic.partitions = 6
    topic.produce(60)
    assert sorted(take(stream, 60)) == list(range(60))


def test_a_session_that_the_server_ends_is_replaced_and_nothing_is_lost(topic):
    topic.produce(100)
    connector, stream = topic.stream(zookeeper_session_timeout_ms=4000)
    seen = take(stream, 50)
    old = connector._store.session_id
    client = connector._store._session.client
    thief = KazooClient(topic.kafka.zookeeper_connect, client_id=client.client_id)
    thief.start()
    thief.stop()
    thief.close()
    assert connector.wait_until(lambda s: s.phase is Phase.STABLE and connector._store.session_id not in (0, old), 20)
    seen += take(stream, 50)
    missing = set(range(100)) - set(seen)
    while missing:
        missing -= set(take(stream, 1))
    assert sorted(topic.owners()) == [0, 1, 2, 3]


def test_a_garbage_registration_is_named_and_stops_no_member(topic, caplog):
    topic.produce(8)
    topic.zookeeper.create(f"/consumers/{topic.group}/ids/odd", b"garbage", ephemeral=True, makepath=True)
    _, stream = topic.stream()
    assert sorted(take(stream, 8)) == list(range(8))
    assert "leaves out member odd" in caplog.text


def test_a_zookeeper_that_does_not_answer_is_named_within_the_connection_timeout():
    connector = ConsumerConnector(zookeeper_connect="127.0.0.1:1", group_id="g", zookeeper_connection_timeout_ms=300)
    with pytest.raises(ConnectTimeoutError, match=r"127\.0\.0\.1:1 within 300 ms"):
        connector.create_message_streams({"t": 1})


def test_a_missing_chroot_is_named(kafka):
    connector = ConsumerConnector(zookeeper_connect=f"{kafka.zookeeper_connect}/nowhere", group_id="g")
    with pytest.raises(MissingChrootError, match="/nowhere"):
        connector.create_message_streams({"t": 1})


def test_a_killed_process_is_replaced_and_its_uncommitted_messages_come_again(topic):
    topic.produce(400)
    program = textwrap.dedent(
        f"""
        import sys
        from legacy_consumer import ConsumerConnector
        connector = ConsumerConnector(zookeeper_connect={topic.kafka.zookeeper_connect!r}, group_id={topic.group!r},
            auto_offset_reset="smallest", zookeeper_session_timeout_ms=4000)
        stream = connector.create_message_streams({{{topic.name!r}: 1}})[{topic.name!r}][0]
        for n, message in enumerate(stream):
            if n == 200:
                connector.commit_offsets()
            if n == 300:
                print("ready", flush=True)
        """
    )
    victim = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert victim.stdout.readline() == "ready\n"
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        victim.stdout.close()
    connector, stream = topic.stream(rebalance_max_retries=10)
    assert connector.status.phase is Phase.STABLE
    assert len(take(stream, 199)) == 199
    assert is_silent(stream)


def test_a_consumer_that_starts_before_any_broker_waits_for_one(topic):
    topic.produce(4)
    (broker,) = topic.kafka.brokers
    broker.stop()
    try:
        _, stream = topic.stream()
    finally:
        broker.start()
    assert sorted(take(stream, 4)) == [0, 1, 2, 3]
