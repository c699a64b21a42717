"""Record sets that other threads decode before a poll needs them."""

import gc
import multiprocessing
import os
import time

import legacy_consumer_native
import pytest

from legacy_consumer.errors import CorruptRecordsError, FetchError
from legacy_consumer.fetching.columnar.records import decode_ahead, decode_records
from tests.support.record_encoder import Written, batch
from tests.support.record_sets import TP


def record_set(count=10, codec="none", size=10):
    return batch([Written(number, b"k%d" % number, b"v" * size) for number in range(count)], codec=codec)


def ahead_of(data, **options):
    deadline = time.monotonic() + 60
    while (made := decode_ahead(data, TP, 0, **options)) is None:
        assert time.monotonic() < deadline
        gc.collect()  # frees a fetcher of another test to which nothing refers any more
    return made


def rows(columns):
    return columns.to_arrow().to_pylist()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_thread_decodes_the_same_as_the_caller_would(codec):
    data = record_set(1000, codec)
    for _ in range(20):
        assert rows(ahead_of(data).result()) == rows(decode_records(data, TP, 0))


@pytest.mark.parametrize("is_damaged", [False, True])
def test_who_waits_for_one_decodes_another_meanwhile_and_both_come_out(is_damaged):
    large = record_set(20_000, codec="gzip", size=100)
    other = record_set(1000)
    if is_damaged:
        other = other[:-1] + b"\xff"
    for _ in range(20):
        first, second = ahead_of(large), ahead_of(other)
        assert len(first.result(second)) == 20_000
        if is_damaged:
            with pytest.raises(CorruptRecordsError, match="CRC"):
                second.result(first)
        else:
            assert rows(second.result(first)) == rows(decode_records(other, TP, 0))
        del first, second


def test_the_result_is_the_same_each_time():
    begun = ahead_of(record_set())
    assert rows(begun.result()) == rows(begun.result())


def test_no_more_than_one_is_decoded_ahead_that_no_thread_has_time_for_whoever_asks():
    begun = [ahead_of(record_set())]
    while (one := decode_ahead(record_set(), TP, 0)) is not None:
        begun.append(one)
    del one
    assert 2 <= len(begun) <= max(1, len(os.sched_getaffinity(0)) - 1) + 1
    assert len(begun[0].result()) == 10
    assert decode_ahead(record_set(), TP, 0) is None, "its columns are still kept"
    begun.clear()
    assert len(ahead_of(record_set()).result()) == 10


@pytest.mark.parametrize("asked", [1, 2])
def test_damage_is_told_each_time_it_is_asked_for_and_the_thread_goes_on(asked):
    begun = ahead_of(record_set()[:-1] + b"\xff")
    for _ in range(asked):
        with pytest.raises(CorruptRecordsError, match="CRC"):
            begun.result()
    del begun
    assert len(ahead_of(record_set()).result()) == 10


def test_more_than_is_allowed_is_told_with_the_setting():
    with pytest.raises(FetchError, match=r"raise fetch\.message\.max\.bytes"):
        ahead_of(record_set(100, codec="gzip", size=1000), max_batch_bytes=100).result()


def test_one_that_nobody_wants_any_more_lets_go_of_its_bytes():
    whole = record_set(100, codec="gzip", size=1000)
    for _ in range(200):
        data = bytearray(whole)
        ahead_of(data)
        # a bytearray cannot grow while another object holds its buffer
        data += b"x"


def in_child(begun, queue):
    queue.put([len(begun.result()), len(ahead_of(record_set()).result()), len(ahead_of(record_set()).result())])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("is_done", [False, True])
def test_a_forked_child_has_what_was_begun_and_threads_of_its_own(is_done):
    fork = multiprocessing.get_context("fork")
    begun = ahead_of(record_set(1000, codec="gzip", size=1000))
    if is_done:
        begun.result()
    queue = fork.SimpleQueue()
    child = fork.Process(target=in_child, args=(begun, queue))
    child.start()
    try:
        child.join(60)
        assert child.exitcode == 0
        assert queue.get() == [1000, 10, 10]
    finally:
        child.kill()
    assert len(begun.result()) == 1000
    gc.collect()


def test_the_module_names_what_is_too_long():
    with pytest.raises(TypeError):
        legacy_consumer_native.decode_ahead("text", 0)
