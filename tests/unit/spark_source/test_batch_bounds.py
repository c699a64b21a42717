"""The bounds of a batch read while brokers report for some time that a log is shorter than it is."""

import logging

import pytest

from spark_source.errors import NoMessageAtTimeError, UndecidedError
from spark_source.messages.batch import find_bounds
from spark_source.messages.options import parse_message_options
from spark_source.messages.positions import to_ranges
from tests.support.planned_cluster import Scene
from zk_layout.memory_store import MemoryStore
from zk_layout.model import TopicPartition

A = TopicPartition("t", 0)
CUT = {"startingOffsets": '{"t":{"0":100}}', "endingOffsets": '{"t":{"0":20500}}'}


@pytest.fixture
def scene():
    """A cluster whose log of t/0 ends at 20,500, while the broker reports 20,000 for the first 20 s."""
    scene = Scene()
    scene.topic("t", (0, 20_000))
    scene.commit(A, 20_500)
    scene.brokers.later[20.0] = lambda: scene.brokers.logs.update({A: (0, 20_500)})
    return scene


def read(scene, known_ends=(), needed_to=(), **options):
    """Plan a read of t/0. Returns: (its ranges, its losses as text, the time it took in seconds)."""
    parsed = parse_message_options({"zookeeper.connect": "m:1", "topics": "t", **options})
    store = MemoryStore(scene.server)
    cluster = scene.cluster(parsed, store)
    cluster.open()
    ranges, lost = to_ranges(*find_bounds(parsed, cluster, [A], dict(known_ends), dict(needed_to)))
    return [(each.start, each.end) for each in ranges], list(map(str, lost)), scene.brokers.now


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize(
    ("options", "known_ends", "expected"),
    [
        pytest.param({"group.id": "g"}, {}, [], id="the group stands at its end"),
        pytest.param(CUT, {}, [(100, 20_500)], id="a range is given"),
        pytest.param({}, {A: 20_500}, [(0, 20_500)], id="the plan saw more"),
    ],
)
def test_a_log_end_that_is_lower_for_a_while_is_neither_a_loss_nor_the_end(
    scene, caplog, fail, options, known_ends, expected
):
    with caplog.at_level(logging.WARNING):
        assert read(scene, known_ends, failOnDataLoss=fail, **options) == (expected, [], 20.0)
    assert [record.message for record in caplog.records] == [
        "t/0: its log ends at 20000, before the wanted 20500: asked again for 60 s"
    ]


def test_a_log_that_stays_shorter_is_a_loss_after_fetch_timeout(scene):
    lost = ["t/0: 500 before 20500 are not there, the log holds 0 to 20000"]
    assert read(scene, fetchTimeoutMs="10000", **CUT) == ([(100, 20_000)], lost, 10.0)
    scene.brokers.now = 0.0
    assert read(scene, {A: 20_500}, fetchTimeoutMs="10000") == ([(0, 20_000)], lost, 10.0)


def test_a_task_does_not_wait_for_the_reads_of_another_one(scene):
    assert read(scene, {A: 20_500}, {A: 10_000})[2] == 0.0


def test_a_query_that_ends_before_the_end_of_the_log_does_not_wait_for_it(scene):
    assert read(scene, {A: 20_500}, endingOffsets='{"t":{"0":300}}') == ([(0, 300)], [], 0.0)


def test_a_time_behind_all_messages_is_refused_where_a_message_must_be(scene):
    options = {"startingOffsets": "600", "startingOffsetsByTimestampStrategy": "error"}
    scene.register_broker(version=4)
    with pytest.raises(NoMessageAtTimeError, match="t/0"):
        read(scene, **options)
    assert read(scene, **{**options, "startingOffsets": "400"})[0] == [(3, 20_000)]


@pytest.mark.parametrize("time_ms", ["500", "600"])
def test_a_read_that_ends_at_a_time_leaves_nothing_out_though_a_broker_knows_only_the_times_of_segments(scene, time_ms):
    scene.register_broker(version=4)
    scene.register_broker(version=3, number=1)
    assert read(scene, endingOffsets=time_ms)[0] == [(0, 20_000)]
    # a read that begins at that time begins no later than there
    assert read(scene, startingOffsets=time_ms)[0] == [(3 if time_ms == "500" else 0, 20_000)]


@pytest.mark.parametrize(
    ("options", "expected"), [({"startingOffsets": "600"}, []), ({"endingOffsets": "600"}, [(0, 20_001)])]
)
def test_a_time_behind_all_messages_of_a_log_that_grows_is_the_end_that_was_seen(scene, options, expected):
    scene.register_broker(version=4)
    latest = scene.brokers.latest

    def grow_and_tell(partitions):
        begin, end = scene.brokers.logs[A]
        scene.brokers.logs[A] = (begin, end + 1)
        return latest(partitions)

    scene.brokers.latest = grow_and_tell
    assert read(scene, **options) == (expected, [], 0.0)


COMMITTED = {"isolation.level": "read_committed", "group.id": "g"}


def test_a_group_that_stands_behind_an_open_transaction_has_lost_nothing_and_reads_on_behind_it(scene):
    # the members of the group read all messages, committed or not, so the group stands behind the open transaction
    scene.brokers.logs[A] = (0, 20_600)
    scene.brokers.open_from[A] = 20_400
    assert read(scene, **COMMITTED) == ([], [], 0.0)
    del scene.brokers.open_from[A]
    assert read(scene, **COMMITTED) == ([(20_500, 20_600)], [], 0.0)


def test_an_end_behind_an_open_transaction_is_waited_for_and_then_said_to_be_undecided(scene):
    scene.brokers.logs[A] = (0, 20_600)
    scene.brokers.open_from[A] = 20_400
    scene.brokers.later = {20.0: scene.brokers.open_from.clear}
    options = {**CUT, "isolation.level": "read_committed"}
    assert read(scene, **options) == ([(100, 20_500)], [], 20.0)
    scene.brokers.open_from[A] = 20_400
    for fail in ("true", "false"):
        with pytest.raises(UndecidedError) as caught:
            read(scene, failOnDataLoss=fail, **options)
        assert str(caught.value) == (
            "transactions are still open in t/0 before 20500 (from 20400 on): "
            "read again when they have ended, or with read_uncommitted"
        )
