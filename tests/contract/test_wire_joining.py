"""Decoding for Arrow in one pass: it gives what decode_records() gives, or nothing."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from legacy_consumer.errors import CorruptRecordsError
from legacy_consumer.wire.backlog import RecordSet
from legacy_consumer.wire.batch import ColumnarBatch, Wish
from legacy_consumer.wire.decoder import Decoder
from legacy_consumer.wire.joining import IS_POSSIBLE, decode_joined
from legacy_consumer.wire.records import decode_records
from tests.support.plain_sets import HEADERS, PLAIN, RECORDS, signed
from tests.support.record_encoder import Written, batch, marker, message
from tests.support.record_sets import TP, arrow_rows, recorded, rows_of

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="here decoding and joining are two steps")

MANY = [Written(n, b"k", bytes([n % 251]) * (n % 300), n) for n in range(2000)]
LONG = b"".join(batch(MANY[at : at + 250]) for at in range(0, 2000, 250))
"""Its batches have more bytes than checksums take at once, three blocks of 256, and so than one round of them."""


def joined(data, position=0, *, read_committed=False, last_stable_offset=-1):
    return decode_joined(
        memoryview(bytearray(data)),
        TP,
        position,
        read_committed=read_committed,
        last_stable_offset=last_stable_offset,
        take_memory=lambda size: np.full(size, 0xAA, np.uint8),
    )


def assert_same(columns, data, position=0, **options):
    wanted = decode_records(data, TP, position, with_headers=True, **options)
    assert columns.joined_values is not None
    assert rows_of(columns) == rows_of(wanted)
    columns.to_arrow().validate(full=True)
    assert arrow_rows(columns) == arrow_rows(wanted)
    assert columns.next_offset == wanted.next_offset
    assert (columns.has_more, columns.incomplete_size) == (wanted.has_more, wanted.incomplete_size)


@pytest.mark.parametrize("recording", recorded(), ids=lambda one: one.name)
def test_what_is_recorded_comes_as_it_would_in_steps_or_is_left_alone(recording):
    committed = recording.options["read_committed"]
    columns = joined(
        recording.data, read_committed=committed, last_stable_offset=recording.options["last_stable_offset"]
    )
    if columns is not None:
        assert_same(columns, recording.data, **recording.options)


@pytest.mark.parametrize("position", range(41))
def test_from_every_position_comes_what_lies_there(position):
    columns = joined(PLAIN, position)
    if position in range(7):
        assert_same(columns, PLAIN, position)
    else:
        assert columns is None  # batches before the position: a broker sends none that are whole


@pytest.mark.parametrize("data", [PLAIN, LONG], ids=["short", "long"])
@pytest.mark.parametrize("cut", [1, 11, 12, 60, 61, 200])
def test_a_last_batch_that_is_cut_is_left_out(data, cut):
    data = data + batch([Written(n, None, b"x" * 50) for n in range(2000, 2020)])[:cut]
    assert_same(joined(data), data)


@pytest.mark.parametrize("length", [*range(100), 255, 256, 257, 767, 768, 769, 3071, 3072, 3073, 70_000])
def test_values_of_any_length_are_joined_and_their_checksums_match(length):
    data = batch([Written(0, None, b"v" * length), Written(1, b"k", None), Written(2, None, b"w" * length)])
    assert_same(joined(data), data)


def test_headers_and_append_time_are_kept():
    data = batch([Written(n, b"k", b"v", 5, HEADERS) for n in range(4)], append_time=77)
    assert_same(joined(data), data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        PLAIN[:30],
        message(Written(0, None, b"v"), 1),
        batch(RECORDS[:5], codec="gzip"),
        PLAIN + batch([Written(n, None, b"v") for n in range(40, 50)], codec="snappy"),
        PLAIN + marker(40, 7, is_abort=True),
        PLAIN + message(Written(40, None, b"v"), 0),
    ],
    ids=["nothing", "a part of a batch", "format 1", "compressed", "partly", "a control batch", "mixed formats"],
)
def test_what_needs_more_than_to_be_decoded_is_left_alone(data):
    assert joined(data) is None


@pytest.mark.parametrize("place", [21, 61, 70, 300, 900, 4000, 20_000, len(LONG) - 1])
def test_what_does_not_match_its_checksum_is_left_to_decoding(place):
    data = bytearray(LONG)
    data[place] ^= 64
    assert joined(data) is None


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([PLAIN, LONG]),
    st.lists(st.tuples(st.integers(0, len(PLAIN) - 1), st.integers(0, 255)), max_size=4),
    st.booleans(),
    st.integers(0, len(PLAIN)),
)
@example(PLAIN, [(100, 1)], False, len(PLAIN))
def test_bytes_that_lie_are_never_taken_for_records_that_decoding_would_not_find(data, lies, is_signed, length):
    data = bytearray(data)
    for place, octet in lies:
        data[place] = octet
    data = signed(data[:length]) if is_signed else bytes(data[:length])
    columns = joined(data)
    if columns is None:
        return
    try:
        assert_same(columns, data)
    except CorruptRecordsError as error:
        pytest.fail(f"decoding says {error}")


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (0, 1), (3, 3), (17, 31), (39, 40), (40, 40)])
def test_a_slice_makes_a_record_batch_of_its_own_rows(start, stop):
    ours, wanted = (columns.slice(start, stop) for columns in (joined(PLAIN), decode_records(PLAIN, TP, 0)))
    ours.to_arrow().validate(full=True)
    assert arrow_rows(ours) == arrow_rows(wanted)


@pytest.fixture
def decoder():
    wish = Wish()
    made = Decoder(wish, read_committed=False)
    made.wish = wish
    yield made
    made.close()


def decoded(decoder, data=PLAIN):
    return decoder.decode(RecordSet(TP, 1, 0, memoryview(bytearray(data)), (), -1), 0)


def test_values_are_joined_for_who_takes_them_as_columns_and_for_nobody_else(decoder):
    assert decoded(decoder).joined_values is None
    taken = ColumnarBatch([decoded(decoder)], wish=decoder.wish)
    taken.to_arrow()
    assert decoded(decoder).joined_values is not None
    taken.to_arrow(["offset"])
    assert decoded(decoder).joined_values is None
    taken.to_arrow()
    taken.messages()
    assert decoded(decoder).joined_values is None
    taken.expect_arrow(["offset", "value"])
    assert decoded(decoder).joined_values is not None


def test_what_is_wrong_is_said_as_decoding_says_it(decoder):
    decoder.wish.joined_values = True
    damaged = bytearray(PLAIN)
    damaged[70] ^= 1
    with pytest.raises(CorruptRecordsError, match="a CRC that does not match, 0 bytes into the record set"):
        decoded(decoder, damaged)


def test_memory_of_values_is_used_again_only_when_no_array_is_left_over_it(decoder):
    decoder.wish.joined_values = True
    sets = [batch([Written(0, None, b"%06d" % number * 20_000)]) for number in range(30)]
    kept = [decoded(decoder, data).to_arrow() for data in sets]
    for data, one in zip(sets, kept, strict=True):
        assert one.equals(decode_records(data, TP, 0).to_arrow())


def test_messages_do_not_keep_values_that_were_joined(decoder):
    decoder.wish.joined_values = True
    columns = decoded(decoder)
    assert columns.joined_values is not None
    assert columns.without_copied_values().joined_values is None
    assert [m.value() for m in columns.messages()] == [record.value for record in RECORDS]
