"""Damaged bytes: an error that names topic, partition, offset and reason, and no loss of the records before it."""

import gzip
import random
import struct
import tracemalloc
import zlib

import cramjam
import pytest

from legacy_consumer.errors import CorruptRecordsError, FetchError
from tests.support.memory import memory_for
from tests.support.record_encoder import (
    Written,
    batch,
    marker,
    message,
    messages,
    record_v2,
    varint,
    with_broken_checksum,
    wrapper,
)
from tests.support.record_sets import TP, decoded, rows_of

ONE = [Written(5, b"k", b"v", 7)]
INSIDE = record_v2(ONE[0], 5, 7)
LONG = [Written(5, b"k", b"v" * 1000, 7)]


def with_byte(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes([byte]) + data[at + 1 :]


def resized(data: bytes, size: int) -> bytes:
    return data[:8] + struct.pack(">i", size) + data[12:]


def zstd_bomb(size: int) -> bytes:
    """Return a zstd frame that decompresses to size bytes or more: each block repeats one byte 128 Ki times."""
    block = 1 << 17
    heads = [(block << 3 | 1 << 1 | (at + block >= size)).to_bytes(3, "little") for at in range(0, size, block)]
    return b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(head + b"x" for head in heads)


def zstd_frame(content: bytes, *, window_bits: int | None = None, promised: int | None = None) -> bytes:
    """Return a zstd frame with one raw block. Its header asks for a window, or else states the size of the content."""
    if window_bits is not None:
        head = bytes([0, window_bits - 10 << 3])
    else:
        head = b"\xe0" + struct.pack("<q", len(content) if promised is None else promised)
    return b"\x28\xb5\x2f\xfd" + head + (len(content) << 3 | 1).to_bytes(3, "little") + content


def with_record(body: bytes, **lies: object) -> bytes:
    return batch(ONE, inside=varint(len(body)) + body, **lies)


def snapped(size: int) -> bytes:
    """Return a snappy block whose preamble promises size bytes."""
    out = bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size, 0])


def wrapped(codec: int, value: bytes, magic: int = 1) -> bytes:
    return message(Written(5, None, value, 7, (), codec), magic)


DAMAGED = {
    "crc-of-a-batch": (batch(ONE, crc=1), "CRC"),
    "crc-of-a-long-batch": (batch(LONG, crc=1), "CRC"),
    "crc-of-a-message": (message(ONE[0], 1, crc=1), "CRC"),
    "crc-of-a-message-of-format-0": (message(ONE[0], 0, crc=1), "CRC"),
    "crc-of-a-wrapper": (with_byte(wrapper(ONE, 1, "gzip"), 13, 1), "CRC"),
    "crc-inside-a-wrapper": (wrapper(ONE, 1, "gzip", inside=message(ONE[0], 1, crc=1)), "CRC"),
    "negative-size": (resized(batch(ONE), -1), "size"),
    "size-too-small-for-a-batch": (resized(batch(ONE), 48), "size"),
    "size-too-small-for-a-message": (resized(messages(ONE, 0), 13), "size"),
    "size-too-small-for-format-1": (resized(messages(ONE, 1), 21), "size"),
    "magic": (batch(ONE, magic=3), "format"),
    "negative-magic": (batch(ONE, magic=-1), "format"),
    "negative-offset": (struct.pack(">q", -1) + batch(ONE)[8:], "offset"),
    "endless-offset": (struct.pack(">q", 2**63 - 1) + batch(ONE)[8:], "offset"),
    "last-offset-before-first": (batch(ONE, last_offset=3), "last offset"),
    "negative-count": (batch(ONE, count=-1), "counts"),
    "count-too-large": (batch(ONE, count=2**31 - 1), "counts"),
    "count-too-large-by-one": (batch(ONE, count=2), "counts|record"),
    "compressed-count-too-large": (batch(ONE, "zstd", count=2**31 - 1), "counts"),
    "count-too-small": (batch([*ONE, Written(6)], count=1), "more bytes than its records"),
    "no-count": (batch(ONE, count=0, inside=INSIDE), "more bytes|counts"),
    "record-longer-than-the-batch": (batch(ONE, inside=varint(200) + INSIDE[1:]), "record"),
    "negative-length": (batch(ONE, inside=varint(-5) + INSIDE[1:]), "record"),
    "no-length": (batch(ONE, inside=varint(0) + INSIDE[1:]), "record"),
    "length-of-six-bytes": (batch(ONE, inside=b"\x80\x80\x80\x80\x80\x01" + b"\0" * 9), "record"),
    "length-of-33-bits": (batch(ONE, inside=b"\x80\x80\x80\x80\x10" + b"\0" * 9), "record"),
    "length-that-never-ends": (batch(ONE, inside=b"\xff" * 20), "record"),
    "time-of-11-bytes": (with_record(b"\0" + b"\x80" * 10 + b"\0" + b"\0\x01\x01\0"), "timestamp"),
    "time-of-65-bits": (with_record(b"\0" + b"\x80" * 9 + b"\x02" + b"\0\x01\x01\0"), "timestamp"),
    "offset-before-the-batch": (with_record(b"\0\0" + varint(-1) + b"\x01\x01\0"), "offset"),
    "offset-behind-the-batch": (with_record(b"\0\0" + varint(1) + b"\x01\x01\0"), "offset"),
    "key-longer-than-the-record": (with_record(b"\0\0\0" + varint(9) + b"kk\0"), "key"),
    "key-longer-than-all-memory": (with_record(b"\0\0\0" + varint(2**31 - 1) + b"kk\0"), "key"),
    "negative-key": (with_record(b"\0\0\0" + varint(-2) + b"\x01\0"), "key"),
    "value-longer-than-the-record": (with_record(b"\0\0\0\x01" + varint(9) + b"vv\0"), "value"),
    "negative-value": (with_record(b"\0\0\0\x01" + varint(-2) + b"\0"), "value"),
    "record-without-headers": (with_record(b"\0\0\0\x01" + varint(2) + b"vv"), "headers"),
    "bytes-behind-the-headers": (with_record(b"\0\0\0\x01\x01\0\0"), "headers"),
    "negative-headers": (with_record(b"\0\0\0\x01\x01" + varint(-1)), "headers"),
    "more-headers-than-bytes": (with_record(b"\0\0\0\x01\x01" + varint(2**31 - 1)), "headers"),
    "header-without-a-key": (with_record(b"\0\0\0\x01\x01" + varint(1) + b"\x01\x01"), "headers"),
    "header-longer-than-the-record": (with_record(b"\0\0\0\x01\x01" + varint(1) + varint(9) + b"k\x01"), "headers"),
    "header-value-too-long": (with_record(b"\0\0\0\x01\x01" + varint(1) + varint(1) + b"k" + varint(9)), "headers"),
    "message-key-too-long": (message(Written(5, None, b"v"), 0, crc=0)[:18] + struct.pack(">i", 99) + b"\0" * 5, "key"),
    "message-value-too-short": (
        message(Written(5, None, b"v"), 0, crc=0)[:18] + struct.pack(">ii", -1, 0) + b"\0",
        "value",
    ),
    "negative-message-value": (
        message(Written(5, None, b"v"), 0, crc=0)[:18] + struct.pack(">ii", -1, -2) + b"\0",
        "value",
    ),
    "codec-5": (wrapped(5, b"12345"), "compression 5"),
    "codec-7-in-a-batch": (with_byte(batch(ONE, crc=0), 22, 7), "compression 7"),
    "zstd-in-format-1": (wrapped(4, bytes(cramjam.zstd.compress(messages(ONE, 1)))), "zstd.*format 1"),
    "wrapper-without-a-value": (wrapped(1, None), "value"),
    "wrapper-without-messages": (wrapped(1, gzip.compress(b"")), "no messages"),
    "wrapper-in-a-wrapper": (wrapped(1, gzip.compress(wrapper(ONE, 1, "gzip"))), "inside a compressed"),
    "batch-in-a-wrapper": (wrapped(1, gzip.compress(batch(ONE))), "another format"),
    "cut-inside-a-wrapper": (wrapped(1, gzip.compress(messages(ONE, 1)[:-1])), "does not end"),
    "offsets-beyond-the-wrapper": (wrapped(1, gzip.compress(messages([Written(6)], 1))), "beyond"),
    "first-offset-beyond-the-wrapper": (
        wrapped(1, gzip.compress(messages([Written(3), Written(2)], 1))),
        "beyond",
    ),
    "offset-beyond-a-wrapper-of-format-0": (wrapped(1, gzip.compress(messages([Written(6)], 0)), 0), "beyond"),
    "not-gzip": (wrapped(1, b"no gzip at all"), "gzip"),
    "empty-gzip": (wrapped(1, b""), "no messages|gzip"),
    "cut-gzip": (wrapped(1, gzip.compress(messages(ONE, 1))[:-9]), "gzip: cut"),
    "gzip-checksum": (wrapped(1, gzip.compress(messages(ONE, 1))[:-6] + b"\0" * 6), "gzip"),
    "not-snappy": (wrapped(2, b"\xff" * 20), "snappy"),
    "empty-snappy": (wrapped(2, b""), "snappy|no messages"),
    "snappy-that-promises-too-much": (wrapped(2, snapped(2**31)), "cannot come out"),
    "cut-xerial": (wrapped(2, b"\x82SNAPPY\x00\0\0\0\1\0\0\0\1\0\0\0\x09ab"), "snappy: cut"),
    "cut-xerial-head": (wrapped(2, b"\x82SNAPPY\x00\0\0"), "no messages|snappy"),
    "negative-xerial-block": (wrapped(2, b"\x82SNAPPY\x00\0\0\0\1\0\0\0\1\xff\xff\xff\xffab"), "snappy: cut"),
    "not-lz4": (wrapped(3, b"no lz4 at all"), "lz4"),
    "empty-lz4": (wrapped(3, b""), "lz4"),
    "cut-lz4": (wrapped(3, bytes(cramjam.lz4.compress(messages(ONE, 1)))[:-5]), "lz4: cut"),
    "lz4-block-size": (wrapped(3, b"\x04\x22\x4d\x18\x60\x30\0\0\0\0\0"), "lz4: blocks"),
    "lz4-head-only": (wrapped(3, b"\x04\x22\x4d\x18"), "lz4: cut"),
    "broken-lz4-checksum-in-a-batch": (
        batch(ONE, "lz4", framing="broken"),
        "lz4",
    ),
    "not-zstd": (batch(ONE, "zstd", crc=0)[:61] + b"no zstd at all", "zstd"),
}
TOO_LARGE = {
    "gzip-bomb": wrapped(1, gzip.compress(b"\0" * 50_000_000)),
    "snappy-bomb": wrapped(2, bytes(cramjam.snappy.compress_raw(b"\0" * 12_000_000))),
    "lz4-bomb": wrapped(3, bytes(cramjam.lz4.compress(b"\0" * 50_000_000))),
}


def complete(data: bytes) -> bytes:
    """Return the batch with its true size in the header, unless the case is about that size."""
    size = struct.unpack(">i", data[8:12])[0]
    return resized(data, len(data) - 12) if size >= 49 and size < 2**20 and data[16] == 2 else data


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_records_are_an_error_with_offset_and_reason(case):
    data, reason = DAMAGED[case]
    message = rf"^t/3: the records at offset 4 are corrupt: .*({reason})"
    with pytest.raises(CorruptRecordsError, match=message) as caught:
        decoded(complete(data), 4, check_crcs="crc" in case, max_batch_bytes=10_000_000)
    assert (caught.value.partition, caught.value.offset, caught.value.retriable) == (TP, 4, False)


@pytest.mark.parametrize("case", DAMAGED)
def test_sound_records_before_the_damage_are_delivered_first(case):
    data, _ = DAMAGED[case]
    for sound in (
        batch([Written(3, None, b"sound", 1)]),
        batch([Written(3, None, b"sound", 1)], "snappy"),
        message(Written(3, None, b"sound", 1), 1),
        wrapper([Written(3, None, b"sound", 1)], 1, "gzip"),
        marker(3, 1, is_abort=False),
    ):
        columns = decoded(sound + complete(data), 1, check_crcs="crc" in case, max_batch_bytes=10_000_000)
        assert [m.value() for m in columns.messages()] in ([b"sound"], [])
        assert (columns.next_offset, columns.has_more, columns.incomplete_size) == (4, True, None)
        with pytest.raises(CorruptRecordsError, match="t/3: the records at offset 4 are corrupt"):
            decoded(sound + complete(data), 4, check_crcs="crc" in case, max_batch_bytes=10_000_000)


@pytest.mark.parametrize("case", TOO_LARGE)
def test_records_that_are_only_too_large_are_an_error_that_names_the_setting_to_raise(case):
    sound = batch([Written(3, None, b"sound", 1)])
    options = {"check_crcs": False, "max_batch_bytes": 10_000_000}
    columns = decoded(sound + complete(TOO_LARGE[case]), 1, **options)
    assert ([m.value() for m in columns.messages()], columns.next_offset, columns.has_more) == ([b"sound"], 4, True)
    with pytest.raises(FetchError) as caught:
        decoded(sound + complete(TOO_LARGE[case]), 4, **options)
    assert type(caught.value) is FetchError
    assert str(caught.value) == (
        "t/3: offset 4: a compressed batch that holds more than 10000000 bytes, which are allowed: raise "
        "fetch.message.max.bytes"
    )


def test_a_batch_that_is_larger_than_usual_is_read_where_that_is_allowed():
    records = [Written(0, None, b"\0" * 20_000_000, 7)]
    data = batch(records, "gzip")
    with pytest.raises(FetchError, match=r"raise fetch\.message\.max\.bytes"):
        decoded(data, max_batch_bytes=10_000_000)
    assert [len(m.value()) for m in decoded(data, max_batch_bytes=30_000_000).messages()] == [20_000_000]


def test_of_millions_of_empty_records_so_many_columns_are_made_at_once():
    for codec in ("none", "gzip"):
        data = batch([Written(n) for n in range(3500)], codec)
        position, parts = 0, []
        while True:
            columns = decoded(data, position, max_records=1000)
            parts.append(len(columns))
            assert columns.offsets.tolist() == list(range(position, position + len(columns)))
            position = columns.next_offset
            if not columns.has_more:
                break
        assert parts == [1000, 1000, 1000, 500]


def test_a_zstd_bomb_is_not_set_off():
    data = batch(ONE, "zstd", crc=0)[:61] + zstd_bomb(1 << 30)
    with pytest.raises(FetchError, match="more than 134217728 bytes"):
        decoded(complete(data), 4, check_crcs=False)


WINDOW_BITS = [10, 17, 21, 27]


@pytest.mark.parametrize("window_bits", WINDOW_BITS)
@pytest.mark.parametrize("size", [10, 1024, 1025, 100_000])
def test_a_zstd_frame_takes_no_more_memory_than_comes_out_of_it_whatever_window_it_asks_for(window_bits, size):
    records = [Written(5, None, b"v" * size, 7)]
    data = batch(records)
    frame = zstd_frame(data[61:], window_bits=max(window_bits, size.bit_length()))
    with memory_for(32_000_000):
        if window_bits == WINDOW_BITS[-1]:
            with pytest.raises(cramjam.DecompressionError, match="memory"):
                cramjam.zstd.decompress(frame)
        columns = decoded(complete(with_byte(data, 22, 4)[:61] + frame), check_crcs=False)
    assert [m.value() for m in columns.messages()] == [b"v" * size]


def test_a_zstd_frame_that_refers_far_back_keeps_the_window_that_it_needs():
    noise = random.Random(1).randbytes(1_500_000)
    records = [Written(5, None, noise + noise, 7)]
    inside = batch(records)[61:]
    compressor = cramjam.zstd.Compressor(level=19)  # does not know the size of the content: a window, and no size
    compressor.compress(inside)
    frame = bytes(compressor.finish())
    assert frame[4] >> 5 == 0
    assert len(frame) < 1_600_000
    columns = decoded(complete(with_byte(batch(ONE), 22, 4)[:61] + frame), check_crcs=False)
    assert [m.value() for m in columns.messages()] == [noise + noise]


def test_a_zstd_frame_that_promises_more_than_its_blocks_hold_takes_no_memory_for_it():
    data = with_byte(batch(ONE), 22, 4)[:61] + zstd_frame(INSIDE, promised=100_000_000)
    with pytest.raises(CorruptRecordsError, match="zstd: 100000000 bytes cannot come out of blocks that hold"):
        decoded(complete(data), 4, check_crcs=False)


@pytest.mark.parametrize("case", ["gzip-bomb", "snappy-bomb", "snappy-that-promises-too-much", "count-too-large"])
def test_memory_is_bounded_by_the_limit(case):
    data = TOO_LARGE[case] if case in TOO_LARGE else DAMAGED[case][0]
    tracemalloc.start()
    try:
        with pytest.raises(FetchError):
            decoded(complete(data), 4, check_crcs=False, max_batch_bytes=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000 + 2 * len(data)


def test_damage_that_is_not_looked_at_is_not_found():
    assert [m.value() for m in decoded(batch(ONE, crc=1), check_crcs=False).messages()] == [b"v"]
    assert [m.value() for m in decoded(batch(ONE, crc=1) + batch([Written(6, None, b"w")]), 6).messages()] == [b"w"]


def test_a_message_behind_others_that_is_damaged_leaves_them():
    run = messages([Written(n, None, b"%d" % n) for n in range(5, 9)], 1)
    for bad in (message(Written(9, None, b"x"), 1, crc=0), message(Written(9, None, b"x"), 1)[:-2] + b"yy"):
        columns = decoded(run + bad + message(Written(10), 1))
        assert [m.offset() for m in columns.messages()] == [5, 6, 7, 8]
        assert (columns.next_offset, columns.has_more) == (9, True)


def test_an_old_client_s_lz4_checksum_is_forgiven_in_old_formats_only():
    frame = with_broken_checksum(bytes(cramjam.lz4.compress(messages([Written(0, b"k", b"v", 7)], 0))))
    assert [row[4] for row in rows_of(decoded(wrapped(3, frame, 0), 5))] == []
    assert decoded(wrapped(3, frame, 0)).next_offset == 6


def test_an_abort_marker_that_cannot_be_read_is_an_error():
    bad = batch([Written(6, b"k", b"", 1)], producer_id=1, is_transactional=True, is_control=True)
    with pytest.raises(CorruptRecordsError, match="control batch"):
        decoded(bad, 6, read_committed=True, aborted=[(1, 0)])
    assert decoded(bad, 6).next_offset == 7


def test_gzip_in_several_members_is_one():
    data = messages([Written(0, b"k", b"v", 7), Written(1, None, b"w", 8)], 1)
    value = gzip.compress(data[:20]) + gzip.compress(data[20:]) + b"\0\0garbage"
    outer = message(Written(1, None, value, 7, (), 1), 1)
    assert [row[4] for row in rows_of(decoded(outer))] == [b"v", b"w"]
    assert zlib.crc32(b"") == 0


@pytest.mark.parametrize("records", [ONE, LONG], ids=["short", "long"])
def test_damage_is_found_up_to_the_last_offset_of_a_batch(records):
    for data in (batch(records, crc=1), message(records[0], 1, crc=1)):
        with pytest.raises(CorruptRecordsError, match="offset 5 are corrupt: a CRC"):
            decoded(data, 5)
        assert decoded(data, 6).next_offset == 6
