"""The interface of the native decoder, and its verdicts on damaged bytes, which must not change unnoticed."""

import random
import resource
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import legacy_consumer_native as native
import numpy as np
import pyarrow as pa
import pytest

from legacy_consumer.fetching.columnar.records.columns import ALL_COLUMNS
from tests.support.plain_sets import HEADERS, LONG, NEED_MORE, PLAIN, signed
from tests.support.record_encoder import Written, batch, crc32c, message, wrapper
from tests.support.record_reader import read
from tests.support.record_sets import FOLDER, decoded, recorded

ROOT = Path(__file__).parents[6]
RECORDED = recorded()
SMALL = [recording for recording in RECORDED if len(recording.data) < 4000]
LIMIT = 1 << 20
VERDICTS = FOLDER.parent / "damaged_record_sets.txt"
MADE = {
    "headers": batch([Written(0, b"k", b"v", 1, HEADERS), Written(1, None, None, 2)]),
    "long": LONG,
    "plain": PLAIN,
    "linked xerial": batch([Written(n, b"k", b"v" * 300, n) for n in range(300)], "snappy", framing="xerial"),
    "wrapper": wrapper([Written(n, b"k", b"v", n) for n in range(5)], 1, "gzip", append_time=77),
    **NEED_MORE,
}


def messages_of(columns):
    messages = native.MessageIterator([(columns, "t", 3)])
    messages.allow(len(columns))
    return list(messages)


def native_rows(columns):
    return [(m.offset(), *m.timestamp(), m.key(), m.value(), m.headers()) for m in messages_of(columns)]


def ends(columns):
    return columns.next_offset, columns.has_more, columns.incomplete_size


def by_native(data, position, *, read_committed=False, aborted=(), **options):
    """Return the rows, next offset, has_more and incomplete size; or "damaged", or "too large"."""
    try:
        columns = native.decode(data, position, aborted=list(aborted) if read_committed else None, **options)
    except native.DamagedRecordsError:
        return "damaged"
    except native.TooLargeError:
        return "too large"
    return native_rows(columns), *ends(columns)


def to_the_end(data, max_records):
    """Decode at most max_records at a time. Returns: all rows, and the last call's end or verdict."""
    rows, position = [], 0
    while not isinstance(step := by_native(data, position, max_records=max_records), str):
        assert len(step[0]) <= max_records
        rows += step[0]
        if not step[2]:
            return rows, step[1:]
        assert step[1] > position
        position = step[1]
    return rows, step


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("max_records", [1, 3, 1 << 20])
def test_made_sets_are_read_as_they_were_written(name, max_records):
    data = MADE[name] if max_records > 1 else MADE[name][:9000]
    rows, next_offset = read(data)
    found, (end, has_more, _) = to_the_end(data, max_records)
    assert (found, end, has_more) == (rows, next_offset, False)


@pytest.mark.parametrize("recording", RECORDED[::5], ids=lambda recording: recording.name)
def test_the_heads_say_where_a_partition_goes_on(recording):
    for cut in (*range(0, len(recording.data), max(7, len(recording.data) // 25)), len(recording.data)):
        columns = decoded(recording.data[:cut])
        assert native.glance(recording.data[:cut], 0) == (columns.next_offset, columns.incomplete_size or 0)


def damaged(data, rng):
    made = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(made)) if made else 0
        match rng.randrange(6):
            case 0:
                made[at : at + 1] = rng.randbytes(1)
            case 1:
                made[at : at + 4] = struct.pack(">i", rng.choice([-1, 0, 1, 2**31 - 1, -(2**31), 127, 300]))
            case 2:
                made[at : at + 2] = rng.choice([b"\xff\xff", b"\xff\x0f", b"\x80\x01", b"\1\0"])
            case 3:
                del made[at : at + rng.randint(1, 30)]
            case 4:
                made[at:at] = made[at : at + rng.randint(1, 60)]
            case _:
                made[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(made)


def verdicts():
    """Yield, for each of many damaged sets, "damaged", "too large", or a checksum of by_native()'s result."""
    rng = random.Random(23)
    for _ in range(1500):
        recording = rng.choice(SMALL)
        data = damaged(recording.data, rng)
        data = signed(data) if rng.random() < 0.7 else data
        options = {"check_crcs": rng.random() < 0.5, "max_batch_bytes": LIMIT}
        if rng.random() < 0.5:
            options |= {"read_committed": True, "aborted": [(n, 0) for n in range(4)]}
        found = by_native(data, 0, **options)
        yield found if isinstance(found, str) else f"{zlib.crc32(repr(found).encode()):08x}"


def test_damaged_sets_end_as_they_did_when_another_decoder_said_the_same():
    wanted = VERDICTS.read_text().split("\n")
    assert {"damaged", *wanted} != {"damaged"}
    assert list(verdicts()) == wanted


def record_batch(columns, names):
    return pa.record_batch(columns.arrow(names, "t", 3))


@pytest.mark.parametrize("recording", RECORDED[::7], ids=lambda recording: recording.name)
def test_arrow_takes_slices_of_the_columns(recording):
    columns = native.decode(recording.data, 0)
    whole = record_batch(columns, list(ALL_COLUMNS))
    whole.validate(full=True)
    for start, stop in ((0, 0), (3, 12), (9, len(columns)), (5, 6)):
        part = record_batch(columns.slice(start, stop), list(ALL_COLUMNS))
        part.validate(full=True)
        assert part.equals(whole.slice(start, stop - start))
    assert record_batch(columns, ["offset"]).schema.names == ["offset"]


def test_arrow_is_given_the_memory_itself_and_keeps_it():
    columns = native.decode(LONG, 0)
    first, second = (record_batch(columns, ["value", "offset"]) for _ in range(2))
    buffers = [[buffer and buffer.address for buffer in column.buffers()] for column in first.columns]
    assert buffers == [[buffer and buffer.address for buffer in column.buffers()] for column in second.columns]
    wanted = [message.value() for message in messages_of(columns)]
    del columns, second
    assert first.column(0).to_pylist() == wanted


def test_capsules_that_nobody_takes_over_are_freed():
    columns = native.decode(MADE["headers"], 0)
    for _ in range(100):
        columns.arrow(list(ALL_COLUMNS), "t", 3).__arrow_c_array__()
        columns.arrow(list(ALL_COLUMNS), "t", 3).__arrow_c_schema__()


def test_wrong_arguments_are_errors():
    columns = native.decode(PLAIN, 0)
    for row in (len(columns), 2**40):
        with pytest.raises(IndexError, match="no record"):
            columns.offset(row)
    assert len(columns.slice(5, 2)) == 0
    assert len(columns.slice(2**40, 2**41)) == 0
    with pytest.raises(ValueError, match="no column"):
        columns.arrow(["unheard-of"], "t", 3)
    for wrong in (None, "text", 5, memoryview(bytes(10))[::2]):
        with pytest.raises((TypeError, BufferError)):
            native.decode(wrong, 0)


def test_every_kind_of_bytes_is_read_and_let_go():
    plain = native_rows(native.decode(PLAIN, 0))
    for kind in (bytearray, memoryview, lambda data: memoryview(b"x" + data + b"x")[1:-1]):
        assert native_rows(native.decode(kind(PLAIN), 0)) == plain
    resizable = bytearray(PLAIN)
    native.decode(resizable, 0)
    resizable += b"x"  # raises BufferError while another object holds its buffer


def test_a_checksum_is_that_of_the_slow_code():
    for size in (0, 1, 7, 8, 9, 1000, 5000):
        data = random.Random(size).randbytes(size)
        assert native.crc32c(data) == crc32c(data)


def test_other_threads_run_while_a_set_is_decoded():
    large = batch([Written(n, None, b"v" * 1000, n) for n in range(1000)], "gzip")
    ended = threading.Event()
    threads = [threading.Thread(target=lambda: (native.decode(large, 0), ended.set())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert ended.is_set()


def test_more_than_is_allowed_is_told_from_damage():
    bomb = batch([Written(0, None, bytes(3 << 20), 0)], "gzip")
    with pytest.raises(native.TooLargeError, match="holds more than 1048576 bytes"):
        native.decode(bomb, 0, max_batch_bytes=LIMIT)
    assert len(native.decode(bomb, 0)) == 1
    both = message(Written(0, None, b"v", 1), 1) + wrapper([Written(1, None, bytes(3 << 20), 1)], 1, "gzip")
    sound = native.decode(both, 0, max_batch_bytes=LIMIT)
    assert (len(sound), sound.next_offset, sound.has_more) == (1, 1, True)


FORKS = """
import os, threading
import legacy_consumer_native as native
from tests.support.plain_sets import LONG


def values():
    messages = native.MessageIterator([(columns := native.decode(LONG, 0), "t", 3)])
    messages.allow(len(columns))
    return [message.value() for message in messages]

wanted = values()
ended = threading.Event()

def decode():
    while not ended.is_set():
        native.decode(LONG, 0)

threads = [threading.Thread(target=decode) for _ in range(2)]
for thread in threads:
    thread.start()
codes = []
for _ in range(10):
    child = os.fork()
    if not child:
        os._exit(values() != wanted)
    codes.append(os.waitpid(child, 0)[1])
ended.set()
print(codes)
"""


def test_children_decode_that_are_forked_while_other_threads_decode():
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout.strip(), ran.stderr) == (str([0] * 10), "")


def test_messages_come_without_pyarrow_and_numpy():
    """The two modules take 40 MB of memory, and a tenth of a second of each start."""
    program = f"""
import sys
from legacy_consumer.fetching.columnar import ColumnarFetchers
from legacy_consumer.fetching.columnar.records import decode_records
from zk_layout.model import TopicPartition
columns = decode_records({MADE["plain"]!r}, TopicPartition("t", 3), 0)
print(len(columns.messages()), *({{"pyarrow", "numpy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout.split(), done.stderr) == ([str(len(decoded(MADE["plain"])))], "")


def test_a_buffer_has_the_size_that_was_asked_for_and_can_be_written():
    for size in (0, 1, 1 << 20):
        made = native.buffer(size)
        made[:] = bytes(size)
        assert made == bytes(size)
    with pytest.raises(MemoryError):
        native.buffer(sys.maxsize - 1)
    with pytest.raises(OverflowError):
        native.buffer(-1)


NO_MEMORY = """
import sys
import legacy_consumer_native as native
for size in (sys.maxsize - 1, 1 << 50):
    for filled in (1, 2, 3):
        freed = [bytes([filled]) * (sys.getsizeof(bytearray()) - sys.getsizeof(b"")) for _ in range(1000)]
        del freed
        try:
            native.buffer(size)
        except MemoryError:
            print("none")
"""


def test_no_memory_for_a_buffer_is_an_error_and_nothing_else():
    """In an earlier version, CPython also reported an error of a bytearray that it had not set up."""
    ran = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout.split(), ran.stderr) == (["none"] * 6, "")


BIG = 1 << 20


@pytest.mark.parametrize("then", [BIG - 1, BIG, BIG + 1, 2 * BIG, 10])
@pytest.mark.parametrize("read_by", ["view", "slice", "array", "decoder"])
def test_a_buffer_that_is_read_is_not_handed_out_again_whatever_the_sizes(read_by, then):
    data = (MADE["plain"] + bytes(BIG))[:BIG]
    first = native.buffer(BIG)
    first[:] = data
    if read_by == "decoder":
        reader = native.decode_ahead(first, 0)
    else:
        reader = {"view": memoryview, "slice": lambda made: made[5:], "array": np.asarray}[read_by](first)
    del first
    for _ in range(4):
        native.buffer(then)[:] = bytes([2]) * then
    if read_by == "decoder":
        assert len(reader.result()) == len(decoded(MADE["plain"]))
    else:
        assert bytes(reader) == (data[5:] if read_by == "slice" else data)


def test_a_buffer_that_nobody_reads_any_more_is_used_again():
    def where(size):
        return np.asarray(native.buffer(size)).ctypes.data

    assert where(BIG) == where(BIG) == where(BIG - 1)
    alive = [native.buffer(BIG) for _ in range(4)]
    assert len({np.asarray(one).ctypes.data for one in alive}) == 4


@pytest.mark.parametrize("sizes", [(4 * BIG, 4 * BIG), (4 * BIG, BIG // 10), (4 * BIG, BIG, 1 << 16), (BIG, 3 * BIG)])
def test_buffers_of_other_sizes_do_not_cost_the_memory_of_large_ones(sizes):
    def touched_pages():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    responses = [bytes([1]) * size for size in sizes]
    for turn in range(22):
        if turn == 2:
            before = touched_pages()
        for response in responses:
            native.buffer(len(response))[:] = response
    assert (touched_pages() - before) * resource.getpagesize() < sum(sizes), "a twentieth of what was written"


def test_records_decoded_into_memory_of_others_are_the_same_as_elsewhere():
    sizes = {"small": 3, "large": 5000}
    kinds = {
        "no keys": lambda n: Written(n, None, b"v%d" % n * 9),
        "no values": lambda n: Written(n, b"k%d" % n, None),
        "some keys": lambda n: Written(n, b"k" if n % 3 else None, b"v" * (n % 50)),
        "headers": lambda n: Written(n, b"", b"v", headers=((f"h{n}", b"x" * 30),) if n % 2 else ()),
    }
    written = {(size, kind): [make(n) for n in range(sizes[size])] for size in sizes for kind, make in kinds.items()}
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    sets = [(batch(records, codec), records) for records in written.values() for codec in codecs]
    for seed in range(3):
        random.Random(seed).shuffle(sets)
        for data, records in sets:
            told = messages_of(native.decode(data, 0))
            assert [(m.offset(), m.key(), m.value()) for m in told] == [(r.offset, r.key, r.value) for r in records]
            assert [tuple(m.headers() or ()) for m in told] == [r.headers for r in records]
