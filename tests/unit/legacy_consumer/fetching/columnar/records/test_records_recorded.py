"""Recorded answers of real brokers of five versions: they decode to what librdkafka delivered of the same topics."""

import cramjam
import pytest

from tests.support.record_reader import read
from tests.support.record_sets import TP, decoded, recorded, rows_of
from tests.support.xxh32 import xxh32

RECORDED = recorded()
FORMATS_OF = {"0.8.2.2": {0}, "0.10.2.2": {0, 1}, "1.1.1": {0, 1, 2}, "2.8.2": {0, 1, 2}, "3.9.1": {2}}

every_recording = pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: recording.name)


def test_each_broker_version_is_there_in_each_of_its_formats_and_compressions():
    names = {recording.name for recording in RECORDED}
    for version, formats in FORMATS_OF.items():
        codecs = ["none", "gzip", "snappy", "lz4"]
        assert {f"{version}/v{magic}-{codec}" for magic in formats for codec in codecs} <= names
        assert {f"{version}/mixed", f"{version}/compacted-none", f"{version}/compacted-snappy"} <= names
    assert {f"{version}/v2-zstd" for version in ("2.8.2", "3.9.1")} <= names
    assert {f"{version}/transactions-read-committed" for version in ("1.1.1", "2.8.2", "3.9.1")} <= names


@every_recording
def test_recorded_record_sets_decode_to_the_messages_of_librdkafka(recording):
    columns = decoded(recording.data, **recording.options)
    assert rows_of(columns) == recording.rows
    assert columns.next_offset == recording.next_offset
    assert columns.topic_partition == TP
    assert (columns.has_more, columns.incomplete_size) == (False, None)


@every_recording
def test_decoding_begins_at_any_position_and_goes_on_where_it_ended(recording):
    end = recording.next_offset
    for position in [*range(0, end, max(1, end // 25)), end - 1, end, end + 1]:
        columns = decoded(recording.data, position, **recording.options)
        assert rows_of(columns) == [row for row in recording.rows if row[0] >= position]
        assert columns.next_offset == max(recording.next_offset, position)


@every_recording
def test_some_at_a_time_are_all_together(recording):
    rows, position, has_more = [], 0, True
    at_once = max(1, len(recording.rows) // 17)
    while has_more:
        columns = decoded(recording.data, position, max_records=at_once, **recording.options)
        assert len(columns) <= at_once
        assert columns.next_offset > position
        rows += rows_of(columns)
        position, has_more = columns.next_offset, columns.has_more
    assert (rows, position) == (recording.rows, recording.next_offset)


@every_recording
def test_a_cut_anywhere_leaves_whole_batches_and_says_how_large_the_next_one_is(recording):
    end = len(recording.data)
    for cut in [*range(0, end, max(7, end // 25)), end - 1]:
        columns = decoded(recording.data[:cut], **recording.options)
        rows = rows_of(columns)
        assert rows == recording.rows[: len(rows)]
        expected, next_offset = read(
            recording.data[:cut],
            aborted=recording.options["aborted"],
            read_committed=recording.options["read_committed"],
        )
        assert (rows, columns.next_offset) == (expected, next_offset)
        if columns.next_offset == 0:
            assert columns.incomplete_size is None or cut < columns.incomplete_size
            assert cut == 0 or columns.incomplete_size is not None
            if cut >= 12:
                whole = decoded(recording.data[: columns.incomplete_size], **recording.options)
                assert whole.next_offset > 0
        else:
            assert columns.incomplete_size is None


@every_recording
def test_the_slow_reader_reads_the_same(recording):
    rows, next_offset = read(
        recording.data, aborted=recording.options["aborted"], read_committed=recording.options["read_committed"]
    )
    assert (rows, next_offset) == (recording.rows, recording.next_offset)


def test_lz4_frames_with_the_old_clients_wrong_checksum_are_among_the_recordings_and_are_read():
    """Kafka's own code computed it over the magic number too, and for format 0 brokers of all versions still do."""
    wrong = []
    for recording in RECORDED:
        begin = recording.data.find(b"\x04\x22\x4d\x18")
        if "lz4" not in recording.name or recording.name.startswith("3.9.1"):
            continue
        end = begin + 6  # the header has neither content size nor dictionary id
        assert recording.data[begin + 4] & 9 == 0
        sound, with_magic = (xxh32(recording.data[start:end]) >> 8 & 0xFF for start in (begin + 4, begin))
        assert recording.data[end] == (with_magic if "/v0-" in recording.name else sound)
        if recording.data[end] != sound:
            wrong.append(recording.name)
            assert rows_of(decoded(recording.data)) == recording.rows
            with pytest.raises(cramjam.DecompressionError):
                cramjam.lz4.decompress(recording.data[begin:])
    assert {"0.8.2.2/v0-lz4", "0.10.2.2/v0-lz4", "1.1.1/v0-lz4-by-broker", "2.8.2/v0-lz4-by-broker"} <= set(wrong)


@pytest.mark.parametrize("version", ["1.1.1", "2.8.2", "3.9.1"])
def test_only_reading_what_is_committed_leaves_aborted_transactions_out(version):
    both = {r.name: r for r in RECORDED if r.name.startswith(f"{version}/transactions")}
    everything, committed = both[f"{version}/transactions"], both[f"{version}/transactions-read-committed"]
    assert committed.options["aborted"]
    values = [value for *_, value, _ in everything.rows]
    left = [value for *_, value, _ in committed.rows]
    assert left == [value for value in values if b"aborted" not in value]
    assert len(left) < len(values)
    columns = decoded(committed.data, **{**committed.options, "read_committed": False})
    assert rows_of(columns) == everything.rows


@pytest.mark.parametrize("name", ["compacted-none", "compacted-snappy"])
@pytest.mark.parametrize("version", FORMATS_OF)
def test_compacted_recordings_have_gaps(version, name):
    [recording] = [r for r in RECORDED if r.name == f"{version}/{name}"]
    assert 0 < len(recording.rows) < recording.next_offset
