import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.messages.ranges import OffsetRange, limit_ends, split_ranges
from zk_layout.model import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))

RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=6).map(
    lambda sizes: [OffsetRange(TopicPartition("t", n), start, start + size) for n, (start, size) in enumerate(sizes)]
)


@pytest.mark.parametrize(
    ("sizes", "options", "expected"),
    [
        ((90, 10), {}, [90, 10]),
        ((90, 10), {"min_partitions": 10}, [10] * 9 + [10]),
        ((90, 10), {"min_partitions": 2}, [90, 10]),
        ((90, 10), {"max_records": 40}, [30, 30, 30, 10]),
        ((90, 10), {"max_records": 40, "min_partitions": 5}, [22, 23, 22, 23, 10]),
        ((2, 0), {"min_partitions": 8}, [1, 1]),
        ((0, 0), {"min_partitions": 8}, []),
    ],
)
def test_larger_ranges_are_cut_into_more_tasks(sizes, options, expected):
    ranges = [OffsetRange(tp, 5, 5 + size) for tp, size in zip((A, B), sizes, strict=True)]
    assert [piece.size for piece in split_ranges(ranges, **options)] == expected


@given(ranges=RANGES, least=st.none() | st.integers(1, 40), most=st.none() | st.integers(1, 60))
def test_pieces_are_the_ranges_and_keep_the_bounds(ranges, least, most):
    pieces = split_ranges(ranges, min_partitions=least, max_records=most)
    offsets = [(piece.partition, n) for piece in pieces for n in range(piece.start, piece.end)]
    assert offsets == [(each.partition, n) for each in ranges for n in range(each.start, each.end)]
    assert all(piece.size > 0 for piece in pieces)
    assert most is None or all(piece.size <= most for piece in pieces)
    assert least is None or len(pieces) >= min(least, sum(each.size for each in ranges))


def test_a_trigger_takes_its_share_of_each_partition_by_its_lag():
    starts = {A: 0, B: 100, C: 7}
    assert limit_ends(starts, {A: 90, B: 110, C: 7}, 10) == {A: 9, B: 101, C: 7}
    assert limit_ends(starts, {A: 90, B: 110, C: 7}, 1000) == {A: 90, B: 110, C: 7}


def test_a_small_partition_beside_a_large_one_does_not_starve():
    assert limit_ends({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


@given(ranges=RANGES, most=st.integers(1, 300))
def test_a_trigger_takes_no_more_than_it_may_and_no_less_than_it_can(ranges, most):
    starts = {each.partition: each.start for each in ranges}
    ends = {each.partition: each.end for each in ranges}
    found = limit_ends(starts, ends, most)
    assert all(starts[tp] <= found[tp] <= ends[tp] for tp in starts)
    assert sum(found[tp] - starts[tp] for tp in starts) == min(most, sum(each.size for each in ranges))


def test_a_partition_whose_log_ends_before_its_start_stays_where_it_is():
    assert limit_ends({A: 50, B: 0}, {A: 10, B: 5}, 100) == {A: 50, B: 5}


def test_more_tasks_than_offsets_are_as_many_as_offsets():
    ranges = [OffsetRange(TopicPartition("t", n), 0, 40) for n in range(10)]
    assert len(split_ranges(ranges, min_partitions=401)) == 400
