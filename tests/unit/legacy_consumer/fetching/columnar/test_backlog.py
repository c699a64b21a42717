"""The backlog of messages to hand out: how much of it one poll decodes."""

import pytest

from legacy_consumer.errors import CorruptRecordsError, FetchError
from legacy_consumer.fetching.columnar.backlog import Backlog
from legacy_consumer.fetching.columnar.core import BrokerAddress, Failed, Records
from legacy_consumer.fetching.columnar.records import decode_ahead, decode_records, glance
from tests.support.record_encoder import Written, batch, marker, wrapper
from tests.support.record_sets import TP


def record_set(first, count):
    data = batch([Written(first + number, None, b"v") for number in range(count)])
    return Records(TP, 1, first, memoryview(bytearray(data)), ())


@pytest.fixture
def backlog():
    made = Backlog(
        lambda one: decode_records(one.records, one.partition, one.position),
        lambda one: decode_ahead(one.records, one.partition, one.position),
        lambda _, __: True,
    )
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


@pytest.mark.parametrize(("enough_bytes", "runs"), [(1, [10]), (10**6, [10] * 4)])
def test_no_more_record_sets_are_decoded_than_there_are_enough_bytes_in(backlog, enough_bytes, runs):
    assert [len(run) for run in backlog.take(40, 100, enough_bytes)] == runs


class Decoded:
    """A record set that another thread has decoded."""

    def __init__(self, one):
        self.columns = decode_records(one.records, one.partition, one.position)

    def result(self, meanwhile=None):
        return self.columns


def test_only_what_no_thread_decodes_ahead_is_decoded_by_the_poll():
    here, free = [], [True, False, False, True]

    def decode(one):
        here.append(one.position)
        return decode_records(one.records, one.partition, one.position)

    backlog = Backlog(decode, lambda one: Decoded(one) if free and free.pop(0) else None, lambda _, __: True)
    for first in (0, 10, 20, 30):
        backlog.add(record_set(first, 10))
    assert [run.offsets.tolist() for run in backlog.take(40)] == [[*range(at, at + 10)] for at in (0, 10, 20, 30)]
    assert 0 not in here
    assert len(here) == 2


def test_damage_is_told_each_time_until_it_is_dropped_and_then_the_next_records_come():
    data = batch([Written(number, None, b"v") for number in range(10)])
    backlog = Backlog(
        lambda one: decode_records(one.records, one.partition, one.position),
        lambda one: decode_ahead(one.records, one.partition, one.position),
        lambda _, __: True,
    )
    backlog.add(Records(TP, 1, 0, memoryview(data[:-1] + b"x"), ()))
    backlog.add(record_set(10, 10))
    for _ in range(2):
        with pytest.raises(CorruptRecordsError):
            backlog.take(40)
    assert backlog.drop_first().position == 0
    assert [run.offsets.tolist() for run in backlog.take(40)] == [[*range(10, 20)]]


def test_errors_have_their_turn_behind_what_waits_once_each_and_not_in_another_life():
    broker, lives = BrokerAddress(1, "h", 9092, 4), {1}
    backlog = Backlog(
        lambda one: decode_records(one.records, one.partition, one.position),
        lambda one: decode_ahead(one.records, one.partition, one.position),
        lambda _, life: life in lives,
    )
    backlog.add(record_set(0, 10))
    for text in ("first", "again"):
        backlog.add(Failed(FetchError(None, text), broker))
    backlog.add(record_set(10, 10))
    for life in (1, 2):
        backlog.add(Failed(FetchError(TP, f"life {life}"), TP, life))
    nbytes = backlog.nbytes
    assert [len(run) for run in backlog.take(4)] == [4]
    assert [len(run) for run in backlog.take(40)] == [6]
    for _ in range(2):
        with pytest.raises(FetchError, match="first"):
            backlog.take(40)
    backlog.drop_first()
    assert 0 < backlog.nbytes < nbytes
    assert [len(run) for run in backlog.take(40)] == [10]
    assert (backlog.nbytes, backlog.holds(TP, 1), backlog.is_empty) == (0, True, False)
    lives.add(2)
    for life in (1, 2):
        with pytest.raises(FetchError, match=f"life {life}"):
            backlog.take(40)
        assert backlog.drop_first().life == life
    assert backlog.is_empty
    backlog.add(Failed(FetchError(TP, "gone"), TP, 3))
    assert backlog.take(40) == []
    assert backlog.is_empty


def test_the_rest_of_a_record_set_is_taken_first(backlog):
    assert [len(run) for run in backlog.take(7, 5)] == [7]
    assert [run.offsets.tolist() for run in backlog.take(35, 3)] == [[7, 8, 9]]


def test_it_holds_what_waits_and_what_is_left_and_nothing_of_another_life(backlog):
    assert backlog.holds(TP, 1)
    assert not backlog.holds(TP, 2)
    backlog.take(40)
    assert not backlog.holds(TP, 1)


def test_a_partition_stands_behind_the_end_of_a_transaction_once_its_messages_are_taken():
    backlog = Backlog(
        lambda one: decode_records(one.records, one.partition, one.position),
        lambda _: None,
        lambda _, __: True,
    )
    committed = batch([Written(n, None, b"v") for n in range(10)], producer_id=1, is_transactional=True)
    backlog.add(Records(TP, 1, 0, memoryview(committed + marker(10, 1, is_abort=False)), ()))
    backlog.add(Records(TP, 1, 11, memoryview(marker(11, 1, is_abort=True)), ()))
    taken = []
    while run := backlog.take(4, 1):
        taken.append((len(run[0]), backlog.positions))
    assert taken == [(4, {TP: 4}), (4, {TP: 8}), (2, {TP: 11})]
    # the second marker has no message for the user, but the position moves past it
    assert backlog.positions == {TP: 12}
    assert (backlog.take(4), backlog.positions) == ([], {})


def large_entry(offset, magic, codec, **options):
    """Return an entry of two records that decompress to 600 KB."""
    records = [Written(offset + number, b"%d" % (offset + number), b"\0" * 300_000) for number in range(2)]
    return batch(records, codec, **options) if magic == 2 else wrapper(records, magic, codec)


@pytest.mark.parametrize("is_ahead", [True, False])
@pytest.mark.parametrize(
    ("magic", "codec"), [(0, "gzip"), (1, "lz4"), (1, "snappy"), (2, "gzip"), (2, "lz4"), (2, "zstd"), (2, "snappy")]
)
def test_record_sets_that_come_in_parts_come_whole_and_in_order_without_what_was_aborted(magic, codec, is_ahead):
    aborted, entries, offsets = [], [], []
    offset = 0
    for number in range(20):
        is_transactional = magic == 2 and number % 3 == 0
        is_abort = is_transactional and number % 2 == 0
        options = {"producer_id": 7, "is_transactional": True} if is_transactional else {}
        entries.append(large_entry(offset, magic, codec, **options))
        if is_abort:
            aborted.append((7, offset))
        else:
            offsets += [offset, offset + 1]
        offset += 2
        if is_transactional:
            entries.append(marker(offset, 7, is_abort=is_abort))
            offset += 1
    parts = []

    def decode(one, how=decode_records):
        return how(one.records, one.partition, one.position, aborted=one.aborted, read_committed=True)

    backlog = Backlog(decode, lambda one: decode(one, decode_ahead) if is_ahead else None, lambda _, __: True)
    half, position = len(entries) // 2, 0
    for data in (b"".join(entries[:half]), b"".join(entries[half:])):
        backlog.add(Records(TP, 1, position, memoryview(data), tuple(aborted)))
        position, _ = glance(data, position)
    while not backlog.is_empty:
        for run in backlog.take(3):
            parts.append(run)
            assert run.nbytes < 5_000_000
    assert [offset for run in parts for offset in run.offsets.tolist()] == offsets
    assert [key for run in parts for key in run.to_arrow().column("key").to_pylist()] == [b"%d" % n for n in offsets]
    assert backlog.nbytes == 0
