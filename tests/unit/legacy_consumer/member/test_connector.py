"""Whole connectors with their threads, over an in-memory ZooKeeper and in-memory logs."""

import asyncio
import functools
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from legacy_consumer import ConsumerConnector, ConsumerTimeoutError, MessageStreamsExistError, Phase, Whitelist
from legacy_consumer.errors import BrokerRefusedError, ConsumerClosedError, MissingListenerError, OffsetError
from rebalance.errors import AssignmentRefusedError
from rebalance.mailbox import Errand
from tests.support.fake_kafka import FakeFetchers
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually
from zk_layout.errors import ConfigError, ConnectTimeoutError
from zk_layout.memory_store import MemoryStore
from zk_layout.model import TopicPartition

TPS = [TopicPartition("t", n) for n in range(4)]


@pytest.fixture
def cluster():
    cluster = MemberCluster({"t": 4})
    yield cluster
    cluster.close()


def take(stream, count):
    messages = iter(stream)
    return [(m.partition(), m.offset()) for m in (next(messages) for _ in range(count))]


@pytest.mark.parametrize(
    "refusal", [MissingListenerError("SSL", ("PLAINTEXT",)), BrokerRefusedError("b:1", "Invalid username or password")]
)
def test_a_member_that_the_brokers_would_not_let_in_registers_nothing(cluster, refusal):
    connector = cluster.connector(refusal=refusal)
    cluster.zookeeper.requests.clear()
    with pytest.raises(type(refusal)) as caught:
        connector.create_message_streams({"t": 1})
    assert caught.value is refusal
    assert not cluster.zookeeper.requests.keys() & {"create", "multi", "set_data", "delete"}
    assert not cluster.admin.exists("/consumers")
    with pytest.raises(ConsumerClosedError):
        connector.create_message_streams({"t": 1})


def test_messages_of_every_partition_arrive(cluster):
    for tp in TPS:
        cluster.kafka.produce(tp, 3)
    (stream,) = cluster.connector().create_message_streams({"t": 1})["t"]
    assert sorted(take(stream, 12)) == [(p, o) for p in range(4) for o in range(3)]


def test_two_streams_share_the_partitions(cluster):
    for tp in TPS:
        cluster.kafka.produce(tp, 3)
    first, second = cluster.connector().create_message_streams({"t": 2})["t"]
    assert {partition for partition, _ in take(first, 6)} == {0, 1}
    assert {partition for partition, _ in take(second, 6)} == {2, 3}


def test_a_filter_serves_all_its_topics_from_the_same_streams(cluster):
    cluster.create_topic("u", 1)
    cluster.kafka.produce(TPS[0], 1)
    cluster.kafka.produce(TopicPartition("u", 0), 1)
    (stream,) = cluster.connector().create_message_streams_by_filter(Whitelist("t|u"))
    assert {m.topic() for m in (next(stream), next(stream))} == {"t", "u"}


def test_consumed_offsets_are_committed_when_leaving_and_the_next_member_continues_there(cluster):
    cluster.kafka.produce(TPS[0], 10)
    with cluster.connector() as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        for message in stream:
            if message.offset() == 4:
                break
    assert cluster.committed(TPS[0]) == 4, "the message in hand was not come back from"
    (stream,) = cluster.connector().create_message_streams({"t": 1})["t"]
    assert next(stream).offset() == 4


def test_an_explicit_commit_counts_what_is_in_hand(cluster):
    cluster.kafka.produce(TPS[0], 10)
    with cluster.connector() as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        for message in stream:
            if message.offset() == 4:
                connector.commit_offsets()
                break
    assert cluster.committed(TPS[0]) == 5


def test_without_auto_commit_nothing_is_committed_by_itself(cluster):
    cluster.kafka.produce(TPS[0], 10)
    with cluster.connector(auto_commit_enable=False) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        take(stream, 5)
    assert cluster.admin.exists("/consumers/g/offsets/t/0") is None


def test_auto_commit_comes_by_itself(cluster):
    cluster.kafka.produce(TPS[0], 10)
    connector = cluster.connector(auto_commit_interval_ms=20)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    messages = iter(stream)
    for _ in range(6):
        next(messages)
    eventually(lambda: cluster.committed(TPS[0]) == 5)


def test_largest_starts_at_the_end_and_commits_that_end(cluster):
    cluster.kafka.produce(TPS[0], 10)
    with cluster.connector(auto_offset_reset="largest", consumer_timeout_ms=50) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        with pytest.raises(ConsumerTimeoutError):
            next(stream)
    # the group's next member must get messages that were produced while the group had no member
    cluster.kafka.produce(TPS[0], 1)
    (stream,) = cluster.connector(auto_offset_reset="largest").create_message_streams({"t": 1})["t"]
    assert next(stream).offset() == 10


def test_given_offsets_are_committed_and_move_no_position(cluster):
    cluster.kafka.produce(TPS[0], 10)
    connector = cluster.connector(auto_commit_enable=False)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    assert next(stream).offset() == 0
    cluster.create_topic("other", 4)
    elsewhere = TopicPartition("other", 3)
    connector.commit_offsets({TPS[0]: 8, elsewhere: 5})
    assert (cluster.committed(TPS[0]), cluster.committed(elsewhere)) == (8, 5)
    assert next(stream).offset() == 1
    with pytest.raises(OffsetError, match="-4"):
        connector.commit_offsets({TPS[0]: -4})


def test_an_operators_reset_is_kept_out_by_default_and_reported(cluster, caplog):
    cluster.kafka.produce(TPS[0], 10)
    connector = cluster.connector(auto_commit_enable=False)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    take(stream, 3)
    connector.commit_offsets()
    cluster.admin.set_data("/consumers/g/offsets/t/0", b"1")
    take(stream, 3)
    result = connector.commit_offsets()
    assert result.foreign[TPS[0]].offset == 1
    assert cluster.committed(TPS[0]) == 6
    assert "another client committed 1 of t/0, ours is 6" in caplog.text


def test_an_operators_reset_is_adopted_when_asked_for(cluster):
    cluster.kafka.produce(TPS[0], 10)
    connector = cluster.connector(auto_commit_enable=False, commit_conflict="adopt")
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    take(stream, 3)
    connector.commit_offsets()
    cluster.admin.set_data("/consumers/g/offsets/t/0", b"1")
    take(stream, 3)
    connector.commit_offsets()
    assert cluster.committed(TPS[0]) == 1
    assert next(stream).offset() == 1


def test_a_partition_that_moves_is_neither_lost_nor_read_twice_by_threads_that_keep_consuming(cluster):
    for tp in TPS:
        cluster.kafka.produce(tp, 500)
    seen, lock, done = [], threading.Lock(), threading.Event()
    joined = threading.Semaphore(0)

    def consume(connector):
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        joined.release()
        for message in stream:
            with lock:
                seen.append((message.partition(), message.offset()))
                if len(seen) >= 2000:
                    done.set()

    threads = []
    for _ in range(3):
        connector = cluster.connector(consumer_timeout_ms=-1)
        threads.append(threading.Thread(target=consume, args=(connector,)))
        threads[-1].start()
        assert connector.wait_until(lambda status: status.phase is Phase.STABLE, 10) or connector.status
    assert done.wait(60)
    # a connector that is shut down while it joins raises an error to its thread
    assert all(joined.acquire(timeout=60) for _ in threads)
    for connector in cluster.connectors:
        connector.shutdown()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(seen) == [(p, o) for p in range(4) for o in range(500)]


def test_shutdown_ends_a_loop_in_another_thread(cluster):
    connector = cluster.connector(consumer_timeout_ms=-1)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    ended = threading.Event()

    def consume():
        for _ in stream:
            pass
        ended.set()

    thread = threading.Thread(target=consume)
    thread.start()
    connector.shutdown()
    assert ended.wait(60)
    thread.join(60)


def test_in_asyncio_a_thread_of_its_own_holds_what_is_in_hand_and_commits_it(cluster, caplog):
    """The way that docs/consuming.md describes."""
    cluster.kafka.produce(TPS[0], 500)
    connector = cluster.connector(auto_commit_enable=False)

    async def consume():
        call = functools.partial(asyncio.get_running_loop().run_in_executor, thread)
        (stream,) = (await call(connector.create_message_streams, {"t": 1}))["t"]
        batches = stream.batches(20, timeout=0.1)
        handled = []
        while (batch := await call(next, batches, None)) is not None:
            handled += [message.offset() for message in batch]
            await call(connector.commit_offsets)
            assert cluster.committed(TPS[0]) == len(handled)
            if len(handled) == 500:
                connector.end_streams()
        await call(connector.shutdown)
        return handled

    with ThreadPoolExecutor(1) as thread:
        assert asyncio.run(consume()) == [*range(500)]
    assert "in hand" not in caplog.text


def test_a_reading_of_the_counters_does_not_grow(cluster):
    connector = cluster.connector()
    connector.create_message_streams({"t": 1})
    before = connector.counters
    cluster.connector().create_message_streams({"t": 1})
    eventually(lambda: connector.counters.member.rebalances["moved"] == 2)
    assert before.member.rebalances["moved"] == 1
    assert sum(connector.counters.member.durations) == sum(before.member.durations) + 1
    before.member.rebalances.clear()
    assert connector.counters.member.rebalances["moved"] == 2


def test_a_signal_handler_can_end_the_streams_whatever_it_interrupts(cluster):
    cluster.kafka.produce(TPS[0], 5)
    connector = cluster.connector(consumer_timeout_ms=-1)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    seen = []
    # as if the signal came while the interrupted thread holds the stream's lock
    for message in stream:
        seen.append(message.offset())
        if len(seen) == 3:
            with stream._stream._lock:
                connector.end_streams()
    assert seen == [0, 1, 2]
    connector.shutdown()
    assert cluster.committed(TPS[0]) == 3


def test_shutdown_inside_the_loop_does_not_wait_for_itself(cluster):
    cluster.kafka.produce(TPS[0], 5)
    connector = cluster.connector()
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    seen = []
    for message in stream:
        seen.append(message.offset())
        if len(seen) == 2:
            connector.shutdown()
    assert seen == [0, 1]
    assert cluster.committed(TPS[0]) == 1


def test_shutdown_removes_the_member_from_zookeeper(cluster):
    with cluster.connector() as connector:
        connector.create_message_streams({"t": 1})
    assert cluster.admin.get_children("/consumers/g/ids") == ()
    assert cluster.admin.get_children("/consumers/g/owners/t") == ()


def test_a_closed_connector_raises_an_error(cluster):
    connector = cluster.connector()
    connector.create_message_streams({"t": 1})
    connector.shutdown()
    connector.shutdown()
    with pytest.raises(ConsumerClosedError):
        connector.commit_offsets()
    with pytest.raises(ConsumerClosedError):
        connector.create_message_streams({"t": 1})


def test_streams_are_created_once(cluster):
    connector = cluster.connector()
    connector.create_message_streams({"t": 1})
    with pytest.raises(MessageStreamsExistError):
        connector.create_message_streams({"t": 1})
    with pytest.raises(MessageStreamsExistError):
        connector.set_rebalance_listener(None)


def test_a_topic_that_does_not_exist_yields_a_stream_that_waits_for_it(cluster):
    connector = cluster.connector()
    (stream,) = connector.create_message_streams({"later": 1})["later"]
    assert connector.status.phase is Phase.STABLE
    cluster.kafka.produce(TopicPartition("later", 0), 1)
    cluster.create_topic("later", 1)
    assert next(stream).offset() == 0


def test_a_listener_sees_what_really_comes_and_goes_and_may_fail(cluster):
    told = []

    class Listener:
        def before_releasing_partitions(self, partitions):
            told.append(("release", sorted(partitions)))
            raise RuntimeError("a user's defect")

        def before_starting_fetchers(self, partitions, assignment):
            told.append(("start", sorted(partitions), len(assignment)))

    first = cluster.connector()
    first.set_rebalance_listener(Listener())
    first.create_message_streams({"t": 1})
    assert told == [("start", TPS, 4)]
    cluster.connector().create_message_streams({"t": 1})
    assert first.wait_until(lambda status: len(status.owned) == 2 and status.phase is Phase.STABLE, 5)
    assert len(told[1][1]) == 2
    assert told[1][0] == "release"


@pytest.mark.parametrize("error", [RuntimeError("a defect"), SystemExit(3), KeyboardInterrupt()])
def test_nothing_that_is_raised_on_the_coordinators_thread_ends_it(cluster, error):
    first = cluster.connector()
    first.create_message_streams({"t": 1})
    raised = threading.Event()

    def fails():
        raised.set()
        raise error

    first._membership._post(Errand(fails))
    assert raised.wait(5)
    cluster.connector().create_message_streams({"t": 1})
    assert first.wait_until(lambda status: len(status.owned) == 2 and status.phase is Phase.STABLE, 5)
    assert first.vitals.runs


def test_a_group_the_strategy_refuses_is_an_error_and_leaves_nobody_half_joined(cluster):
    options = {"partition_assignment_strategy": "roundrobin", "partition_assignment_dialect": "0.8.2"}
    cluster.create_topic("u", 1)
    cluster.connector(**options).create_message_streams({"t": 1})
    second = cluster.connector(**options)
    with pytest.raises(AssignmentRefusedError):
        second.create_message_streams({"u": 1})
    assert len(cluster.admin.get_children("/consumers/g/ids")) == 1


def test_less_than_one_stream_is_refused_before_anything_happens(cluster):
    with pytest.raises(ConfigError, match="at least 1"):
        cluster.connector().create_message_streams({"t": 0})
    assert cluster.admin.exists("/consumers/g") is None


def test_an_expired_session_is_survived_and_nothing_is_skipped(cluster):
    cluster.kafka.produce(TPS[0], 5)
    connector = cluster.connector(auto_commit_interval_ms=60_000)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    messages = iter(stream)
    assert next(messages).offset() == 0
    before = connector.status.rebalances
    cluster.zookeeper.expire(connector._store.session_id)
    assert connector.wait_until(lambda status: status.rebalances > before and len(status.owned) == 4, 5)
    # the message in hand, which no thread could commit, is delivered again
    assert next(messages).offset() == 0


def test_offsets_that_were_copied_before_their_topic_was_made_are_where_a_member_goes_on(cluster):
    cluster.admin.create("/consumers/g/offsets/u/0", b"500", make_parents=True)
    cluster.create_topic("u", 1)
    cluster.kafka.produce(TopicPartition("u", 0), 1000)
    (stream,) = cluster.connector(auto_offset_reset="largest").create_message_streams({"u": 1})["u"]
    assert next(stream).offset() == 500


class UnreachableStore(MemoryStore):
    """A store whose first tries to connect find no server."""

    tries = 2

    def start(self):
        if self.tries:
            self.tries -= 1
            raise ConnectTimeoutError("memory", 300)
        super().start()


def test_joining_can_be_tried_again_after_an_error_that_passes(cluster):
    cluster.kafka.produce(TPS[0], 1)
    connector = ConsumerConnector(
        store=UnreachableStore(cluster.zookeeper),
        fetchers=FakeFetchers(cluster.kafka),
        zookeeper_connect="memory",
        group_id="g",
        auto_offset_reset="smallest",
    )
    cluster.connectors.append(connector)
    for _ in range(2):
        with pytest.raises(ConnectTimeoutError):
            connector.create_message_streams({"t": 1})
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    assert next(stream).offset() == 0


def test_joining_with_a_taken_id_returns_degraded_and_the_living_member_stays(cluster):
    first, stream = cluster.join(consumer_id="x")
    before = cluster.admin.exists("/consumers/g/ids/g_x")
    second, _ = cluster.join(consumer_id="x", rebalance_backoff_ms=20)
    assert second.status.phase is Phase.DEGRADED
    assert "is a second consumer running with the same consumer.id?" in str(second.status.error)
    second.shutdown()
    assert cluster.admin.exists("/consumers/g/ids/g_x") == before
    cluster.kafka.produce(TPS[3], 1)
    assert (first.status.phase, len(first.status.owned), next(stream).partition()) == (Phase.STABLE, 4, 3)


def test_a_member_that_is_shut_down_while_it_waits_for_a_taken_id_leaves_the_living_member_alone(cluster):
    cluster.join(consumer_id="x")
    before = cluster.admin.exists("/consumers/g/ids/g_x")
    second = cluster.connector(consumer_id="x", rebalance_backoff_ms=20, rebalance_max_retries=1_000_000)
    cluster.zookeeper.requests.clear()
    with ThreadPoolExecutor(1) as thread:
        joining = thread.submit(second.create_message_streams, {"t": 1})
        eventually(lambda: cluster.zookeeper.requests["create"] > 1)
        second.shutdown()
        with pytest.raises(ConsumerClosedError):
            joining.result()
    assert cluster.admin.exists("/consumers/g/ids/g_x") == before


def test_a_property_without_effect_is_warned_of(cluster, caplog):
    connector = cluster.connector(bootstrap_servers="b:9092", value_deserializer=str.upper.__name__)
    connector.create_message_streams({"t": 1})
    said = {record.getMessage().split(": ", 1)[1] for record in caplog.records if record.levelname == "WARNING"}
    assert "bootstrap.servers has no effect: brokers are found in ZooKeeper" in said
    assert "value.deserializer has no effect: keys and values are bytes here" in said


def test_a_forked_child_does_nothing_to_its_parents_connector():
    done = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.splitlines() == [
        "child: ForkedConsumerError",
        "child left with 7",
        "parent: 3 4 Phase.STABLE",
    ], done.stderr


_FORKING = """
import os, signal, sys, threading
from itertools import islice
from legacy_consumer import ConsumerConnector
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

zookeeper, kafka = MemoryZooKeeper(), FakeKafka()
admin = MemoryStore(zookeeper)
admin.start()
admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})), make_parents=True)
kafka.produce(TopicPartition("t", 0), 500)

def error_of(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__

with ConsumerConnector(store=MemoryStore(zookeeper), fetchers=FakeFetchers(kafka), zookeeper_connect="memory",
                       group_id="g", auto_offset_reset="smallest", consumer_timeout_ms=60000) as connector:
    [stream] = connector.create_message_streams({"t": 1})["t"]
    loop = iter(stream)
    list(islice(loop, 3))
    tp, forked = TopicPartition("t", 0), threading.Event()
    calls = (
        lambda: next(stream), lambda: next(iter(stream)), lambda: next(stream.batches(2)),
        lambda: next(stream.arrow_batches(2)), lambda: stream.seek(tp, 0), stream.pause, stream.resume,
        connector.commit_offsets, lambda: connector.log_ends([tp]), lambda: connector.seek(tp, 0),
        lambda: connector.pause([tp]), lambda: connector.resume([tp]), lambda: connector.position(tp),
        lambda: connector.committed([tp]), lambda: connector.lag([tp]),
        lambda: connector.create_message_streams({"t": 1}), lambda: connector.wait_until(bool, 1),
        lambda: connector.at_shutdown(print), connector.paused, lambda: connector.status, lambda: connector.progress,
        lambda: connector.vitals, lambda: connector.counters, lambda: next(loop),
    )
    held = threading.Event()

    def hold():
        # what a thread holds while another one forks, the child never gets
        committer = connector._membership.delivery.committer
        with stream._stream._lock, connector._lock, committer.lock, connector._progress._lock:
            held.set()
            forked.wait()

    threading.Thread(target=hold).start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(50)
        print("child:", *sorted({str(error_of(call)) for call in calls}), flush=True)
        connector.end_streams()
        sys.exit(7)
    forked.set()
    print("child left with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print("parent:", *(message.offset() for message in islice(stream, 2)), connector.status.phase)
"""
