import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.messages.offset_spec import FROM_EARLIEST, parse_offset_spec
from spark_source.messages.positions import Logs, to_ranges
from spark_source.messages.ranges import OffsetRange, split_ranges
from spark_source.messages.shares import NO_END, open_ends, ranges_in
from zk_layout.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = st.integers(0, 60)


def spans(ranges):
    return [(each.start, each.end) for each in ranges]


def test_the_shares_of_a_partition_hold_all_offsets_that_there_can_be():
    pieces = [OffsetRange(A, 10, 20), OffsetRange(A, 20, 30), OffsetRange(B, 5, 6)]
    assert open_ends(pieces) == [OffsetRange(A, 0, 20), OffsetRange(A, 20, NO_END), OffsetRange(B, 0, NO_END)]


@given(
    planned=st.tuples(OFFSETS, OFFSETS),
    most=st.integers(1, 60),
    wanted=st.tuples(OFFSETS, OFFSETS),
    log=st.tuples(OFFSETS, OFFSETS),
)
def test_tasks_of_an_old_plan_read_the_same_as_those_of_a_fresh_one_and_name_the_loss(planned, most, wanted, log):
    pieces = split_ranges([OffsetRange(A, min(planned), max(planned) + 1)], max_records=most)
    starts, ends, logs = {A: wanted[0]}, {A: wanted[1]}, Logs({A: min(log)}, {A: max(log)})
    starting = parse_offset_spec("startingOffsets", f'{{"t": {{"0": {wanted[0]}}}}}')
    found = [ranges_in(share, starting, starts, ends, logs) for share in open_ends(pieces)]
    fresh, lost = to_ranges(starts, ends, logs)
    read = [n for ranges, _ in found for each in ranges for n in range(each.start, each.end)]
    assert read == [n for each in fresh for n in range(each.start, each.end)]
    assert any(lost for _, lost in found) == bool(lost)


@pytest.mark.parametrize(
    ("share", "read", "lost"),
    [
        ((0, 10), [], []),
        ((0, 20), [(14, 20)], []),
        ((10, 20), [(14, 20)], ["t/0: 4 offsets from 10 on are gone, the log holds 14 to 30"]),
        ((5, 10), [], ["t/0: 5 offsets from 5 on are gone, the log holds 14 to 30"]),
        ((20, NO_END), [(20, 30)], []),
    ],
)
def test_the_earliest_has_no_loss_but_between_two_tasks(share, read, lost):
    found = ranges_in(OffsetRange(A, *share), FROM_EARLIEST, {A: 14}, {A: 30}, Logs({A: 14}, {A: 30}))
    assert (spans(found[0]), [str(each) for each in found[1]]) == (read, lost)
