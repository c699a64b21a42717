"""An exception interrupts the consuming thread at any line: each message is still handed out, once."""

import contextlib
import ctypes
import gc
import itertools
import operator
import threading
from functools import partial

import pyarrow as pa
import pytest

from legacy_consumer.errors import ConsumerTimeoutError
from legacy_consumer.fetching.message_iterator import ListIterator
from legacy_consumer.member.interrupted_calls import refuse_inside
from legacy_consumer.member.kafka_stream import KafkaStream
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets.progress import Committed, Progress
from tests.support.at_line import AfterCall, AtLine, PassedLines, interrupt
from tests.support.column_fetcher import ColumnFetcher
from tests.support.fake_kafka import FakeFetcher, FakeKafka
from tests.support.group_members import FakeClock
from zk_layout.model import TopicPartition

TPS = (TopicPartition("t", 0), TopicPartition("u", 1))


class PatientClock(FakeClock):
    """A clock that advances a little at each look, so that waits end."""

    def monotonic(self):
        self.now += 1e-3
        return self.now


class Objects(FakeFetcher):
    """A fetcher that never waits for messages."""

    def poll(self, max_messages, timeout_s):
        return super().poll(max_messages, 0)


class Columns(ColumnFetcher):
    """A fetcher that never waits for messages."""

    def poll(self, max_messages, timeout_s):
        return super().poll(max_messages, 0)


class Rig:
    def __init__(self, fetcher, length, *, acknowledged=False):
        self.told_drained = []
        self.kafka = FakeKafka()
        self.progress = Progress()
        self.stream = GatedStream(
            fetcher=fetcher(self.kafka),
            progress=self.progress,
            clock=PatientClock(),
            consumer_timeout_ms=1,
            at_next=False,
            on_drained=lambda: self.told_drained.append(True),
            acknowledged=acknowledged,
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


# Python drops an exception that is raised while it closes a generator that nothing refers to any more
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fetcher", [Objects, Columns], ids=["objects", "columns"])
@pytest.mark.parametrize("way", ["iterate", "next", "batches", "arrow", "mixed"])
def test_an_interrupt_at_any_line_hands_out_each_message_once_and_none_counts_before(fetcher, way):
    # few messages, but enough for the begin, middle and end of each way: the cost grows with the square
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
    gc.collect()  # so that this test, and no later one, gets the dropped exceptions


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_thread_that_ends_at_any_line_leaves_the_rest_to_its_successor():
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
    gc.collect()  # so that this test, and no later one, gets the dropped exceptions


@pytest.fixture
def ctrl_c_with_each_message(monkeypatch):
    """Send SIGINT as each message leaves its iterator; the interpreter raises where it checks for signals next."""
    arrive = ctypes.pythonapi.PyErr_SetInterrupt
    monkeypatch.setattr(arrive, "restype", None)

    def leave(iterator):
        messages = map(operator.getitem, iterator._allowed, iterator._numbers)
        return map(operator.itemgetter(0), zip(messages, iter(arrive, "never"), strict=False))

    with monkeypatch.context() as patch:
        patch.setattr(ListIterator, "__iter__", leave)
        yield patch.undo


@pytest.mark.parametrize("way", [iter, GatedStream.batches, GatedStream.arrow_batches])
def test_a_loop_has_what_was_handed_out_when_an_interrupt_strikes_as_it_is_handed_out(way, ctrl_c_with_each_message):
    rig = Rig(Objects, 2)
    with pytest.raises(KeyboardInterrupt):
        for handed_out in way(rig.stream):  # noqa: B007 - it is read behind the loop
            pass
    rig.got.append([handed_out] if way is iter else handed_out)
    ctrl_c_with_each_message()
    with pytest.raises(ConsumerTimeoutError):
        rig.iterate()
    assert rig.seen() == {tp: [0, 1] for tp in TPS}


def test_no_commit_passes_a_message_that_an_interrupt_took_from_next_if_messages_are_acknowledged(
    ctrl_c_with_each_message,
):
    rig = Rig(Objects, 3, acknowledged=True)
    with pytest.raises(KeyboardInterrupt):
        next(rig.stream)
    ctrl_c_with_each_message()
    message = next(rig.stream)
    assert message.offset() == 1, "the first one counts as handed out"
    rig.stream.acknowledge(TPS[0], message.offset())
    assert rig.progress.get(TPS[0]).consumed == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", ["iterate", "next", "batches"])
def test_a_thread_that_is_interrupted_and_lives_on_leaves_the_rest_to_another(way):
    for call in itertools.count():
        rig = Rig(Objects, 2)
        strike = AfterCall(call, interrupt)
        with contextlib.suppress(KeyboardInterrupt, ConsumerTimeoutError), strike:
            getattr(rig, way)()
        errors = []

        def go_on(rig=rig, errors=errors):
            try:
                rig.iterate()
            except Exception as raised:
                errors.append(raised)

        thread = threading.Thread(target=go_on)
        thread.start()
        thread.join()
        assert [type(error) for error in errors] == [ConsumerTimeoutError], f"interrupted after call {call}"
        if not strike.struck:
            break
    assert call > 100, "the library's calls were not seen"
    gc.collect()  # so that this test, and no later one, gets the dropped exceptions


def all_of(stream):
    """Take messages until none comes. Returns: {partition: offsets}."""
    came = {tp: [] for tp in TPS}
    with contextlib.suppress(ConsumerTimeoutError):
        for message in stream:
            came[TopicPartition(message.topic(), message.partition())].append(message.offset())
    return came


@pytest.mark.parametrize("offset", [0, 4], ids=["back", "forth"])
@pytest.mark.parametrize("inside", [False, True], ids=["between loops", "inside a loop"])
@pytest.mark.parametrize("fetcher", [Objects, Columns], ids=["objects", "columns"])
def test_a_seek_interrupted_at_any_line_is_done_or_not_done(fetcher, inside, offset):
    for line in itertools.count():
        rig = Rig(fetcher, 6)
        # the stream has handed out messages of both partitions, and has fetched more
        loop = iter(rig.stream)
        taken = [next(loop) for _ in range(8)]
        ahead = {tp: sum(message.topic() == tp.topic for message in taken) for tp in TPS}
        strike = AtLine(line, interrupt)
        with contextlib.suppress(KeyboardInterrupt), strike:
            rig.stream.seek(TPS[0], offset)
        position = rig.stream.position(TPS[0])
        assert position in ((offset, ahead[TPS[0]]) if strike.struck else (offset,)), f"interrupted at line {line}"
        came = all_of(loop if inside else rig.stream)
        assert came == {TPS[0]: list(range(position, 6)), TPS[1]: list(range(ahead[TPS[1]], 6))}
        rig.stream.note_progress()
        assert [rig.progress.get(tp).consumed for tp in TPS] == [6, 6]
        rig.stream.seek(TPS[0], 5)
        assert all_of(rig.stream)[TPS[0]] == [5]
        if not strike.struck:
            break
    assert line > 20, "the library's lines were not seen"


@pytest.mark.parametrize("inside", [False, True], ids=["between loops", "inside a loop"])
@pytest.mark.parametrize("what", ["pause", "resume"])
@pytest.mark.parametrize("fetcher", [Objects, Columns], ids=["objects", "columns"])
def test_a_pause_or_resume_interrupted_at_any_line_is_done_or_not_done(fetcher, what, inside):
    for line in itertools.count():
        rig = Rig(fetcher, 4)
        loop = iter(rig.stream)
        next(loop)
        if what == "resume":
            rig.stream.pause_partitions([TPS[0]])
        strike = AtLine(line, interrupt)
        with contextlib.suppress(KeyboardInterrupt), strike:
            getattr(rig.stream, f"{what}_partitions")([TPS[0]])
        is_paused = TPS[0] in rig.stream.paused()
        assert strike.struck or is_paused == (what == "pause")
        came = all_of(loop if inside else rig.stream)
        assert came == {TPS[0]: [] if is_paused else [1, 2, 3], TPS[1]: [0, 1, 2, 3]}, f"interrupted at line {line}"
        rig.stream.resume_partitions([TPS[0]])
        assert all_of(rig.stream)[TPS[0]] == ([1, 2, 3] if is_paused else [])
        if not strike.struck:
            break
    assert line > 20, "the library's lines were not seen"


class WaitingClock(PatientClock):
    """Counts waits for an event that is already set: with a real clock they return at once, and keep a CPU busy."""

    def __init__(self):
        super().__init__()
        self.busy = 0

    def wait(self, event, timeout_s):
        self.busy += event.is_set()
        return super().wait(event, timeout_s)


@pytest.mark.parametrize("inside", [False, True], ids=["between loops", "inside a loop"])
@pytest.mark.parametrize("what", ["pause", "resume"])
def test_a_pause_or_resume_of_a_stream_interrupted_at_any_line_is_done_or_not_done(what, inside):
    for line in itertools.count():
        rig = Rig(Objects, 4)
        rig.stream._clock = clock = WaitingClock()
        face = KafkaStream(rig.stream, partial(refuse_inside, rig.stream))
        loop = iter(rig.stream)
        next(loop)
        if what == "resume":
            face.pause()
        strike = AtLine(line, interrupt)
        with contextlib.suppress(KeyboardInterrupt), strike:
            getattr(face, what)()
        is_paused = bool(rig.stream.paused())
        assert strike.struck or is_paused == (what == "pause")
        came = all_of(loop if inside else rig.stream)
        rest, nothing = {TPS[0]: [1, 2, 3], TPS[1]: [0, 1, 2, 3]}, {tp: [] for tp in TPS}
        assert came == (nothing if is_paused else rest), f"interrupted at line {line}"
        assert clock.busy == 0, f"interrupted at line {line}"
        face.resume()
        assert all_of(rig.stream) == (rest if is_paused else nothing)
        if not strike.struck:
            break
    assert line > 20, "the library's lines were not seen"


def test_an_acknowledgement_interrupted_at_any_line_is_done_or_can_be_made_again():
    for line in itertools.count():
        rig = Rig(Objects, 3, acknowledged=True)
        all_of(rig.stream)
        rig.stream.acknowledge(TPS[0], 1)
        rig.stream.stop([TPS[0]])
        strike = AtLine(line, interrupt)
        for offset in (0, 2):
            with contextlib.suppress(KeyboardInterrupt), strike:
                rig.stream.acknowledge(TPS[0], offset)
            rig.stream.acknowledge(TPS[0], offset)
        assert rig.stream.undrained([TPS[0]]) == frozenset()
        assert rig.progress.get(TPS[0]).consumed == 3, f"interrupted at line {line}"
        rig.stream.come_back()
        assert rig.told_drained, "the coordinator waits for it"
        if not strike.struck:
            break
    assert line > 20, "the library's lines were not seen"


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_move_back_interrupted_at_any_line_leaves_nothing_done_of_the_log_that_became_shorter(acknowledged):
    """The user has committed all of the old log by name, and acknowledged nothing."""
    tp = TPS[0]
    for line in itertools.count():
        rig = Rig(Objects, 9, acknowledged=acknowledged)
        all_of(rig.stream)
        rig.progress.note_committed({tp: Committed(9, 0)}, {tp: rig.progress.get(tp).epoch})
        rig.kafka.truncate(tp, 4)
        strike = AtLine(line, interrupt)
        with contextlib.suppress(KeyboardInterrupt), strike:
            first = next(rig.stream)
        if strike.struck:
            first = next(rig.stream)
        rig.stream.note_progress()
        assert rig.progress.get(tp).to_commit <= first.offset() <= 1, f"interrupted at line {line}"
        if not strike.struck:
            break
    assert line > 20, "the library's lines were not seen"
