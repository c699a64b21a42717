"""The columns of the native decoder are those of the other one, for whoever takes them; what is wrong says where."""

import pytest

from legacy_consumer.errors import CorruptRecordsError, FetchError
from legacy_consumer.wire.backlog import RecordSet
from legacy_consumer.wire.records import AbortedTransaction, decode_records
from legacy_consumer.wire.records.arrow import TYPES
from tests.support.plain_sets import HEADERS
from tests.support.record_encoder import Written, batch, marker, message
from tests.support.record_sets import TP, rows_of

pytest.importorskip("legacy_consumer_native", reason="the crate in native/ is not built: `make native`")
from legacy_consumer.wire import native

RECORDS = [
    Written(n, b"k" * n if n % 3 else None, b"v" * (n * 9) if n % 5 else None, n, HEADERS * (n % 2)) for n in range(40)
]
SET = batch(RECORDS[:7]) + batch(RECORDS[7:30], "lz4") + batch(RECORDS[30:], append_time=5)


def decoded(data, position=0, *, read_committed=False, aborted=(), **options):
    decoder = native.NativeDecoder(read_committed=read_committed, **options)
    return decoder.decode(RecordSet(TP, 1, position, memoryview(data), tuple(aborted)), position)


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (3, 12), (39, 99), (8, 8), (40, 40), (-5, 2), (9, 1)])
def test_columns_and_their_slices_are_those_of_the_other_decoder(start, stop):
    ours, wanted = decoded(SET).slice(start, stop), decode_records(SET, TP, 0, with_headers=True).slice(start, stop)
    assert (len(ours), ours.next_offset, ours.has_more) == (len(wanted), wanted.next_offset, wanted.has_more)
    assert rows_of(ours) == rows_of(wanted)
    for name in ("offsets", "timestamps", "timestamp_types"):
        assert getattr(ours, name).tolist() == getattr(wanted, name).tolist()
    assert ours.to_arrow().equals(wanted.to_arrow())
    assert ours.to_arrow(["headers", "key"]).equals(wanted.to_arrow(["headers", "key"]))
    with pytest.raises(ValueError, match=f"there are {', '.join(TYPES)}"):
        ours.to_arrow(["nothing"])


def test_a_message_of_formats_without_times_has_none():
    ours = decoded(message(Written(3, None, b"v"), 0))
    assert ours.timestamps.tolist() == [-1]
    assert ours.to_arrow(["timestamp"]).column(0).to_pylist() == [None]


def test_columns_hold_nothing_of_the_response():
    response = bytearray(SET)
    columns = decoded(response)
    response.clear()  # refused while somebody has its memory
    assert rows_of(columns) == rows_of(decode_records(SET, TP, 0, with_headers=True))


def test_aborted_transactions_are_left_out_for_readers_of_what_is_committed():
    data = batch(RECORDS[:3], producer_id=7, is_transactional=True) + marker(3, 7, is_abort=True) + batch(RECORDS[4:6])
    aborted = [AbortedTransaction(7, 0)]
    assert decoded(data, read_committed=True, aborted=aborted).offsets.tolist() == [4, 5]
    assert decoded(data, aborted=aborted).offsets.tolist() == [0, 1, 2, 4, 5]


def test_damage_names_partition_offset_and_reason():
    with pytest.raises(CorruptRecordsError, match=r"^t/3: the records at offset 4 are corrupt: a CRC that does not"):
        decoded(batch([Written(4, None, b"v")], crc=1), 4)


def test_a_batch_beyond_the_limit_names_the_setting():
    bomb = batch([Written(0, None, bytes(129 << 20))], "zstd")
    with pytest.raises(
        FetchError, match=r"holds more than 134217728 bytes, .*: raise fetch\.message\.max\.bytes$"
    ) as e:
        decoded(bomb)
    assert not isinstance(e.value, CorruptRecordsError)
    assert len(decoded(bomb, most_batch_bytes=130 << 20)) == 1


@pytest.mark.parametrize(("error", "kind"), [(MemoryError(), FetchError), (OverflowError("x"), CorruptRecordsError)])
def test_whatever_the_module_raises_names_the_partition_and_the_offset(error, kind, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(native.legacy_consumer_native, "decode", fail)
    with pytest.raises(FetchError, match=r"t/3: .*offset 5") as raised:
        decoded(SET, 5)
    assert type(raised.value) is kind
