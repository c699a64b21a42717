"""What waits to be handed out: how much of it is decoded for one poll."""

import pytest

from legacy_consumer.wire.backlog import Backlog, RecordSet
from legacy_consumer.wire.records import decode_records
from tests.support.record_encoder import Written, batch
from tests.support.record_sets import TP


def record_set(first, count):
    data = batch([Written(first + number, None, b"v") for number in range(count)])
    return RecordSet(TP, 1, first, memoryview(bytearray(data)), ())


@pytest.fixture
def backlog():
    made = Backlog(lambda one, position: decode_records(one.records, one.partition, position), lambda _, __: True)
    for first in (0, 10, 20, 30):
        made.add(record_set(first, 10))
    return made


def test_a_poll_takes_what_fits_of_all_that_waits(backlog):
    assert [len(run) for run in backlog.take(40)] == [10, 10, 10, 10]


def test_a_poll_that_is_nearly_full_decodes_nothing_more(backlog):
    assert [len(run) for run in backlog.take(35)] == [10, 10, 10]


@pytest.mark.parametrize(("enough", "runs"), [(1, [10]), (10, [10]), (11, [10, 10]), (100, [10] * 4)])
def test_no_more_record_sets_are_decoded_than_there_are_enough_messages_in(backlog, enough, runs):
    assert [len(run) for run in backlog.take(40, enough)] == runs


def test_what_is_left_of_a_record_set_is_taken_first(backlog):
    assert [len(run) for run in backlog.take(7, 5)] == [7]
    assert [run.offsets.tolist() for run in backlog.take(35, 3)] == [[7, 8, 9]]
