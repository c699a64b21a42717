"""Record sets of every format, from the tests' own encoder: the decoder and the tests' own reader agree."""

import itertools
import struct
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.support.record_encoder import Written, batch, marker, message, messages, wrapper
from tests.support.record_reader import read
from tests.support.record_sets import decoded, rows_of

# few draws an example: many kinds of record sets matter more than many bytes
KEYS = st.sampled_from([None, b"", b"k", b"key", bytes(range(63)), bytes(range(64)), b"long" * 75, b"\xff" * 9000])
TIMES = st.sampled_from([-1, 0, 1, 63, 64, 10**12, 2**45])
HEADERS = st.sampled_from([(), (), (("a", b"1"),), (("", None), ("\u00fc", b""), ("", b"x" * 70))])
FRAMINGS = [("gzip", "raw"), ("snappy", "raw"), ("snappy", "xerial"), ("lz4", "raw"), ("lz4", "broken")]


@st.composite
def record_sets(draw):
    """Draw runs of messages, wrappers and batches, with gaps between and inside them."""
    offset = draw(st.sampled_from([0, 5, 2**31, 2**40]))
    pieces = []
    for _ in range(draw(st.integers(1, 5))):
        offsets = sorted({offset + n for n in draw(st.sets(st.integers(0, 200), min_size=1, max_size=6))})
        kind = draw(st.sampled_from(["messages", "wrapper", "batch", "batch"]))
        records = [
            Written(o, draw(KEYS), draw(KEYS), draw(TIMES), draw(HEADERS) if kind == "batch" else ()) for o in offsets
        ]
        magic = draw(st.integers(0, 1))
        append_time = draw(st.none() | TIMES)
        if kind == "messages":
            pieces.append(messages(records, magic))
        elif kind == "wrapper":
            codec, framing = draw(st.sampled_from(FRAMINGS if magic == 0 else FRAMINGS[:-1]))
            pieces.append(
                wrapper(records, magic, codec, framing=framing, append_time=append_time if magic == 1 else None)
            )
        else:
            codec, framing = draw(st.sampled_from([("none", "raw"), ("zstd", "raw"), *FRAMINGS[:-1]]))
            base = draw(st.integers(max(0, offsets[0] - 3), offsets[0]).filter(lambda b, at=offset: b >= at))
            last = offsets[-1] + draw(st.integers(0, 3))
            pieces.append(
                batch(
                    records,
                    codec,
                    framing=framing,
                    append_time=append_time,
                    base_offset=base,
                    last_offset=last,
                )
            )
            offsets.append(last)
        offset = offsets[-1] + 1 + draw(st.integers(0, 3))
    return b"".join(pieces)


@given(record_sets(), st.integers(0, 400), st.booleans())
@settings(max_examples=80)
def test_written_records_are_read_from_every_position(data, ahead, check_crcs):
    whole, _ = read(data)
    position = whole[0][0] + ahead
    columns = decoded(data, position, check_crcs=check_crcs)
    assert (rows_of(columns), columns.next_offset) == read(data, position)


@given(record_sets(), st.integers(1, 9))
@settings(max_examples=40)
def test_limits_change_nothing_but_how_much_comes_at_once(data, at_once):
    rows, position, has_more = [], 0, True
    while has_more:
        columns = decoded(data, position, max_records=at_once, max_decompressed_bytes=100)
        assert len(columns) <= at_once
        assert columns.next_offset > position
        rows += rows_of(columns)
        position, has_more = columns.next_offset, columns.has_more
    assert (rows, position) == read(data)


@st.composite
def transactions(draw):
    """Draw (record set, aborted, committed values with their offsets): the transactions of producers interleave."""
    offset, pieces, aborted, kept, running = 0, [], [], [], {}
    for step in range(draw(st.integers(1, 25))):
        producer = draw(st.integers(1, 3))
        if draw(st.integers(0, 3)) == 0 and producer in running:
            first, values = running.pop(producer)
            is_abort = draw(st.booleans())
            pieces.append(marker(offset, producer, is_abort=is_abort))
            if is_abort:
                aborted.append((producer, first))
            else:
                kept += values
            offset += 1
        elif draw(st.integers(0, 4)) == 0 and producer not in running:
            # a record outside a transaction, of a producer that also has transactions
            pieces.append(batch([Written(offset, None, b"plain", step)], producer_id=producer))
            kept.append((offset, b"plain"))
            offset += 1
        else:
            count = draw(st.integers(1, 3))
            records = [Written(offset + n, None, b"%d" % step, step) for n in range(count)]
            codec = draw(st.sampled_from(["none", "gzip"]))
            pieces.append(batch(records, codec, producer_id=producer, is_transactional=True))
            running.setdefault(producer, (offset, []))[1].extend((r.offset, r.value) for r in records)
            offset += count
    for producer in sorted(running):
        pieces.append(marker(offset, producer, is_abort=True))
        aborted.append((producer, running[producer][0]))
        offset += 1
    return b"".join(pieces), aborted, sorted(kept), offset


@given(transactions())
@settings(max_examples=80)
def test_only_what_was_committed_is_read_when_asked_for(case):
    data, aborted, kept, end = case
    columns = decoded(data, aborted=aborted, read_committed=True)
    assert [(m.offset(), m.value()) for m in columns.messages()] == kept
    assert columns.next_offset == end
    everything = decoded(data, aborted=aborted)
    assert (rows_of(everything), everything.next_offset) == read(data)


def test_control_records_only_move_the_position():
    data = marker(5, 1, is_abort=True) + marker(6, 1, is_abort=False)
    for read_committed in (False, True):
        columns = decoded(data, 5, read_committed=read_committed)
        assert (len(columns), columns.next_offset, columns.has_more) == (0, 7, False)


def test_an_emptied_batch_only_moves_the_position():
    columns = decoded(batch([], base_offset=3, last_offset=9) + batch([Written(10, None, b"v", 0)]), 3)
    assert [m.offset() for m in columns.messages()] == [10]
    assert decoded(batch([], base_offset=3, last_offset=9), 3).next_offset == 10


def test_the_time_of_appending_is_that_of_all():
    records = [Written(n, None, b"v", 100 + n) for n in range(3)]
    for data in (batch(records, append_time=7), wrapper(records, 1, "gzip", append_time=7)):
        assert [m.timestamp() for m in decoded(data).messages()] == [(2, 7)] * 3
    own = [Written(0, None, b"v", 100, attributes=8), Written(1, None, b"v", 101)]
    assert [m.timestamp() for m in decoded(messages(own, 1)).messages()] == [(2, 100), (1, 101)]


def test_a_compacted_wrapper_keeps_the_offsets_of_what_is_left():
    left = [Written(3, b"k", b"v", 1), Written(7, b"l", b"w", 2)]
    for magic in (0, 1):
        columns = decoded(wrapper(left, magic, "snappy") + message(Written(9, None, b"x", 3), magic))
        assert [m.offset() for m in columns.messages()] == [3, 7, 9]


def test_a_batch_that_begins_before_the_position_is_read_from_there():
    records = [Written(n, None, b"%d" % n, n) for n in range(10, 20)]
    for data in (batch(records), batch(records, "lz4"), wrapper(records, 0, "gzip"), wrapper(records, 1, "gzip")):
        columns = decoded(data, 15)
        assert [m.offset() for m in columns.messages()] == [15, 16, 17, 18, 19]
        assert decoded(data, 20).next_offset == 20


def test_batches_before_the_position_are_not_decompressed():
    damaged = batch([Written(0, None, b"v", 0)], "gzip", inside=b"no records")
    good = batch([Written(1, None, b"w", 0)])
    assert [m.offset() for m in decoded(damaged + good, 1, max_batch_bytes=1).messages()] == [1]


@pytest.mark.parametrize("size", [5000, 100_000, 3_000_000])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_large_values_come_through(codec, size):
    value = bytes(range(251)) * (size // 251)
    records = [Written(0, b"k", value, 0), Written(1, None, b"small", 0), Written(2, None, value, 0)]
    data = batch(records, codec, crc=0)
    columns = decoded(data, check_crcs=False)
    assert [m.value() for m in columns.messages()] == [value, b"small", value]


def test_a_message_larger_than_what_came_says_what_is_needed():
    data = batch([Written(0, None, b"v" * 1000, 0)])
    assert decoded(data[:100]).incomplete_size == len(data)
    assert decoded(data[:5]).incomplete_size == 12
    assert decoded(data + data[:100], 0).incomplete_size is None
    # the position is past the complete batch, so the size reaches to the end of the incomplete batch
    behind = batch([Written(1, None, b"v" * 1000, 0)])
    assert decoded(data + behind[:50], 1).incomplete_size == len(data) + len(behind)
    assert decoded(struct.pack(">qi", 0, 2**31 - 1) + b"\0" * 20).incomplete_size == 2**31 - 1


def test_any_buffer_will_do():
    data = batch([Written(0, b"k", b"v", 0)])
    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(b"x" + data))[1:]):
        assert [m.value() for m in decoded(buffer).messages()] == [b"v"]


@pytest.mark.parametrize("headers", [(), (("name", b"value"),)])
def test_numbers_of_every_length_are_read(headers):
    """The decoder has a separate path for records with short numbers and no headers, as most records are."""
    edges = [0, 1, 62, 63, 64, 65, 8190, 8191, 8192, 8193, 2**20 - 1, 2**20, 2**20 + 1]
    times = [*edges, -1, -64, -65, -8192, -8193, -(2**20), 2**31, -(2**40), 2**62]
    fields = [None, b"", *(b"%d" % size * (size // 4) for size in (4, 240, 252, 256, 260))]
    records = [Written(edge, None, b"v", 1000) for edge in edges]
    records += [Written(2**21 + n, None, b"v", 1000 + time) for n, time in enumerate(times)]
    records += [
        Written(2**22 + n, key, value, 1000) for n, (key, value) in enumerate(itertools.product(fields, fields))
    ]
    records += [Written(2**23 + n, b"k", bytes(size - 20 + n % 40), 1000) for n, size in enumerate([8192, 2**20] * 20)]
    written = [replace(record, headers=headers if n % 3 else ()) for n, record in enumerate(records)]
    wanted = [(w.offset, 1, w.timestamp, w.key, w.value, list(w.headers) or None) for w in written]
    assert rows_of(decoded(batch(written))) == wanted
