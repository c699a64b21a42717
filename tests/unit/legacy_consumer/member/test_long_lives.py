"""A process that runs for months: the memory that it must free, and the events that it must still notice."""

import gc
import threading
import weakref

import pytest

from legacy_consumer import Phase, Whitelist
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually
from zk_layout.errors import ConfigError
from zk_layout.memory_store import MemoryStore
from zk_layout.model import TopicPartition

TPS = [TopicPartition("t", n) for n in range(3)]


@pytest.fixture
def cluster():
    cluster = MemberCluster({"t": 3}, drain_timeout_ms=500, rebalance_backoff_ms=50)
    yield cluster
    cluster.close()


@pytest.mark.parametrize("coordination", ["classic", "leader"])
@pytest.mark.parametrize("takes", [True, False])
def test_a_member_that_cannot_begin_one_partition_notices_all_the_same_that_it_lost_another(
    cluster, coordination, takes
):
    cluster.write(TPS[2], b"nonsense")
    cluster.produce(1, *TPS)
    connector, stream = cluster.join(
        group_coordination=coordination,
        rebalance_max_retries=1,
        audit_interval_ms=100,
        auto_commit_enable=False,
        consumer_timeout_ms=-1,
    )
    got = {next(stream).partition(), next(stream).partition()}
    assert got == {0, 1}
    assert connector.wait_until(lambda status: status.phase is Phase.DEGRADED, 60)
    jvm = MemoryStore(cluster.zookeeper)
    jvm.start()
    path = cluster.owner_path(TPS[0])
    jvm.delete(path)
    if takes:
        jvm.create(path, b"jvm-0", ephemeral=True)
        eventually(lambda: TPS[0] not in connector.status.owned)
        assert TPS[1] in connector.status.owned
        cluster.produce(1, TPS[0], TPS[1])
        assert next(stream).partition() == 1
    else:
        eventually(lambda: cluster.admin.exists(path) is not None)
        assert dict(cluster.owners())["0"] == f"{connector.consumer_id}-0"


def test_what_wait_until_is_to_look_at_may_take_its_time_and_holds_up_nobody(cluster):
    first, _ = cluster.join()
    inside, go_on = threading.Event(), threading.Event()

    def reached(_):
        inside.set()
        return go_on.wait(60)

    waiting = threading.Thread(target=first.wait_until, args=(reached, 60))
    waiting.start()
    assert inside.wait(60)
    second, _ = cluster.join()
    assert second.wait_until(lambda status: len(status.owned) > 0, 60)
    assert len(first.status.owned) < 3
    go_on.set()
    waiting.join(60)
    assert not waiting.is_alive()


def test_what_wait_until_is_to_look_at_may_unsubscribe(cluster):
    connector, _ = cluster.join()
    asked = []

    def reached(status):
        if not asked:
            asked.append(status)
            connector.unsubscribe(20)
        return True

    connector.wait_until(reached, 60)
    assert len(asked) == 1
    assert cluster.admin.get_children("/consumers/g/ids") == ()
    assert connector.create_message_streams({"t": 1})["t"], "it is open"


@pytest.mark.parametrize("coordination", ["classic", "leader"])
def test_nothing_of_a_subscription_that_has_ended_stays_in_memory(cluster, coordination):
    cluster.produce(50, *TPS)
    connector = cluster.connector(group_coordination=coordination, audit_interval_ms=50)
    lives = []
    for _ in range(3):
        [stream] = connector.create_message_streams({"t": 1})["t"]
        next(stream)
        assert connector.wait_until(lambda status: status.phase is Phase.STABLE, 60)
        membership = connector._membership
        lives += map(weakref.ref, (membership, membership._coordinator, membership.delivery, stream))
        del membership, stream
        connector.unsubscribe(20)
    assert connector.create_message_streams({"t": 1})["t"]

    def are_gone():
        gc.collect()
        return [life() for life in lives] == [None] * len(lives)

    eventually(are_gone)


def test_a_stream_that_a_user_keeps_after_its_end_keeps_no_messages_that_waited(cluster):
    cluster.produce(1000, *TPS)
    connector, stream = cluster.join()
    next(stream)
    assert len(list(next(stream.batches(10)))) == 10
    assert stream._stream._ledger.waiting != ()
    connector.unsubscribe(20)
    assert stream._stream._ledger.waiting == ()


def test_a_subscription_that_makes_a_registration_which_no_member_reads_is_refused_and_a_filter_may_take_its_place(
    cluster,
):
    topics = {f"{number:05}" + "x" * 235: 1 for number in range(2200)}
    connector = cluster.connector()
    with pytest.raises(ConfigError, match=r"2200 topics: make a registration of 5.* bytes, .* subscribe with a filter"):
        connector.create_message_streams(topics)
    assert cluster.admin.exists("/consumers/g/ids") is None
    assert connector._store.session_id == 0, "it is refused before any I/O, as other wrong values are"
    connector.create_message_streams_by_filter(Whitelist("t"))
    assert connector.wait_until(lambda status: len(status.owned) == 3, 60)
