"""The loop that decodes ahead: whom it works for, and that it lets go when it is told.

What it decodes: test_wire_quick_decoding.py.
"""

import threading
import weakref

import pytest

from legacy_consumer.errors import CorruptRecordsError
from legacy_consumer.portions import all_of, left
from legacy_consumer.wire import preparing
from legacy_consumer.wire.backlog import RecordSet
from legacy_consumer.wire.batch import Wish
from legacy_consumer.wire.decoder import Decoder
from legacy_consumer.wire.preparing import DONE, IS_POSSIBLE, MOST_AHEAD, QUEUED, STATE, Preparer
from legacy_consumer.wire.records import decode_records
from legacy_consumer.wire.records.messages import Rows
from tests.support.plain_sets import NEED_MORE, PLAIN, RECORDS
from tests.support.quick_decoding import Ahead, assert_same
from tests.support.record_encoder import Written, batch
from tests.support.record_sets import TP, rows_of
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="here record sets are decoded when they are wanted")


@pytest.fixture(scope="module")
def rig():
    made = Ahead()
    yield made
    made.preparer.close()


def decoded(data, position=0, **options):
    return decode_records(data, TP, position, with_headers=True, **options)


@pytest.mark.parametrize("data", NEED_MORE.values(), ids=NEED_MORE)
def test_what_needs_more_than_to_be_decoded_is_not_laid_out(rig, data):
    assert rig.lay_out(data) is None


def test_a_transaction_needs_more_than_to_be_decoded_where_only_committed_messages_are_read(rig):
    transactional = batch(RECORDS, producer_id=7, is_transactional=True)
    assert rig.lay_out(transactional) is not None
    assert rig.lay_out(transactional, read_committed=True) is None
    assert_same(rig.prepared(PLAIN, read_committed=True), PLAIN)


def test_there_is_room_for_so_many_and_again_when_one_has_ended(rig):
    plain = rig.lay_out(PLAIN)
    rows = [rig.preparer.begin(plain) for _ in range(MOST_AHEAD)]
    assert rig.preparer.begin(plain) is None
    rig.preparer.end(rows[0])
    rows[0] = rig.preparer.begin(plain)
    assert rows[0] is not None
    for row in rows:
        rig.preparer.end(row)


def test_what_nobody_wants_any_more_takes_nobody_elses_room(rig):
    plain = rig.lay_out(PLAIN)
    for _ in range(50):
        row = rig.preparer.begin(plain)
        if row is not None:
            rig.preparer.forget(row)
    assert_same(rig.prepared(PLAIN), PLAIN)


def test_what_was_not_begun_is_taken_back(rig):
    """A record set that takes the loop a while, and one behind it."""
    long = batch([Written(n, None, b"x" * 100) for n in range(5_000)])
    first = rig.preparer.begin(rig.lay_out(long))
    second = rig.preparer.begin(rig.lay_out(PLAIN))
    was_waiting = rig.state(second) == QUEUED
    columns = rig.preparer.end(second)
    assert columns is None if was_waiting and columns is None else rows_of(columns) == rows_of(decoded(PLAIN))
    assert len(rig.preparer.end(first) or decoded(long)) == 5_000


def test_closing_ends_the_thread_and_nothing_begins_any_more():
    rig = Ahead()
    before = set(threading.enumerate())
    assert rig.prepared(PLAIN) is not None
    (begun,) = set(threading.enumerate()) - before
    rig.preparer.close()
    rig.preparer.close()
    begun.join(60)
    assert not begun.is_alive()
    assert rig.preparer.begin(rig.lay_out(PLAIN)) is None


def test_a_thread_is_begun_for_nobody_who_does_not_ask():
    before = set(threading.enumerate())
    Preparer().close()
    assert set(threading.enumerate()) <= before


def test_topic_and_partition_are_those_that_were_asked_for(rig):
    assert rig.prepared(PLAIN).topic_partition == TopicPartition(*TP)


def record_set(data, position=0):
    return RecordSet(TP, 1, position, memoryview(bytearray(data)), ())


@pytest.fixture
def decoder():
    wish = Wish()
    made = Decoder(wish, read_committed=False)
    made.wish = wish
    yield made
    made.close()


def is_ahead(decoder, records):
    rows = [one.row for one in decoder._ahead if one.records is records and one.row >= 0]
    return any(decoder._preparer._board[row, STATE] == DONE for row in rows)


def test_what_comes_next_is_decoded_ahead_for_who_takes_objects(decoder):
    decoder.wish.objects = True
    first, second = record_set(PLAIN), record_set(PLAIN, 3)
    decoder.look_ahead([first, second])
    eventually(lambda: is_ahead(decoder, second))
    for records in (first, second):
        columns = decoder.decode(records, records.position)
        assert columns.packed_values is not None
        assert_same(columns, PLAIN, records.position)


def test_nothing_is_decoded_ahead_for_who_takes_columns(decoder):
    records = record_set(PLAIN)
    decoder.look_ahead([records])
    columns = decoder.decode(records, 0)
    assert columns.packed_values is None
    assert_same(columns, PLAIN)


def test_what_is_wrong_ahead_is_said_as_decoding_says_it(decoder):
    decoder.wish.objects = True
    damaged = bytearray(PLAIN)
    damaged[70] ^= 1
    records = record_set(damaged)
    decoder.look_ahead([records])
    eventually(lambda: is_ahead(decoder, records))
    with pytest.raises(CorruptRecordsError, match="a CRC that does not match, 0 bytes into the record set"):
        decoder.decode(records, 0)


def test_what_will_not_be_wanted_any_more_makes_room(decoder):
    decoder.wish.objects = True
    for _ in range(20):
        decoder.look_ahead([record_set(PLAIN) for _ in range(MOST_AHEAD)])
    decoder.look_ahead([])
    last = record_set(PLAIN)
    eventually(lambda: decoder.look_ahead([last]) or is_ahead(decoder, last))
    assert_same(decoder.decode(last, 0), PLAIN)


def test_messages_do_not_keep_what_they_were_made_of_twice(decoder):
    decoder.wish.objects = True
    records = record_set(PLAIN)
    decoder.look_ahead([records])
    eventually(lambda: is_ahead(decoder, records))
    columns = decoder.decode(records, 0)
    packed = weakref.ref(columns.packed_values.places)
    kept = columns.messages()
    del columns
    assert packed() is None
    assert [m.value() for m in kept] == [record.value for record in RECORDS]
    assert [m.key() for m in kept] == [record.key for record in RECORDS]


@pytest.mark.parametrize("is_packed", [True, False])
def test_portions_that_are_taken_in_runs_of_any_length_give_each_message_once(decoder, is_packed):
    values = [b"%d" % number for number in range(5000)]
    records = record_set(batch([Written(number, None, value) for number, value in enumerate(values)]))
    decoder.wish.objects = is_packed
    decoder.look_ahead([records])
    eventually(lambda: is_ahead(decoder, records) == is_packed)
    columns = decoder.decode(records, 0)
    assert (columns.packed_values is not None) == is_packed
    got = []
    for portion in Rows(columns).portions(7, 4990):
        for length in (1, 128, 500, 3):
            got += portion.through(iter([portion.token] * min(length, left(portion))))
        got += all_of(portion)
        assert not left(portion)
    assert [(m.offset(), m.value()) for m in got] == list(enumerate(values))[7:4990]


def test_what_a_loop_uses_that_does_not_end_is_not_closed_under_it(monkeypatch, caplog):
    ends = threading.Event()
    monkeypatch.setattr(Preparer, "_run", lambda *_: ends.wait(60))
    monkeypatch.setattr(preparing, "_END_WAIT_S", 0.01)
    held = Ahead()
    assert held.preparer.begin(held.lay_out(PLAIN)) is not None
    held.preparer.close()
    assert "does not come to an end" in caplog.text
    assert all(end.fileno() >= 0 for end in held.preparer._sockets)
    ends.set()
    eventually(lambda: held.preparer.close() or held.preparer._bell.fileno() == -1)
