"""arrow_batches(): the same gate, positions and commits as for messages, over columns and over message objects."""

import pyarrow as pa
import pytest

from legacy_consumer.errors import ConsumerTimeoutError
from legacy_consumer.fetching.arrow_batches import COLUMNS, HEADERS, LazyMessages, record_batch
from legacy_consumer.fetching.columnar.batch import ColumnarBatch
from legacy_consumer.fetching.columnar.records import decode_records
from legacy_consumer.member.gate import Pause
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets.progress import Committed, Progress
from tests.support.column_fetcher import ColumnFetcher
from tests.support.fake_kafka import FakeFetcher, FakeKafka
from tests.support.group_members import FakeClock
from tests.support.scripted_broker import message
from zk_layout.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("u", 1)


class TickingClock(FakeClock):
    def monotonic(self):
        self.now += 0.01
        return self.now


@pytest.fixture(params=[FakeFetcher, ColumnFetcher], ids=["objects", "columns"])
def rig(request):
    return Rig(request.param)


class Rig:
    def __init__(self, fetcher):
        self.kafka = FakeKafka()
        self.progress = Progress()
        self.drained = []
        self.stream = GatedStream(
            fetcher=fetcher(self.kafka),
            progress=self.progress,
            clock=TickingClock(),
            consumer_timeout_ms=200,
            at_next=False,
            on_drained=lambda: self.drained.append(True),
        )

    def begin(self, *partitions, produced=10):
        for tp in partitions:
            self.kafka.produce(tp, produced)
            epoch = self.progress.begin(tp, 0, Committed(None, None))
            self.stream.begin({tp: 0}, {tp: epoch})

    def consumed(self, tp):
        self.stream.note_progress()
        return self.progress.get(tp).consumed


def rows(batch):
    return list(zip(*(batch.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True))


TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.dictionary(pa.int8(), pa.string()),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def take(batches, count):
    got = []
    while len(got) < count:
        got += rows(next(batches))
    return got


def test_all_messages_come_with_their_columns(rig):
    rig.begin(P0)
    batch = next(rig.stream.arrow_batches())
    assert batch.schema.names == list(COLUMNS)
    assert batch.schema.types == [TYPES[name] for name in COLUMNS]
    assert rows(batch) == [("t", 0, number) for number in range(10)]
    assert batch.column("value").to_pylist() == [b"t/0@%d" % number for number in range(10)]
    assert batch.column("key").null_count == batch.column("timestamp").null_count == 10
    assert batch.column("timestampType").to_pylist() == [0] * 10


def test_a_batch_counts_as_consumed_when_the_thread_comes_back(rig):
    rig.begin(P0)
    batches = rig.stream.arrow_batches(max_messages=4)
    assert rows(next(batches))[-1] == ("t", 0, 3)
    assert rig.consumed(P0) == 0
    assert rows(next(batches))[-1] == ("t", 0, 7)
    assert rig.consumed(P0) == 4
    rig.stream.come_back()
    assert rig.consumed(P0) == 8


def test_small_runs_of_several_partitions_make_one_batch(rig):
    rig.begin(P0, P1)
    batches = rig.stream.arrow_batches()
    assert sorted(take(batches, 20)) == [("t", 0, n) for n in range(10)] + [("u", 1, n) for n in range(10)]


def test_a_partition_that_is_stopped_comes_no_more_and_is_drained_when_the_thread_is_back(rig):
    rig.begin(P0, P1)
    batches = rig.stream.arrow_batches(max_messages=4)
    got = rows(next(batches))
    mine = TopicPartition(*got[0][:2])
    rig.stream.stop([mine])
    assert rig.stream.undrained([mine]) == {mine}
    assert not rig.drained
    rest = take(batches, 10)
    assert rig.drained
    assert {row[:2] for row in rest} == {({"t": "u", "u": "t"}[mine.topic], 1 - mine.partition)}


def test_nothing_is_handed_out_while_paused(rig):
    rig.begin(P0)
    batches = rig.stream.arrow_batches(max_messages=4, timeout=0.05)
    assert len(next(batches)) == 4
    rig.stream.pause(Pause.SUSPENDED)
    empty = next(batches)
    assert (len(empty), empty.schema.names) == (0, list(COLUMNS))
    rig.stream.resume(Pause.SUSPENDED)
    assert rows(next(batches))[0] == ("t", 0, 4)


def test_batches_iteration_and_arrow_take_turns_without_losing_their_place(rig):
    rig.begin(P0, produced=40)
    seen = rows(next(rig.stream.arrow_batches(max_messages=7)))
    seen += [(m.topic(), m.partition(), m.offset()) for _, m in zip(range(5), rig.stream, strict=False)]
    seen += rows(next(rig.stream.arrow_batches(max_messages=6)))
    seen += [(m.topic(), m.partition(), m.offset()) for m in next(rig.stream.batches(4))]
    assert seen == [("t", 0, number) for number in range(22)]
    rig.stream.come_back()
    assert rig.consumed(P0) == 22


@pytest.mark.parametrize("size", [1, 3, 10, 13])
def test_batches_that_a_poll_is_parted_into_count_one_after_the_other(rig, size):
    rig.begin(P0, P1)
    batches = rig.stream.batches(size)
    seen = {P0: [], P1: []}
    while sum(map(len, seen.values())) < 20:
        batch = next(batches)
        assert 1 <= len(batch) <= size
        assert [rig.consumed(tp) for tp in seen] == [len(offsets) for offsets in seen.values()]
        for one in batch:
            seen[TopicPartition(one.topic(), one.partition())].append(one.offset())
    assert seen == {P0: list(range(10)), P1: list(range(10))}


@pytest.mark.parametrize("handed_out", [1, 5])
def test_the_rest_of_a_poll_comes_without_a_partition_that_was_stopped(rig, handed_out):
    rig.begin(P0, P1)
    batches = rig.stream.batches(2)
    first = [(m.topic(), m.offset()) for _ in range(handed_out) for m in next(batches)]
    stopped, other = (P0, P1) if first[-1][0] == P0.topic else (P1, P0)
    rig.stream.stop([stopped])
    got = [one for one in first if one[0] == other.topic]
    while len(got) < 10:
        got += [(m.topic(), m.offset()) for m in next(batches)]
    assert got == [(other.topic, offset) for offset in range(10)]


def test_without_messages_in_time_it_is_an_error_unless_a_timeout_is_given(rig):
    rig.begin(P0, produced=0)
    with pytest.raises(ConsumerTimeoutError):
        next(rig.stream.arrow_batches())
    assert len(next(rig.stream.arrow_batches(timeout=0.05))) == 0


def test_wanted_columns_come_alone_and_unknown_ones_are_refused(rig):
    rig.begin(P0)
    assert next(rig.stream.arrow_batches(columns=["offset", "value"])).schema.names == ["value", "offset"]
    with pytest.raises(ValueError, match="no column 'ofset': there are key, value"):
        next(rig.stream.arrow_batches(columns=["ofset"]))
    with pytest.raises(ValueError, match="max_messages must be at least 1"):
        next(rig.stream.arrow_batches(0))


class Message:
    def __init__(self, tp, offset, key, value, timestamp, headers):
        self._all = (tp, offset, key, value, timestamp, headers)

    topic = property(lambda self: lambda: self._all[0].topic)
    partition = property(lambda self: lambda: self._all[0].partition)
    offset = property(lambda self: lambda: self._all[1])
    key = property(lambda self: lambda: self._all[2])
    value = property(lambda self: lambda: self._all[3])
    timestamp = property(lambda self: lambda: self._all[4])
    headers = property(lambda self: lambda: self._all[5])


def test_objects_become_the_same_columns_with_nulls_and_headers():
    messages = [
        Message(P0, 5, None, b"", (1, 1_500_000_000_000), [("a", b"1"), ("b", None)]),
        Message(P1, 6, b"k", None, (0, -1), None),
        Message(P0, 7, b"key", b"value", (2, 7), None),
    ]
    batch = record_batch(messages, (*COLUMNS, HEADERS))
    batch.validate(full=True)
    assert dict(zip(batch.schema.names, batch.schema.types, strict=True)) == TYPES
    assert batch.column("key").to_pylist() == [None, b"k", b"key"]
    assert batch.column("value").to_pylist() == [b"", None, b"value"]
    assert batch.column("topic").to_pylist() == ["t", "u", "t"]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1_500_000_000_000, None, 7]
    assert batch.column(HEADERS).to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, None]


def test_lazy_messages_are_a_sequence_like_any_other():
    columns = decode_records(b"".join(message(n, b"%d" % n) for n in range(6)), P0, 0)
    lazy = LazyMessages(ColumnarBatch([columns.slice(0, 2), columns.slice(2, 6)]))
    assert [message.value() for message in lazy] == [b"%d" % n for n in range(6)]
    assert [message.offset() for message in lazy[1:4]] == [1, 2, 3]
    assert [message.offset() for message in lazy[::2]] == [0, 2, 4]
    assert (lazy[0].offset(), lazy[3].offset(), lazy[-1].offset(), len(lazy)) == (0, 3, 5, 6)
    with pytest.raises(IndexError):
        lazy[6]
    with pytest.raises(IndexError):
        lazy[-7]
