"""A stream's gate, and when a message counts as consumed. One thread acts as user's code and as coordinator."""

import pytest

from legacy_consumer.errors import ConsumerTimeoutError
from legacy_consumer.fetching.fetcher import LATEST
from legacy_consumer.member.gate import Pause
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets.progress import Committed, Progress
from tests.support.column_fetcher import ColumnFetcher
from tests.support.fake_kafka import FakeBatch, FakeFetcher, FakeKafka
from tests.support.group_members import FakeClock
from zk_layout.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NONE = Committed(None, None)


class TickingClock(FakeClock):
    """A clock that advances a little at each look, so that waits end."""

    def monotonic(self):
        self.now += 0.01
        return self.now


class StandingClock(FakeClock):
    """A clock that advances only during a wait, so that the user takes any number of messages in no time."""

    def wait(self, event, timeout_s):
        self.now += timeout_s
        return event.is_set()


class Rig:
    """A stream over in-memory logs, with its fetcher and progress. drained: how often it called on_drained."""

    def __init__(self, at_next=False, consumer_timeout_ms=200, fetcher=FakeFetcher, clock=TickingClock):
        self.kafka = FakeKafka()
        self.fetcher = fetcher(self.kafka)
        self.progress = Progress()
        self.drained = 0
        self.leased = True
        self.stream = GatedStream(
            fetcher=self.fetcher,
            progress=self.progress,
            clock=clock(),
            consumer_timeout_ms=consumer_timeout_ms,
            at_next=at_next,
            on_drained=self._on_drained,
            may_hand_out=lambda: self.leased,
        )

    def _on_drained(self):
        self.drained += 1

    def begin(self, tp, position=0):
        epoch = self.progress.begin(tp, position, NONE)
        self.stream.begin({tp: position}, {tp: epoch})

    def consumed(self, tp):
        self.stream.note_progress()
        return self.progress.get(tp).consumed


@pytest.fixture(params=[FakeFetcher, ColumnFetcher])
def fetcher(request):
    return request.param


@pytest.fixture
def rig(fetcher):
    return Rig(fetcher=fetcher)


def offsets(messages):
    return [message.offset() for message in messages]


def test_messages_come_in_order_from_the_position_on(rig):
    rig.kafka.produce(P0, 5)
    rig.begin(P0, 2)
    assert offsets(next(rig.stream.batches())) == [2, 3, 4]


def test_a_message_counts_as_consumed_when_the_user_comes_back(rig):
    rig.kafka.produce(P0, 3)
    rig.begin(P0)
    messages = iter(rig.stream)
    next(messages)
    assert rig.consumed(P0) == 0
    next(messages)
    assert rig.consumed(P0) == 1
    next(messages)
    assert rig.consumed(P0) == 2
    with pytest.raises(ConsumerTimeoutError):
        next(messages)
    assert rig.consumed(P0) == 3


def test_a_batch_counts_as_consumed_when_the_user_comes_back(rig):
    rig.kafka.produce(P0, 5)
    rig.begin(P0)
    batches = rig.stream.batches(max_messages=3)
    next(batches)
    assert rig.consumed(P0) == 0
    next(batches)
    assert rig.consumed(P0) == 3


def test_asking_for_a_commit_counts_what_is_in_hand(rig):
    rig.kafka.produce(P0, 5)
    rig.begin(P0)
    messages = iter(rig.stream)
    next(messages)
    rig.stream.come_back()
    assert rig.consumed(P0) == 1
    rig.stream.stop([P0])
    assert rig.stream.undrained([P0]) == frozenset(), "what was said to be done is not waited for"


def test_a_loop_goes_on_where_it_was_after_a_commit_in_its_midst(rig):
    rig.kafka.produce(P0, 5)
    rig.begin(P0)
    seen = []
    for message in rig.stream:
        seen.append(message.offset())
        rig.stream.come_back()
        if len(seen) == 5:
            break
    assert seen == [0, 1, 2, 3, 4]


def test_a_thread_that_waits_for_itself_lets_go_and_what_it_had_in_hand_is_not_consumed(rig):
    rig.kafka.produce(P0, 5)
    rig.begin(P0)
    messages = iter(rig.stream)
    next(messages)
    next(messages)
    rig.stream.let_go()
    rig.stream.stop([P0])
    assert rig.stream.undrained([P0]) == frozenset()
    assert rig.progress.get(P0).consumed == 1


def test_at_next_counts_a_message_as_it_is_handed_out(fetcher):
    rig = Rig(at_next=True, fetcher=fetcher)
    rig.kafka.produce(P0, 5)
    rig.begin(P0)
    next(iter(rig.stream))
    assert rig.consumed(P0) == 1


def test_gaps_in_the_offsets_are_no_reason_to_miscount(rig):
    rig.kafka.produce(P0, 3)
    rig.kafka.produce(P1, 3)
    rig.begin(P0, 1)
    rig.begin(P1, 2)
    assert len(next(rig.stream.batches())) == 3
    rig.stream.come_back()
    assert (rig.consumed(P0), rig.consumed(P1)) == (3, 3)


def test_after_stop_no_message_of_the_partition_is_handed_out(rig):
    rig.kafka.produce(P0, 3)
    rig.kafka.produce(P1, 3)
    rig.begin(P0)
    rig.begin(P1)
    messages = iter(rig.stream)
    first = next(messages)
    assert (first.partition(), first.offset()) == (0, 0)
    rig.stream.stop([P0])
    assert [(m.partition(), m.offset()) for m in (next(messages), next(messages), next(messages))] == [
        (1, 0),
        (1, 1),
        (1, 2),
    ]


def test_messages_in_hand_keep_a_stopped_partition_undrained_until_the_users_code_asks_again(rig):
    rig.kafka.produce(P0, 3)
    rig.kafka.produce(P1, 3)
    rig.begin(P0)
    rig.begin(P1)
    messages = iter(rig.stream)
    next(messages)
    rig.stream.stop([P0])
    assert rig.stream.undrained([P0]) == {P0}
    next(messages)
    assert rig.stream.undrained([P0]) == frozenset()
    assert rig.drained == 1
    assert rig.consumed(P0) == 1, "what was handed out and finished is consumed, the rest is not"


def test_a_partition_without_messages_in_hand_is_drained_at_once(rig):
    rig.kafka.produce(P0, 3)
    rig.begin(P0)
    rig.begin(P1)
    next(iter(rig.stream))
    rig.stream.stop([P1])
    assert rig.stream.undrained([P1]) == frozenset()


def test_a_whole_batch_in_hand_keeps_its_partitions_undrained(rig):
    rig.kafka.produce(P0, 3)
    rig.begin(P0)
    batches = rig.stream.batches(timeout=0.05)
    next(batches)
    rig.stream.stop([P0])
    assert rig.stream.undrained([P0]) == {P0}
    assert list(next(batches)) == []
    assert rig.drained == 1
    assert rig.consumed(P0) == 3


def test_a_late_acknowledgement_does_not_move_the_partitions_next_life(rig):
    rig.kafka.produce(P0, 10)
    rig.begin(P0)
    batches = rig.stream.batches()
    next(batches)
    rig.stream.stop([P0])
    rig.progress.forget([P0])
    rig.begin(P0, 4)
    assert offsets(next(batches)) == [4, 5, 6, 7, 8, 9]
    assert rig.consumed(P0) == 4


def test_messages_under_way_for_an_earlier_life_are_dropped(rig):
    rig.kafka.produce(P0, 10)
    rig.begin(P0)

    def lose_and_regain():
        rig.fetcher.before_poll_returns = lambda: None
        rig.stream.stop([P0])
        rig.begin(P0, 7)

    rig.fetcher.before_poll_returns = lose_and_regain
    assert offsets(next(rig.stream.batches())) == [7, 8, 9]


def claim(rig):
    rig.begin(P0, 2)


def seek(rig):
    rig.begin(P0)
    rig.stream.seek(P0, 2)


def resume(rig):
    rig.begin(P0, 2)
    rig.stream.pause_partitions([P0])
    rig.stream.resume_partitions([P0])


def keep_after_all(rig):
    rig.begin(P0, 2)
    rig.stream.stop([P0])
    rig.stream.go_on([P0])


def seek_what_is_paused(rig):
    rig.begin(P0)
    rig.stream.pause_partitions([P0])
    rig.stream.seek(P0, 2)
    rig.stream.resume_partitions([P0])


@pytest.mark.parametrize("change", [claim, seek, resume, keep_after_all, seek_what_is_paused], ids=lambda c: c.__name__)
def test_a_partition_that_begins_as_a_poll_begins_is_handed_out_from_its_position_on(rig, change):
    rig.kafka.produce(P0, 10)
    rig.kafka.produce(P1, 3)
    rig.begin(P1)

    def begin_once():
        rig.fetcher.before_poll_begins = lambda: None
        change(rig)

    rig.fetcher.before_poll_begins = begin_once
    batches = rig.stream.batches(timeout=0.05)
    polled = [message for _ in range(4) for message in next(batches)]
    assert offsets(message for message in polled if message.partition() == 0) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert offsets(message for message in polled if message.partition() == 1) == [0, 1, 2]
    assert (rig.consumed(P0), rig.consumed(P1)) == (10, 3)


def test_a_partition_moved_as_a_poll_begins_and_ends_is_handed_out_from_its_last_position_on(rig):
    rig.kafka.produce(P0, 10)

    def begin_once():
        rig.fetcher.before_poll_begins = lambda: None
        rig.begin(P0)

    def move_once():
        rig.fetcher.before_poll_returns = lambda: None
        rig.stream.seek(P0, 6)

    rig.fetcher.before_poll_begins, rig.fetcher.before_poll_returns = begin_once, move_once
    assert offsets(next(rig.stream.batches())) == [6, 7, 8, 9]
    assert rig.stream.position(P0) == 10


def test_a_paused_stream_hands_out_nothing_and_loses_nothing(rig):
    rig.kafka.produce(P0, 4)
    rig.begin(P0)
    messages = iter(rig.stream)
    assert next(messages).offset() == 0
    rig.stream.pause(Pause.SUSPENDED)
    with pytest.raises(ConsumerTimeoutError):
        next(messages)
    rig.stream.resume(Pause.SUSPENDED)
    assert offsets([next(rig.stream), next(rig.stream), next(rig.stream)]) == [1, 2, 3]


def test_leaving_the_loop_and_coming_back_skips_nothing(rig):
    rig.kafka.produce(P0, 4)
    rig.begin(P0)
    for message in rig.stream:
        if message.offset() == 1:
            break
    assert offsets(next(rig.stream.batches())) == [2, 3]


def test_small_batches_after_iterating_keep_their_limit_and_their_order(rig):
    rig.kafka.produce(P0, 7)
    rig.begin(P0)
    assert next(rig.stream).offset() == 0
    batches = rig.stream.batches(max_messages=2)
    assert [offsets(next(batches)) for _ in range(3)] == [[1, 2], [3, 4], [5, 6]]
    assert rig.consumed(P0) == 5


def test_a_timeout_leaves_the_stream_usable(rig):
    rig.begin(P0)
    with pytest.raises(ConsumerTimeoutError, match=r"consumer\.timeout\.ms=200"):
        next(rig.stream)
    rig.kafka.produce(P0)
    assert next(rig.stream).offset() == 0


def test_an_ended_stream_acknowledges_what_was_in_hand_and_stops(rig):
    rig.kafka.produce(P0, 4)
    rig.begin(P0)
    seen = []
    for message in rig.stream:
        seen.append(message.offset())
        if message.offset() == 1:
            rig.stream.end()
    assert seen == [0, 1]
    assert rig.consumed(P0) == 2


def test_a_partition_that_stays_after_all_goes_on_after_what_was_handed_out(rig):
    rig.kafka.produce(P0, 5)
    rig.begin(P0)
    messages = iter(rig.stream)
    next(messages)
    next(messages)
    rig.stream.stop([P0])
    rig.stream.go_on([P0])
    assert offsets(next(messages) for _ in range(3)) == [2, 3, 4]
    assert rig.consumed(P0) == 4


def test_a_position_that_the_fetcher_had_to_look_up_counts_as_consumed(rig):
    rig.begin(P0, 3)

    class Placed:
        @property
        def next_offsets(self):
            return {P0: 9}

        def __len__(self):
            return 0

        def messages(self):
            return ()

    polls = iter([Placed()])
    rig.fetcher.poll = lambda *_: next(polls, None)
    assert list(next(rig.stream.batches(timeout=0.05))) == []
    assert rig.consumed(P0) == 9


class Finding(FakeFetcher):
    """A fetcher that reports the positions of partitions that begin at an end of their log, as both fetchers do."""

    def poll(self, max_messages, timeout_s):
        asked = {tp for what, which in self._changes if what == "assign" for tp in which if which[tp] < 0}
        batch = super().poll(0 if asked else max_messages, 0)
        if asked:
            batch = FakeBatch([])
            batch.next_offsets = {tp: self._positions[tp] for tp in asked}
        return batch


def pause_only(stream):
    stream.pause_partitions([P0])


def pause_and_resume(stream):
    stream.pause_partitions([P0])
    stream.resume_partitions([P0])


def stop_only(stream):
    stream.stop([P0])


def stop_and_go_on(stream):
    stream.stop([P0])
    stream.go_on([P0])


@pytest.mark.parametrize(
    "meanwhile", [pause_only, pause_and_resume, stop_only, stop_and_go_on], ids=lambda one: one.__name__
)
def test_the_end_of_a_log_that_a_poll_finds_is_not_looked_up_again_whatever_happens_meanwhile(meanwhile):
    rig = Rig(fetcher=Finding)
    rig.kafka.produce(P0, 5)
    rig.stream.begin({P0: LATEST}, {P0: rig.progress.begin(P0, None, NONE)})

    def change():
        rig.fetcher.before_poll_returns = lambda: None
        meanwhile(rig.stream)
        rig.kafka.produce(P0, 3)

    rig.fetcher.before_poll_returns = change
    came = offsets(next(rig.stream.batches(timeout=0.05)))
    assert (came or rig.stream.position(P0)) in ([5, 6, 7], 5)
    rig.stream.resume_partitions([P0])
    rig.stream.go_on([P0])
    assert came or offsets(next(rig.stream.batches(timeout=0.05))) == [5, 6, 7]


def test_a_batch_of_no_messages_is_refused(rig):
    with pytest.raises(ValueError, match="at least 1"):
        next(rig.stream.batches(max_messages=0))


@pytest.mark.parametrize("way", ["loop", "next", "batches"])
def test_a_process_that_stood_still_hands_out_nothing_of_what_it_had_fetched(rig, way):
    """In an earlier version, a stopped and continued process handed out thousands of messages of a new owner's."""
    rig.begin(P0)
    rig.kafka.produce(P0, 10)
    ways = {"loop": lambda: iter(rig.stream), "next": lambda: rig.stream, "batches": lambda: rig.stream.batches(1)}
    first = next(ways[way]())
    assert first
    rig.leased = False
    with pytest.raises(ConsumerTimeoutError):
        next(ways[way]())


def test_a_loop_that_goes_on_after_a_standstill_ends_its_run_at_once(rig):
    rig.begin(P0)
    rig.kafka.produce(P0, 10)
    got = []

    def consume():
        for message in rig.stream:
            got.append(message.offset())
            rig.leased = len(got) < 4

    with pytest.raises(ConsumerTimeoutError):
        consume()
    assert got == [0, 1, 2, 3]


def test_when_the_session_is_confirmed_what_waits_goes_on_where_it_was(rig):
    rig.begin(P0)
    rig.kafka.produce(P0, 10)
    messages = iter(rig.stream)
    assert offsets(next(messages) for _ in range(3)) == [0, 1, 2]
    rig.leased = False
    with pytest.raises(ConsumerTimeoutError):
        next(messages)
    rig.leased = True
    assert offsets(next(rig.stream) for _ in range(7)) == list(range(3, 10))


def test_a_user_who_is_quick_gets_no_longer_run_than_the_bound_after_a_standstill(fetcher):
    """A look at the lease costs more than a message, so a stream looks only once for a run of quick messages."""
    rig = Rig(fetcher=fetcher)
    rig.stream._clock = FakeClock()
    rig.begin(P0)
    rig.kafka.produce(P0, 1000)
    messages = iter(rig.stream)
    for _ in range(400):
        next(messages)
    rig.leased = False
    rig.stream._clock = TickingClock()
    left = []
    with pytest.raises(ConsumerTimeoutError):
        left.extend(messages)
    assert len(left) <= 128


@pytest.fixture
def swift(fetcher):
    """A stream whose user takes long runs of messages, and has taken 50 messages."""
    rig = Rig(fetcher=fetcher, clock=StandingClock)
    rig.kafka.produce(P0, 300)
    rig.kafka.produce(P1, 300)
    rig.begin(P0)
    rig.messages = iter(rig.stream)
    assert offsets(next(rig.messages) for _ in range(50)) == list(range(50))
    return rig


def test_shutting_the_gate_ends_a_long_run_at_once(swift):
    swift.stream.stop([P0])
    assert swift.stream.undrained([P0]) == {P0}
    swift.begin(P1, 290)
    assert [(m.partition(), m.offset()) for m in (next(swift.messages), next(swift.messages))] == [(1, 290), (1, 291)]
    assert swift.drained == 1
    assert swift.consumed(P0) == 50


def test_end_of_the_stream_ends_a_long_run_at_once(swift):
    swift.stream.end()
    assert list(swift.messages) == []
    assert swift.consumed(P0) == 50


def test_acknowledging_within_a_long_run_neither_skips_nor_repeats(swift):
    swift.stream.come_back()
    assert swift.consumed(P0) == 50
    assert offsets(next(swift.messages) for _ in range(250)) == list(range(50, 300))


def test_two_loops_over_one_stream_share_its_messages(swift):
    other = iter(swift.stream)
    taken = [next(loop).offset() for loop in (other, swift.messages, other, swift.messages) for _ in range(5)]
    assert taken == list(range(50, 70))


def test_next_of_a_stream_goes_on_behind_its_loop_and_its_batches(swift):
    assert offsets([next(swift.stream), next(swift.messages), next(swift.stream)]) == [50, 51, 52]
    assert offsets(next(swift.stream.batches(10))) == list(range(53, 63))
    assert next(swift.stream).offset() == 63


def test_a_loop_whose_body_asks_for_the_next_message_hands_out_nothing_behind_a_shut_gate(swift):
    assert next(swift.stream).offset() == 50
    swift.stream.stop([P0])
    swift.begin(P1, 290)
    assert [(m.partition(), m.offset()) for m in (next(swift.messages), next(swift.messages))] == [(1, 290), (1, 291)]


def test_a_loop_that_stands_in_a_long_run_repeats_nothing_after_others_have_taken_turns(swift):
    other = iter(swift.stream)
    ways = (swift.stream, other, swift.messages, swift.stream, swift.messages, swift.stream, other)
    assert [next(way).offset() for way in ways for _ in range(5)] == list(range(50, 85))


def test_loading_before_the_first_message_takes_no_time_of_the_timeout():
    rig = Rig(consumer_timeout_ms=200)
    clock = rig.stream._clock

    def load():
        clock.now += 60

    polls = []

    def produce_late():
        polls.append(1)
        if len(polls) == 3:
            rig.kafka.produce(P0)

    rig.fetcher.prepare = load
    rig.fetcher.before_poll_returns = produce_late
    rig.begin(P0)
    assert next(rig.stream).offset() == 0


def test_the_end_of_a_stream_wakes_a_poll_that_waits(rig, monkeypatch):
    woken = []
    monkeypatch.setattr(rig.fetcher, "wake", lambda: woken.append(rig.stream._ended))
    rig.stream.end()
    assert woken == [True]
