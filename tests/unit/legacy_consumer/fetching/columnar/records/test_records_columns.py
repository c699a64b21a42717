"""Columns: slices, messages and Arrow over the same bytes."""

import gc

import pyarrow as pa
import pytest

from legacy_consumer.fetching.columnar.records.columns import ARROW_COLUMNS
from tests.support.record_encoder import Written, batch, messages, wrapper
from tests.support.record_sets import decoded, recorded, rows_of

SOME = [
    Written(10, b"k", b"v", 1000, (("a", b"1"), ("b", None))),
    Written(12, None, b"w" * 300, 1001),
    Written(13, b"", None, 999),
    Written(17, None, None, 1003),
]


@pytest.fixture
def columns():
    return decoded(batch(SOME, base_offset=8, last_offset=19) + batch([Written(20, b"l", b"last", 1)]))


def test_a_message_has_the_accessors_of_the_seam(columns):
    first, second, third, *_ = columns.messages()
    assert (first.topic(), first.partition(), first.offset()) == ("t", 3, 10)
    assert (first.key(), first.value(), first.timestamp()) == (b"k", b"v", (1, 1000))
    assert first.headers() == [("a", b"1"), ("b", None)]
    assert second.headers() is None
    assert (third.key(), third.value()) == (b"", None)
    assert repr(first) == "<message t/3 at offset 10>"


def test_a_slice_holds_its_records_and_the_position_behind_them(columns):
    rows = rows_of(columns)
    for start in range(-1, 7):
        for stop in range(start, 8):
            part = columns.slice(start, stop)
            expected = rows[max(start, 0) : max(stop, 0)]
            assert rows_of(part) == expected
            ends = stop >= len(rows) or start >= len(rows)
            assert part.has_more == (not ends)
            begin = max(start, 0)
            assert part.next_offset == (21 if ends else expected[-1][0] + 1 if expected else rows[begin][0])
            assert part.to_arrow().num_rows == len(expected)


def test_slices_go_on_from_each_other(columns):
    parts = [columns.slice(at, at + 2) for at in range(0, len(columns), 2)]
    assert [row for part in parts for row in rows_of(part)] == rows_of(columns)
    assert [part.next_offset for part in parts] == [13, 18, 21]


def test_a_message_goes_on_when_its_columns_are_forgotten():
    recording = next(iter(recorded()))
    columns = decoded(recording.data, **recording.options)
    wanted = rows_of(columns)[0]
    message = columns.messages()[0]
    del columns
    gc.collect()
    assert (message.offset(), message.key(), message.value()) == (wanted[0], wanted[3], wanted[4])


def test_arrow_holds_what_the_messages_hold():
    for recording in recorded():
        columns = decoded(recording.data, **recording.options)
        for part in (columns, columns.slice(1, 5), columns.slice(3, 3)):
            arrow = part.to_arrow((*ARROW_COLUMNS, "headers"))
            arrow.validate(full=True)
            got = [
                (
                    row["offset"],
                    row["timestampType"],
                    -1 if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000),
                    row["key"],
                    row["value"],
                    row["headers"] and [(h["key"], h["value"]) for h in row["headers"]],
                )
                for row in arrow.to_pylist()
            ]
            assert got == rows_of(part), recording.name
            assert {(row["topic"], row["partition"]) for row in arrow.to_pylist()} <= {("t", 3)}


def test_arrow_has_the_types_that_are_documented(columns):
    assert columns.to_arrow().schema == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.dictionary(pa.int8(), pa.string())),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("timestampType", pa.int32()),
        ]
    )


def test_arrow_has_the_wanted_columns_only_and_shares_the_offsets(columns):
    arrow = columns.to_arrow(["value", "offset"])
    assert arrow.schema.names == ["value", "offset"]
    assert arrow["offset"].buffers()[1].address == columns.offsets.ctypes.data
    assert columns.to_arrow([]).num_columns == 0


def test_arrow_says_which_columns_there_are(columns):
    with pytest.raises(ValueError, match="no column 'values': there are key, value, topic"):
        columns.to_arrow(["values"])


def test_old_messages_have_no_headers_but_can_be_asked():
    for data in (messages(SOME, 0), messages(SOME, 1), wrapper(SOME, 1, "gzip"), batch(SOME) + messages(SOME, 1)):
        columns = decoded(data)
        assert all(m.headers() is None for m in columns.messages()[-4:] if not data.startswith(batch(SOME)))
        assert columns.to_arrow(["headers"]).num_rows == len(columns)


def test_no_timestamp_is_null_in_arrow():
    assert decoded(messages(SOME, 0)).to_arrow(["timestamp"])["timestamp"].to_pylist() == [None] * 4


def test_nothing_to_decode_is_no_record():
    columns = decoded(b"", 7)
    assert (len(columns), columns.messages(), columns.next_offset) == (0, [], 7)
    assert columns.to_arrow([*ARROW_COLUMNS, "headers"]).num_rows == 0


def test_columns_hold_nothing_of_the_response():
    data = bytearray(batch([Written(0, b"k", b"v", 0, (("key", b"value"),))]))
    columns = decoded(data)
    data.clear()  # raises BufferError while another object holds its buffer
    assert rows_of(columns) == [(0, 1, 0, b"k", b"v", [("key", b"value")])]


def test_a_record_batch_that_is_held_is_not_written_over_by_later_ones():
    written = [[Written(n, None, bytes([turn]) * 1000, 1) for n in range(100)] for turn in range(8)]
    sets = [decoded(batch(records)) for records in written]
    held, slices = [], []
    for number, columns in enumerate(sets):
        made = columns.to_arrow()
        if number % 2:
            held.append((number, made))
        else:
            slices.append((number, made.column("value").slice(40, 10)))
        del made
    for columns in sets:
        columns.to_arrow()  # nothing keeps this batch
    for number, made in held:
        assert set(made.column("value").to_pylist()) == {bytes([number]) * 1000}
    for number, values in slices:
        assert set(values.to_pylist()) == {bytes([number]) * 1000}
