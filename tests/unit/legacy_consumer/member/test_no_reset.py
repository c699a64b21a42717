"""auto.offset.reset=none: the user's code sets the position where there is none, or where it lies outside the log."""

import contextlib
import random
import re
from pathlib import Path

import pytest

from legacy_consumer import (
    EARLIEST,
    LATEST,
    NoCommittedOffsetError,
    NotAssignedError,
    OffsetOutOfRangeError,
    PositionError,
)
from legacy_consumer.fetching.fetcher import NO_POSITION
from tests.support.member_cluster import MemberCluster
from tests.support.wire_world import World
from zk_layout.model import TopicPartition

PAGE = Path(__file__).parents[4] / "docs" / "consuming.md"
P0, P1 = TPS = [TopicPartition("t", n) for n in range(2)]


@pytest.fixture
def cluster():
    """A cluster with five messages in each partition; the committed offset of the first is 2."""
    cluster = MemberCluster({"t": 2}, auto_offset_reset="none", drain_timeout_ms=2000)
    cluster.produce(5, *TPS)
    cluster.write(P0, b"2")
    yield cluster
    cluster.close()


def ask(take, *, times=12):
    """Call take() so many times. Returns: ({partition: offsets}, {partition: errors})."""
    offsets, errors = {}, {}
    for _ in range(times):
        try:
            for message in take():
                offsets.setdefault(TopicPartition(message.topic(), message.partition()), []).append(message.offset())
        except PositionError as error:
            errors.setdefault(error.partition, []).append(error)
    return offsets, errors


def batch_of(stream):
    return lambda: next(stream.batches(100, timeout=0.01))


def test_without_a_committed_offset_the_stream_raises_until_its_user_seeks(cluster):
    connector, stream = cluster.join()
    offsets, errors = ask(batch_of(stream))
    assert offsets == {P0: [2, 3, 4]}, "the other partition flows"
    assert errors.keys() == {P1}
    assert len(errors[P1]) > 1, "it is said again: an error that is passed over must not hide a partition"
    error = errors[P1][0]
    assert (type(error), error.partition, error.earliest, error.latest) == (NoCommittedOffsetError, P1, 0, 5)
    assert str(error) == (
        "t/1: the group has committed no offset, and auto.offset.reset is none: seek to where it is to begin in the "
        "log, which holds 0 to 5, or write it with `legacy-consumer offsets reset`"
    )
    assert connector.position(P1) is None
    connector.commit_offsets()
    assert (cluster.committed(P0), cluster.committed(P1)) == (5, None)
    connector.seek(P1, 3)
    assert ask(batch_of(stream)) == ({P1: [3, 4]}, {})
    connector.commit_offsets()
    assert cluster.committed(P1) == 5


def test_a_position_outside_of_the_log_stays_until_its_user_seeks(cluster):
    cluster.write(P0, b"70")
    cluster.write(P1, b"0")
    connector, stream = cluster.join()
    offsets, errors = ask(batch_of(stream))
    assert offsets == {P1: [0, 1, 2, 3, 4]}
    assert {(type(e), e.partition, e.offset, e.earliest, e.latest) for e in errors[P0]} == {
        (OffsetOutOfRangeError, P0, 70, 0, 5)
    }
    assert connector.position(P0) == 70
    connector.commit_offsets()
    assert cluster.committed(P0) == 70, "nobody moved it"
    stream.seek(P0, EARLIEST)
    assert ask(batch_of(stream)) == ({P0: [0, 1, 2, 3, 4]}, {})


def test_the_loop_of_the_page_reads_all_and_ends_with_its_stream(cluster):
    """In an earlier version of the page, the loop ran for ever after the stream had ended."""
    (loop,) = re.findall(r"(?ms)^```python\n(while True:\n.*?)^```", PAGE.read_text(encoding="utf-8"))
    consumer, stream = cluster.join()
    handled = []

    def handle(message):
        handled.append((message.partition(), message.offset()))
        if len(handled) == 8:
            consumer.end_streams()

    errors = {"PositionError": PositionError, "NotAssignedError": NotAssignedError}
    exec(loop, {"contextlib": contextlib, **errors, "consumer": consumer, "stream": stream, "handle": handle})
    assert sorted(handled) == [(0, 2), (0, 3), (0, 4), *((1, offset) for offset in range(5))]


def test_a_loop_that_seeks_when_it_is_told_reads_all(cluster):
    connector, stream = cluster.join(consumer_timeout_ms=2000)
    read = []
    while len(read) < 8:
        try:
            for message in stream:
                read.append((message.partition(), message.offset()))
                if len(read) == 8:
                    break
        except PositionError as error:
            connector.seek(error.partition, error.earliest)
    assert sorted(read) == [(0, n) for n in range(2, 5)] + [(1, n) for n in range(5)]


def test_the_next_owner_is_asked_again_where_nothing_was_committed(cluster):
    first, stream = cluster.join()
    assert ask(batch_of(stream))[1].keys() == {P1}
    first.shutdown()
    _, stream = cluster.join()
    assert ask(batch_of(stream))[1].keys() == {P1}


@pytest.mark.parametrize("offset", [0, 4, 9])
def test_a_listener_that_says_where_to_start_is_not_told_of_an_error(cluster, offset):
    class Starts:
        def starting_offsets(self, partitions):
            return dict.fromkeys(partitions, min(offset, 5))

        def before_releasing_partitions(self, partitions):
            pass

        def before_starting_fetchers(self, partitions, assignment):
            pass

    _, stream = cluster.join(Starts())
    assert ask(batch_of(stream))[1] == {}


# The columnar fetcher, over brokers in memory


def polled(world, *, times=400):
    def poll():
        batch = world.fetcher.poll(100, 0.05)
        return batch.messages() if batch is not None else ()

    return ask(poll, times=times)


@pytest.mark.parametrize("position", [NO_POSITION, 99])
def test_the_columnar_fetcher_tells_of_each_partition_again_until_it_is_assigned_elsewhere(position):
    with World(random.Random(2), brokers=1, partitions=3, messages=5, reset_to=None) as world:
        lost, other, fine = world.partitions
        world.fetcher.assign({lost: position, other: position, fine: 1})
        offsets, errors = polled(world)
        assert offsets == {fine: [1, 2, 3, 4]}
        assert errors.keys() == {lost, other}
        assert all(len(told) > 1 for told in errors.values())
        assert {(e.earliest, e.latest) for told in errors.values() for e in told} == {(0, 5)}
        world.fetcher.assign({lost: 3, other: LATEST})
        offsets, errors = polled(world)
        assert (offsets, errors) == ({lost: [3, 4]}, {}), "and no error that was found before is told after it"


def test_each_of_many_partitions_is_told_of_before_one_is_told_of_again():
    with World(random.Random(2), brokers=1, partitions=50, messages=5, reset_to=None) as world:
        world.fetcher.assign(dict.fromkeys(world.partitions, NO_POSITION))
        _, errors = polled(world, times=52)
        assert errors.keys() == set(world.partitions)
