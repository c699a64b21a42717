"""Whole connectors with delivery.rule=acknowledged: workers are done with messages in any order."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from legacy_consumer import ConfigError, Phase
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition

P0 = TopicPartition("t", 0)
LENGTH = 200


@pytest.fixture
def cluster():
    acknowledged = {"delivery_rule": "acknowledged", "auto_commit_enable": False, "drain_timeout_ms": 20_000}
    cluster = MemberCluster({"t": 1}, **acknowledged)
    cluster.produce(LENGTH, P0)
    yield cluster
    cluster.close(0.1)


def test_a_commit_writes_the_offset_of_the_first_unacknowledged_message(cluster):
    connector, stream = cluster.join()
    messages = [next(stream) for _ in range(6)]
    for number, expected in [(2, 0), (1, 0), (0, 3), (5, 3), (4, 3), (3, 6)]:
        assert connector.acknowledge(messages[number])
        connector.commit_offsets()
        assert (cluster.committed(P0) or 0) == expected
    assert not connector.acknowledge(messages[3]), "it is done already"
    assert connector.position(P0) == 6


def test_coming_back_and_committing_say_nothing_of_what_is_not_acknowledged(cluster):
    connector, stream = cluster.join()
    batches = stream.batches(10)
    first, _ = next(batches), next(batches)
    connector.commit_offsets()
    assert (cluster.committed(P0) or 0) == 0
    for message in first:
        connector.acknowledge(message)
    connector.commit_offsets()
    assert cluster.committed(P0) == 10


def test_a_message_that_a_loop_has_in_hand_can_be_acknowledged(cluster):
    connector, stream = cluster.join()
    for message in stream:
        assert connector.acknowledge(message)
        if message.offset() == 20:
            break
    connector.commit_offsets()
    assert cluster.committed(P0) == 21


def test_unacknowledged_messages_come_again_to_the_next_owner(cluster):
    connector, stream = cluster.join(drain_timeout_ms=50)
    messages = next(stream.batches(10))
    for message in messages[:4] + messages[6:]:
        connector.acknowledge(message)
    connector.commit_offsets()
    connector.shutdown()
    assert cluster.committed(P0) == 4
    _, stream = cluster.join()
    assert next(stream).offset() == 4


def test_a_pool_of_workers_loses_nothing_and_its_shutdown_waits_for_them(cluster):
    """The workers finish while the main thread is in shutdown(); an auto commit commits their messages."""
    connector, stream = cluster.join(auto_commit_enable=True)
    go_on = threading.Event()

    def work(message):
        if message.offset() % 7 == 3:
            go_on.wait(60)
        return connector.acknowledge(message)

    with ThreadPoolExecutor(LENGTH) as pool:
        works = [pool.submit(work, next(stream)) for _ in range(LENGTH)]
        ending = threading.Thread(target=connector.shutdown)
        ending.start()
        eventually(lambda: connector.status.phase is not Phase.STABLE)
        go_on.set()
        assert all(each.result(60) for each in works)
        ending.join(60)
    assert cluster.committed(P0) == LENGTH


def test_a_shutdown_waits_also_for_what_its_own_thread_was_handed_out(cluster):
    connector, stream = cluster.join(auto_commit_enable=True)
    messages = [next(stream) for _ in range(3)]
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: connector.wait_until(lambda status: status.phase is Phase.LEAVING, 60))
        done.add_done_callback(lambda _: [connector.acknowledge(message) for message in messages])
        connector.shutdown()
    assert done.result()
    assert cluster.committed(P0) == 3


def test_an_acknowledgement_after_a_seek_or_after_the_partition_has_gone_counts_for_nothing(cluster):
    connector, stream = cluster.join()
    messages = next(stream.batches(3))
    connector.seek(P0, 0)
    assert not connector.acknowledge(messages[0])
    again = next(stream.batches(3))
    assert connector.acknowledge(again[0])
    cluster.admin.delete("/brokers/topics/t")
    eventually(lambda: not connector.progress)
    assert not connector.acknowledge(again[1])
    eventually(lambda: not stream._stream._acknowledgements._partitions)


def test_an_acknowledgement_after_the_member_has_left_counts_for_nothing(cluster):
    """A worker of a pool may be late, and does not know whether its member has left."""
    connector, stream = cluster.join(drain_timeout_ms=100)
    message = next(stream)
    connector.unsubscribe()
    assert connector.acknowledge(message) is False
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    assert connector.acknowledge(message) is False
    message = next(stream)
    connector.shutdown()
    assert connector.acknowledge(message) is False


@pytest.mark.parametrize("how", ["by a seek", "by name"])
def test_a_release_waits_no_longer_when_nothing_is_to_be_acknowledged_any_more(cluster, how):
    connector, stream = cluster.join()
    assert len([next(stream) for _ in range(5)]) == 5
    ending = threading.Thread(target=connector.shutdown)
    ending.start()
    eventually(lambda: not stream._stream._wanted)
    if how == "by a seek":
        connector.seek(P0, 2)
    else:
        connector.commit_offsets({P0: 4})
        assert ending.is_alive(), "the last one may still be acknowledged"
        connector.commit_offsets({P0: 5})
    ending.join(15)
    assert not ending.is_alive(), "drain.timeout.ms is 20 s"


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("done", [0, LENGTH - 1, LENGTH])
def test_after_a_log_became_shorter_no_commit_passes_a_message_of_it_that_is_not_acknowledged(cluster, done, is_named):
    """auto.offset.reset moves the position back; acknowledgements of the old log do not count for the new log."""
    connector, stream = cluster.join()
    old = [next(stream) for _ in range(LENGTH)]
    for message in old[:done]:
        assert connector.acknowledge(message)
    connector.commit_offsets({P0: LENGTH} if is_named else None)
    cluster.kafka.truncate(P0, 4)
    new = [next(stream) for _ in range(3)]
    connector.commit_offsets()
    assert cluster.committed(P0) in (0, None)
    assert not connector.acknowledge(old[-1])
    for message in new[:2]:
        assert connector.acknowledge(message)
    connector.commit_offsets()
    assert (cluster.committed(P0), connector.position(P0)) == (2, 3)


def test_other_rules_and_arrow_say_that_there_is_nothing_to_acknowledge(cluster):
    connector, stream = cluster.join()
    with pytest.raises(ConfigError, match=r"delivery.rule=acknowledged.*batches\(\)"):
        stream.arrow_batches()
    connector.shutdown()
    connector, stream = cluster.join(delivery_rule="at_least_once")
    with pytest.raises(ConfigError, match=r"delivery.rule=at_least_once.*must be acknowledged"):
        connector.acknowledge(next(stream))
