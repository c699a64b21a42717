"""Who gets values that were joined while they were decoded, and what becomes of their memory.

What is decoded so: test_wire_quick_decoding.py.
"""

import pytest

from legacy_consumer.errors import CorruptRecordsError
from legacy_consumer.wire.backlog import RecordSet
from legacy_consumer.wire.batch import ColumnarBatch, Wish
from legacy_consumer.wire.decoder import Decoder
from legacy_consumer.wire.joining import IS_POSSIBLE
from legacy_consumer.wire.records import decode_records
from tests.support.plain_sets import PLAIN, RECORDS
from tests.support.record_encoder import Written, batch
from tests.support.record_sets import TP

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="here decoding and joining are two steps")


@pytest.fixture
def decoder():
    wish = Wish()
    made = Decoder(wish, read_committed=False)
    made.wish = wish
    yield made
    made.close()


def decoded(decoder, data=PLAIN):
    return decoder.decode(RecordSet(TP, 1, 0, memoryview(bytearray(data)), ()), 0)


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
