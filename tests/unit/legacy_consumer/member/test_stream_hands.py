"""The messages in hand when the user's code mixes ways of reading, when errors come, and with several threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from legacy_consumer import ConsumerTimeoutError, StreamInUseError
from legacy_consumer.member import stream as stream_module
from legacy_consumer.member.hand_source import this_thread
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets.progress import Committed, Progress
from rebalance.clock import SystemClock
from tests.support.column_fetcher import ColumnFetcher
from tests.support.fake_kafka import FakeBatch, FakeFetcher, FakeKafka
from tests.support.interrupting import interrupt_join
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition

TPS = [TopicPartition("t", n) for n in range(4)]
P0, P1 = TPS[:2]


class Rig:
    def __init__(self, fetcher, consumer_timeout_ms=0, at_next=False):
        self.kafka = FakeKafka()
        self.fetcher = fetcher(self.kafka)
        self.progress = Progress()
        self.drained = 0
        self.stream = GatedStream(
            fetcher=self.fetcher,
            progress=self.progress,
            clock=SystemClock(),
            consumer_timeout_ms=consumer_timeout_ms,
            at_next=at_next,
            on_drained=self._on_drained,
        )

    def _on_drained(self):
        self.drained += 1

    def begin(self, *partitions, produced=10):
        for tp in partitions:
            self.kafka.produce(tp, produced)
            self.stream.begin({tp: 0}, {tp: self.progress.begin(tp, 0, Committed(None, None))})

    def consumed(self, tp=P0):
        self.stream.note_progress()
        return self.progress.get(tp).consumed

    def rest(self):
        seen = []
        with pytest.raises(ConsumerTimeoutError):
            seen.extend((m.partition(), m.offset()) for m in self.stream)
        return seen


@pytest.fixture(params=[FakeFetcher, ColumnFetcher], ids=["objects", "columns"])
def rig(request):
    return Rig(request.param)


# Ways of reading, mixed


@pytest.mark.parametrize("first", ["arrow_batches", "batches"])
def test_after_a_batch_and_a_loop_with_a_commit_a_partition_that_is_given_up_comes_no_more(rig, first):
    rig.begin(*TPS, produced=6000)
    next(getattr(rig.stream, first)(6000))
    for number, _ in enumerate(rig.stream):
        if number == 5:
            rig.stream.come_back()
            break
    rig.stream.stop([P1])
    assert not rig.stream.undrained([P1])
    assert P1.partition not in {partition for partition, _ in rig.rest()}


def test_a_partition_of_which_only_fetched_messages_wait_is_drained_at_once(rig):
    rig.begin(P0, P1)
    messages = iter(rig.stream)
    assert next(messages).partition() == 0
    rig.stream.stop([P1])
    assert not rig.stream.undrained([P1])
    rig.stream.stop([P0])
    assert rig.stream.undrained([P0]) == {P0}
    assert rig.rest() == []
    assert rig.drained == 1


def test_a_stop_that_is_taken_back_while_the_user_holds_a_message_neither_repeats_nor_forgets_it(rig):
    rig.begin(P0)
    messages = iter(rig.stream)
    assert [next(messages).offset() for _ in range(3)] == [0, 1, 2]
    rig.stream.stop([P0])
    rig.stream.go_on([P0])
    assert rig.consumed() == 2
    assert [next(messages).offset() for _ in range(7)] == list(range(3, 10))
    assert rig.consumed() == 9


def test_a_stop_that_is_taken_back_after_the_user_came_back_counts_what_was_in_hand(rig):
    rig.begin(P0)
    batches = rig.stream.batches(3, timeout=0)
    assert len(next(batches)) == 3
    rig.stream.stop([P0])
    assert len(next(batches)) == 0
    rig.stream.go_on([P0])
    assert rig.consumed() == 3
    assert [m.offset() for m in next(batches)] == [3, 4, 5]


# The gate


@pytest.mark.parametrize("call", ["assign", "unassign"])
@pytest.mark.parametrize("change", ["stop", "begin", "restart", "go_on"])
def test_a_poll_between_any_two_steps_of_a_change_brings_nothing_that_is_handed_out_wrongly(rig, call, change):
    """The consuming thread polls before and after the fetcher learns of the change, and takes messages afterwards."""
    rig.begin(P0)
    rig.begin(P1)
    batches = rig.stream.batches(4, timeout=0)
    assert [(m.partition(), m.offset()) for m in next(batches)] == [(0, n) for n in range(4)]
    rig.stream.come_back()
    if change in {"begin", "go_on"}:
        rig.stream.stop([P0])
    tell = getattr(rig.fetcher, call)

    def poll_between(partitions):
        rig.stream._poll(100, 0)
        tell(partitions)
        rig.stream._poll(100, 0)

    setattr(rig.fetcher, call, poll_between)
    if change == "stop":
        rig.stream.stop([P0])
        expected = []
    elif change == "go_on":
        rig.stream.go_on([P0])
        expected = list(range(4, 10))
    elif change == "restart":
        rig.stream.restart({P0: 7})
        expected = [7, 8, 9]
    else:
        rig.stream.begin({P0: 7}, {P0: rig.progress.begin(P0, 7, Committed(None, None))})
        expected = [7, 8, 9]
    setattr(rig.fetcher, call, tell)
    assert [offset for partition, offset in rig.rest() if partition == 0] == expected


# Errors


@pytest.mark.parametrize("way", ["batches", "arrow_batches"])
def test_an_exception_while_a_batch_is_made_leaves_its_messages_to_come(rig, way, monkeypatch):
    rig.begin(P0)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(stream_module, "record_batch", fail)
        patched.setattr(stream_module, "_own_messages", fail)
        batches = getattr(rig.stream, way)(4)
        with pytest.raises(MemoryError):
            next(batches)
    assert rig.consumed() == 0
    assert [offset for _, offset in rig.rest()] == list(range(10))


def test_columns_that_can_be_read_once_are_read_once(rig):
    rig.begin(P0)
    assert next(rig.stream.arrow_batches(columns=(name for name in ("value", "offset")))).num_rows == 10


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        *((value, TypeError) for value in (None, 7, "value", b"value")),
        *((value, ValueError) for value in ([], (), iter(()), ["nope"], [7], [None], [["value"]])),
    ],
)
def test_invalid_columns_are_refused_at_the_call_and_no_message_is_taken(rig, columns, error):
    rig.begin(P0)
    with pytest.raises(error, match="key, value, topic"):
        rig.stream.arrow_batches(columns=columns)
    assert len(rig.rest()) == 10


@pytest.mark.parametrize("way", ["batches", "arrow_batches"])
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((1e3,), TypeError),
        (("5",), TypeError),
        ((None,), TypeError),
        ((np.array([1, 2]),), TypeError),
        ((0,), ValueError),
        ((-1,), ValueError),
        ((1, "5"), TypeError),
        ((True,), TypeError),
        ((1, True), TypeError),
        ((1, float("nan")), ValueError),
        ((1, -1), ValueError),
    ],
)
def test_arguments_are_judged_at_the_call_and_nothing_is_taken(rig, way, arguments, error):
    rig.begin(P0)
    with pytest.raises(error, match="must be"):
        getattr(rig.stream, way)(*arguments)
    assert len(rig.rest()) == 10


def test_a_poll_that_fails_as_no_fetcher_should_is_made_again(rig):
    rig.begin(P0)

    def fail():
        rig.fetcher.before_poll_returns = lambda: None
        raise MemoryError

    rig.fetcher.before_poll_returns = fail
    with pytest.raises(MemoryError):
        next(rig.stream)
    assert [offset for _, offset in rig.rest()] == list(range(10))


def test_a_poll_whose_messages_cannot_be_made_is_made_again(monkeypatch):
    rig = Rig(FakeFetcher)
    rig.begin(P0)

    def fail(_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(FakeBatch, "messages", fail)
        with pytest.raises(MemoryError):
            next(rig.stream)
    assert rig.consumed() == 0
    assert [offset for _, offset in rig.rest()] == list(range(10))


def test_a_batch_is_the_users_own_and_counts_whatever_becomes_of_it(rig):
    rig.begin(P0)
    batches = rig.stream.batches(4, timeout=0)
    kept = list(next(batches))
    batch = next(batches)
    while batch:
        batch.pop()
    batch.append(kept[0])
    next(batches)
    assert rig.consumed() == 8


# Threads


def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_no_later_thread_is_taken_for_one_that_ended():
    tokens = []
    for _ in range(50):
        in_thread(lambda: tokens.append(this_thread()))
    assert len(set(map(id, tokens))) == 50
    assert this_thread() is this_thread()


def test_messages_in_hand_of_a_dead_thread_are_not_its_successors(rig):
    rig.begin(P0)
    in_thread(lambda: next(rig.stream))
    held = []
    for _ in range(20):
        in_thread(lambda: held.append(rig.stream.is_held_by(this_thread())))
    assert not any(held)


@pytest.fixture(params=[FakeFetcher, ColumnFetcher], ids=["objects", "columns"])
def waiting(request):
    """A rig in whose stream a thread waits in next(). got: the message or the error that ended the wait."""
    rig = Rig(request.param, consumer_timeout_ms=60_000)
    rig.begin(P0, produced=0)
    rig.got = []

    def wait():
        try:
            rig.got.append(next(rig.stream))
        except StreamInUseError as error:
            rig.got.append(error)

    thread = threading.Thread(target=wait, name="the-first")
    thread.start()
    eventually(lambda: rig.stream._user is thread)
    rig.thread = thread
    yield rig
    rig.kafka.produce(P0, 1)
    thread.join(60)


@pytest.mark.parametrize(
    "way", [next, lambda s: next(iter(s)), lambda s: next(s.batches()), lambda s: next(s.arrow_batches())]
)
def test_a_second_thread_is_given_an_error_that_names_the_first_and_nothing_is_lost(waiting, way):
    with pytest.raises(StreamInUseError, match="'the-first' uses this stream"):
        way(waiting.stream)
    waiting.kafka.produce(P0, 3)
    waiting.thread.join(60)
    # no caller may be left to take a message of the first, as after asyncio.wait_for(to_thread(next, stream))
    assert isinstance(waiting.got[0], StreamInUseError)
    assert [next(waiting.stream).offset() for _ in range(3)] == [0, 1, 2]


def test_a_thread_whose_join_was_interrupted_still_uses_its_stream(waiting):
    interrupt_join(waiting.thread)
    assert not waiting.stream.is_deserted()
    assert waiting.stream.unasked_s() == 0
    with pytest.raises(StreamInUseError, match="'the-first' uses this stream"):
        next(waiting.stream)
    waiting.kafka.produce(P0, 1)
    eventually(lambda: waiting.got)
    eventually(waiting.stream.is_deserted)


def test_threads_that_take_turns_take_each_message_once(rig):
    rig.begin(P0)
    seen = []
    for _ in range(10):
        in_thread(lambda: seen.append(next(rig.stream).offset()))
    assert seen == list(range(10))
    assert rig.consumed() == 9


@pytest.fixture
def pools():
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        yield first, second


WAYS = {"an iterator": lambda stream: [iter(stream)] * 2, "a loop each": lambda stream: [iter(stream), iter(stream)]}
WAYS["a loop, and next(stream)"] = lambda stream: [iter(stream), stream]
WAYS["batches"] = lambda stream: [stream.batches(1)] * 2


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_in_hand_belongs_to_the_thread_that_took_it_though_threads_take_turns(rig, pools, way):
    rig.begin(P0)
    ways = way(rig.stream)
    for n in range(8):
        taker, other = pools[n % 2], pools[1 - n % 2]
        taker.submit(next, ways[n % 2]).result()
        assert taker.submit(lambda: rig.stream.is_held_by(this_thread())).result(), n
        assert not other.submit(lambda: rig.stream.is_held_by(this_thread())).result(), n


def test_a_stream_is_not_deserted_if_the_iterator_of_an_ended_thread_goes_on_in_another(rig):
    rig.begin(P0)
    messages = iter(rig.stream)
    in_thread(lambda: next(messages))
    assert rig.stream.is_deserted()
    next(messages)
    assert not rig.stream.is_deserted()


def test_two_threads_that_ask_one_iterator_at_once_are_both_given_an_error_and_nothing_is_lost(rig, pools):
    rig.begin(P0, produced=0)
    rig.stream._consumer_timeout_ms = 60_000
    messages = iter(rig.stream)
    waiting = pools[0].submit(next, messages)
    eventually(lambda: rig.stream._user is not None)
    with pytest.raises(StreamInUseError):
        next(messages)
    rig.kafka.produce(P0, 3)
    with pytest.raises(StreamInUseError, match="'MainThread' uses this stream"):
        waiting.result(60)
    assert [next(rig.stream).offset() for _ in range(3)] == [0, 1, 2]


# A batch is a list


def test_a_batch_behaves_like_a_list(rig):
    rig.begin(P0)
    batch = next(rig.stream.batches(5))
    messages = list(batch)
    assert [m.offset() for m in batch[1:3]] == [1, 2]
    assert [m.offset() for m in batch + messages[:1]] == [0, 1, 2, 3, 4, 0]
    assert batch[-1].offset() == 4
    batch.sort(key=lambda message: -message.offset())
    batch.insert(0, batch.pop())
    del batch[1]
    batch[1] = messages[4]
    batch += messages[:2]
    assert [m.offset() for m in batch] == [0, 4, 2, 1, 0, 1]
    assert [m.offset() for m in reversed(batch)] == [1, 0, 1, 2, 4, 0]
    kept = batch.copy()
    batch.clear()
    assert (len(batch), bool(batch), len(kept)) == (0, False, 6)
    assert kept == list(kept)
    with pytest.raises(TypeError):
        hash(kept)
