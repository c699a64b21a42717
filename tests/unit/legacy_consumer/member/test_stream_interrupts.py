"""An exception that strikes the consuming thread at any line: what was not handed out is handed out later, once."""

import contextlib
import gc
import threading

import pyarrow as pa
import pytest

from legacy_consumer.errors import ConsumerTimeoutError
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets.progress import Committed, Progress
from tests.support.at_line import AtLine, PassedLines, interrupt
from tests.support.column_fetcher import ColumnFetcher
from tests.support.fake_kafka import FakeFetcher, FakeKafka
from tests.support.group_members import FakeClock
from zk_layout.model import TopicPartition

TPS = (TopicPartition("t", 0), TopicPartition("u", 1))


class PatientClock(FakeClock):
    """Each look at it takes a little, so that waiting ends."""

    def monotonic(self):
        self.now += 1e-3
        return self.now


class Objects(FakeFetcher):
    """Waits for nothing."""

    def poll(self, max_messages, timeout_s):
        return super().poll(max_messages, 0)


class Columns(ColumnFetcher):
    """Waits for nothing."""

    def poll(self, max_messages, timeout_s):
        return super().poll(max_messages, 0)


class Rig:
    def __init__(self, fetcher, length):
        self.kafka = FakeKafka()
        self.progress = Progress()
        self.stream = GatedStream(
            fetcher=fetcher(self.kafka),
            progress=self.progress,
            clock=PatientClock(),
            consumer_timeout_ms=1,
            at_next=False,
            on_drained=lambda: None,
        )
        for tp in TPS:
            self.kafka.produce(tp, length)
            self.stream.begin({tp: 0}, {tp: self.progress.begin(tp, 0, Committed(None, None))})
        self.got = []

    def iterate(self):
        for message in self.stream:
            self.got.append([message])

    def next(self):
        while True:
            self.got.append([next(self.stream)])

    def batches(self):
        for batch in self.stream.batches(2):
            self.got.append(batch)

    def arrow(self):
        for batch in self.stream.arrow_batches(2):
            self.got.append(batch)

    def mixed(self):
        for message in self.stream:
            self.got.append([message])
            break
        self.got.append(next(self.stream.batches(2)))
        self.got.append([next(self.stream)])
        self.got.append(next(self.stream.arrow_batches(2)))
        self.iterate()

    def seen(self):
        seen = {tp: [] for tp in TPS}
        for batch in self.got:
            if isinstance(batch, pa.RecordBatch):
                rows = zip(*(batch.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
            else:
                rows = [(message.topic(), message.partition(), message.offset()) for message in batch]
            for topic, partition, offset in rows:
                seen[TopicPartition(topic, partition)].append(offset)
        return seen

    def nothing_counts_that_was_not_handed_out(self):
        self.stream.note_progress()
        for tp, offsets in self.seen().items():
            assert offsets == list(range(len(offsets)))
            assert self.progress.get(tp).consumed <= len(offsets)


# Python drops what is raised while it ends a generator that the user has left
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fetcher", [Objects, Columns], ids=["objects", "columns"])
@pytest.mark.parametrize("way", ["iterate", "next", "batches", "arrow", "mixed"])
def test_whatever_line_is_interrupted_each_message_is_handed_out_once_and_none_counts_before(fetcher, way):
    # as few messages as show each way begin, go on and end: what this costs grows with the square
    length = 3 if way == "mixed" else 2
    with PassedLines() as passed, contextlib.suppress(ConsumerTimeoutError):
        getattr(Rig(fetcher, length), way)()
    for line in passed.first_times(2):
        rig = Rig(fetcher, length)
        strike = AtLine(line, interrupt)
        for _ in range(3):
            try:
                with strike:
                    getattr(rig, way)()
            except KeyboardInterrupt:
                rig.nothing_counts_that_was_not_handed_out()
            except ConsumerTimeoutError:
                break
        assert rig.seen() == {tp: list(range(length)) for tp in TPS}, f"interrupted at line {line}"
        rig.nothing_counts_that_was_not_handed_out()
        assert [rig.progress.get(tp).consumed for tp in TPS] == [length, length]
        if not strike.struck:
            break
    assert line > 100, "the library's lines were not seen"
    gc.collect()  # what is dropped is this test's


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_whatever_line_ends_a_thread_its_successor_is_given_the_rest():
    with PassedLines() as passed, contextlib.suppress(ConsumerTimeoutError):
        Rig(Objects, 2).next()
    for line in passed.first_times(1):
        rig = Rig(Objects, 2)
        strike = AtLine(line, interrupt)

        def consume_until_struck(rig=rig, strike=strike):
            with contextlib.suppress(KeyboardInterrupt, ConsumerTimeoutError), strike:
                rig.next()

        thread = threading.Thread(target=consume_until_struck)
        thread.start()
        thread.join()
        with pytest.raises(ConsumerTimeoutError):
            rig.next()
        assert rig.seen() == {tp: [0, 1] for tp in TPS}, f"ended at line {line}"
        if not strike.struck:
            break
    assert line > 100, "the library's lines were not seen"
    gc.collect()  # what is dropped is this test's
