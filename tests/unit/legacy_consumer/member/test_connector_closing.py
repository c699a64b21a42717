"""shutdown() and end_streams(), called from anywhere: with any timeout, at any line, again after a failure."""

import contextlib
import math
import threading
from itertools import count

import pytest

from legacy_consumer import ConfigError, ConsumerClosedError, ConsumerConnector, ConsumerTimeoutError, Phase
from legacy_consumer.member import closing as closing_module
from legacy_consumer.member import connector as connector_module
from legacy_consumer.member import membership as membership_module
from legacy_consumer.offsets import ZooKeeperOffsetStore
from rebalance import coordinator as coordinator_module
from tests.support.at_line import AfterCall, AtLine, forget_unstarted_threads
from tests.support.at_line import interrupt as interrupt_as_ctrl_c
from tests.support.fake_kafka import FakeFetcher, FakeFetchers, FakeKafka
from tests.support.interrupting import interrupt
from tests.support.waiting import eventually
from zk_layout import running_threads
from zk_layout.codecs import encode_topic
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition
from zk_layout.running_threads import is_running

P0 = TopicPartition("t", 0)


class Member:
    """One connector over an in-memory ZooKeeper, with its parts."""

    def __init__(self, **properties):
        self.zookeeper = MemoryZooKeeper()
        self.kafka = FakeKafka()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.admin.ensure_path("/brokers/topics")
        self.admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})))
        self.kafka.produce(P0, 20)
        self.store = MemoryStore(self.zookeeper)
        self.fetchers = FakeFetchers(self.kafka)
        self.connector = ConsumerConnector(
            store=self.store,
            fetchers=self.fetchers,
            zookeeper_connect="memory",
            group_id="g",
            **{"auto_offset_reset": "smallest", "consumer_timeout_ms": 60_000, **properties},
        )

    def join(self):
        (stream,) = self.connector.create_message_streams({"t": 1})["t"]
        return stream

    def ids(self):
        return self.admin.get_children("/consumers/g/ids")

    def committed(self):
        path = "/consumers/g/offsets/t/0"
        return int(self.admin.get_data(path).data) if self.admin.exists(path) else 0

    def has_left(self):
        return (
            self.connector.status.phase is Phase.CLOSED
            and not self.ids()
            and self.store._closed
            and all(fetcher._closed for fetcher in self.fetchers.made)
        )


@pytest.fixture
def member():
    made = Member()
    yield made
    made.connector.shutdown()


# How long


@pytest.mark.parametrize(
    ("timeout", "error"),
    [("5", TypeError), (True, TypeError), (b"", TypeError), (math.nan, ValueError), (-1, ValueError)],
)
def test_an_invalid_timeout_is_refused_before_any_step(member, timeout, error):
    member.join()
    with pytest.raises(error, match="timeout must be"):
        member.connector.shutdown(timeout)
    assert (member.connector.status.phase, len(member.ids())) == (Phase.STABLE, 1)
    member.connector.commit_offsets()
    member.connector.shutdown()
    assert member.has_left()


@pytest.mark.parametrize("timeout", [0, 0.0, 1, 10**30, math.inf])
def test_any_time_will_do_for_a_member_whose_users_have_nothing_in_hand(member, timeout):
    member.join()
    member.connector.shutdown(timeout)
    assert member.has_left()


# What fails


@pytest.mark.parametrize("part", [FakeFetcher, FakeFetchers, ZooKeeperOffsetStore, MemoryStore])
def test_a_part_that_raises_while_closing_keeps_no_other_open_and_the_next_call_closes_it(part, monkeypatch):
    close, failed = part.close, []

    def fail_once(self):
        if not failed:
            failed.append(self)
            raise RuntimeError("handle is destroyed")
        close(self)

    monkeypatch.setattr(part, "close", fail_once)
    member = Member()
    member.join()
    others = []
    member.connector.at_shutdown(lambda: others.append("closed"))
    with pytest.raises(RuntimeError, match="handle is destroyed"):
        member.connector.shutdown()
    assert others == ["closed"]
    assert not member.ids()
    member.connector.shutdown()
    assert member.has_left()


def test_a_shutdown_after_one_that_was_interrupted_waits_for_what_that_one_began():
    member = Member(drain_timeout_ms=500)
    stream = member.join()
    took, done = threading.Event(), threading.Event()

    def hold():
        next(stream)
        took.set()
        done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    took.wait(60)
    interrupt(member.connector.shutdown)
    member.connector.shutdown()
    assert member.connector.status.phase is Phase.CLOSED
    assert not member.connector.vitals.runs
    done.set()
    holder.join(60)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("strike_at", [AtLine, AfterCall])
def test_wherever_joining_is_interrupted_a_shutdown_waits_for_the_coordinators_end(strike_at):
    """Also at lines of threading, because the thread may run before the thread that started it knows."""
    library = (coordinator_module.__file__, running_threads.__file__, threading.__file__)
    for number in count():
        member = Member()
        member.admin.ensure_path("/consumers/g/ids")
        strike = strike_at(number, interrupt_as_ctrl_c, library=library)
        with contextlib.suppress(KeyboardInterrupt), strike:
            member.connector.create_message_streams({"t": 1})
        member.connector.shutdown()
        running = [one.name for one in threading.enumerate() if one.name.endswith("-coordinator") and is_running(one)]
        assert not running, f"interrupted at {number}"
        assert member.store._closed, f"interrupted at {number}"
        assert not member.ids(), f"interrupted at {number}"
        if not strike.struck:
            break
    assert number > 30, "the library's lines were not seen"
    forget_unstarted_threads()


@pytest.mark.parametrize(("auto_commit", "committed"), [(True, 2), (False, 0)])
def test_a_shutdown_that_ctrl_c_cuts_short_commits_what_is_done(auto_commit, committed):
    member = Member(drain_timeout_ms=60_000, auto_commit_interval_ms=3_600_000, auto_commit_enable=auto_commit)
    stream = member.join()
    took, done = threading.Event(), threading.Event()

    def hold_the_third():
        for _ in range(3):
            next(stream)
        took.set()
        done.wait(60)
        # this thread comes back, so shutdown() need not wait for it any longer
        next(stream, None)

    holder = threading.Thread(target=hold_the_third)
    holder.start()
    took.wait(60)
    interrupt(member.connector.shutdown)
    assert member.store._closed
    assert member.committed() == committed
    done.set()
    holder.join(60)
    member.connector.shutdown()


def test_a_shutdown_that_ctrl_c_cuts_short_waits_for_no_commit_that_zookeeper_does_not_answer(monkeypatch):
    """In an earlier version, a hasty last commit waited for the coordinator's before shutdown() closed the store."""
    member = Member(auto_commit_interval_ms=3_600_000)
    stream = member.join()
    assert [next(stream).offset() for _ in range(2)] == [0, 1]
    closed, ended = threading.Event(), []
    member.connector.at_shutdown(closed.set)

    def answer_nothing(ops, **how):
        ended.append(closed.wait(20))
        raise ConnectionLostError("the store was closed")

    monkeypatch.setattr(member.store, "multi", answer_nothing)
    interrupt(member.connector.shutdown)
    assert eventually(lambda: member.connector.status.phase is Phase.CLOSED)
    assert set(ended) == {True}, "the end of the store ended each request"


def test_a_shutdown_that_ctrl_c_cuts_short_leaves_no_coordinator_that_waits_for_a_closed_store():
    member = Member()
    member.join()
    member.zookeeper.suspend(member.store)
    interrupt(member.connector.shutdown)
    assert member.store._closed
    assert eventually(lambda: member.connector.status.phase is Phase.CLOSED, 5.0)


@pytest.mark.parametrize("is_away", [True, False])
def test_a_shutdown_with_less_time_ends_one_that_waits(is_away):
    member = Member(drain_timeout_ms=60_000)
    stream = member.join()
    next(stream)
    if is_away:
        member.zookeeper.suspend(member.store)
    first = threading.Thread(target=lambda: member.connector.shutdown(math.inf))
    first.start()
    assert eventually(lambda: member.connector.status.phase is Phase.LEAVING)
    second = threading.Thread(target=lambda: member.connector.shutdown(0.1))
    second.start()
    first.join(60)
    second.join(60)
    assert not first.is_alive()
    assert not second.is_alive()
    assert member.connector.status.phase is Phase.CLOSED


@pytest.mark.parametrize("leave", ["shutdown", "unsubscribe"])
def test_what_a_thread_had_in_hand_as_it_left_comes_to_no_other_thread_of_its_member(leave, monkeypatch):
    """In an earlier version it came again at once, while the coordinator was busy and still owned the partition."""
    member = Member(consumer_timeout_ms=100, auto_commit_enable=False)
    stream = member.join()
    assert next(stream).offset() == 0
    coordinator, said = member.connector._membership._coordinator, []
    close = coordinator.close

    def take():
        try:
            said.append(next(stream).offset())
        except ConsumerTimeoutError:
            said.append("nothing")

    def close_late(timeout_s):
        monkeypatch.undo()
        other = threading.Thread(target=take)
        other.start()
        other.join(60)
        close(timeout_s)

    monkeypatch.setattr(coordinator, "close", close_late)
    getattr(member.connector, leave)()
    assert said == ["nothing"]
    member.connector.shutdown()


def test_an_error_of_closing_does_not_hide_the_users_own(member):
    member.join()

    def fail():
        raise RuntimeError("handle is destroyed")

    member.connector.at_shutdown(fail)
    with pytest.raises(KeyError, match="mine"), member.connector:
        raise KeyError("mine")
    assert member.has_left()


class Closers:
    """Three functions for at_shutdown(). Each records its call, and then raises its error if it has one."""

    def __init__(self, connector, errors=(None, None, None)):
        self.called = []
        for number, error in enumerate(errors):
            connector.at_shutdown(lambda number=number, error=error: self.call(number, error))

    def call(self, number, error):
        self.called.append(number)
        if error is not None:
            raise error


@pytest.mark.parametrize(
    "errors", [(KeyboardInterrupt(), None, None), (RuntimeError(), KeyboardInterrupt(), RuntimeError())]
)
def test_ctrl_c_in_a_function_given_to_at_shutdown_leaves_no_other_out_and_reaches_the_user(member, errors):
    member.join()
    closers = Closers(member.connector, errors)
    with pytest.raises(KeyboardInterrupt):
        member.connector.shutdown()
    assert closers.called == [0, 1, 2]
    assert member.has_left()
    member.connector.shutdown()
    assert closers.called == [0, 1, 2]


def test_ctrl_c_while_one_part_is_closed_keeps_no_other_open(member, monkeypatch):
    stream = member.join()
    monkeypatch.setattr(member.fetchers.made[0], "close", interrupt_as_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        member.connector.shutdown()
    assert member.store._closed
    assert list(stream) == []
    monkeypatch.undo()
    member.connector.shutdown()
    assert member.has_left()


def test_an_error_of_closing_does_not_hide_the_ctrl_c_that_cut_a_shutdown_short(member, monkeypatch):
    member.join()
    closers = Closers(member.connector, (RuntimeError("closed twice"), None, None))
    monkeypatch.setattr(member.connector._membership, "leave", lambda timeout_s: interrupt_as_ctrl_c())
    with pytest.raises(KeyboardInterrupt):
        member.connector.shutdown()
    monkeypatch.undo()
    assert closers.called == [0, 1, 2]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ConfigError("group.id", "g", "is not mine")])
def test_an_error_of_closing_does_not_hide_what_ended_joining(member, error):
    def fail():
        raise error

    closers = Closers(member.connector, (RuntimeError("closed twice"), None, None))
    member.store.start = fail
    with pytest.raises(type(error)):
        member.join()
    assert closers.called == [0, 1, 2]


@pytest.mark.parametrize("strike_at", [AtLine, AfterCall])
def test_a_shutdown_interrupted_anywhere_is_finished_by_another_thread_and_calls_no_function_twice(strike_at):
    library = closing_module.__file__, connector_module.__file__, membership_module.__file__
    for line in count():
        member = Member()
        member.join()
        closers = Closers(member.connector)
        with contextlib.suppress(KeyboardInterrupt), strike_at(line, interrupt_as_ctrl_c, library) as strike:
            member.connector.shutdown()
        other = threading.Thread(target=member.connector.shutdown)
        other.start()
        other.join(60)
        assert member.has_left(), f"interrupted at line {line}"
        # an interrupt after a call may end a function before its first line
        assert len(closers.called) == len({*closers.called}) >= (3 if strike_at is AtLine else 2)
        if not strike.struck:
            break
    assert line > 50, "the library's lines were not seen"


# Before the streams exist


def test_streams_that_are_to_end_before_they_exist_end_as_soon_as_they_do(member):
    member.store.start()
    start = member.store.start
    member.store.start = lambda: (member.connector.end_streams(), start())
    stream = member.join()
    assert list(stream) == []
    with pytest.raises(StopIteration):
        next(stream)


def test_a_shutdown_in_a_signal_handler_that_interrupts_joining_ends_it(member):
    # the joining thread calls shutdown() inside start(), as a signal handler runs on the thread that it interrupts
    start = member.store.start
    member.store.start = lambda: (member.connector.shutdown(), start())
    with pytest.raises(ConsumerClosedError):
        member.join()
    member.connector.shutdown()
    assert member.store._closed


def test_a_shutdown_in_another_thread_ends_joining_in_order_at_whatever_line_that_is():
    library = connector_module.__file__, membership_module.__file__, coordinator_module.__file__
    line, struck = 0, True
    while struck:
        member, errors = Member(), []

        def shut_down(member=member, errors=errors):
            try:
                member.connector.shutdown()
            except BaseException as error:
                errors.append(error)

        closing = threading.Thread(target=shut_down)

        def close_beside(closing=closing):
            closing.start()
            # shutdown() may wait for a lock that this thread holds
            closing.join(0.05)

        strike = AtLine(line, close_beside, library)
        with contextlib.suppress(ConsumerClosedError), strike:
            member.join()
        struck = strike.struck
        if struck:
            closing.join(60)
            assert not closing.is_alive()
        assert not errors, f"shut down at line {line}"
        member.connector.shutdown()
        assert member.store._closed
        assert member.admin.exists("/consumers/g/ids") is None or not member.ids(), f"shut down at line {line}"
        line += 1
    assert line > 50, "the library's lines were not seen"


# At any line


def iterate(member, stream):
    for message in stream:
        yield message.offset()


def take_one_by_one(member, stream):
    while True:
        try:
            yield next(stream).offset()
        except StopIteration:
            return


def take_batches(member, stream):
    for batch in stream.batches(4):
        yield batch[-1].offset()


def commit_each(member, stream):
    for message in stream:
        yield message.offset()
        try:
            member.connector.commit_offsets()
        except ConsumerClosedError:
            # the interrupted code held no lock, so the handler waited until the member had left
            return
        assert member.connector.progress.keys() <= {P0}


@pytest.mark.parametrize("line", range(0, 330, 4))
@pytest.mark.parametrize("way", [iterate, take_one_by_one, take_batches, commit_each])
def test_a_signal_handler_may_shut_down_whatever_line_of_the_library_it_interrupts(way, line):
    member = Member(auto_commit_interval_ms=60_000)
    stream = member.join()
    seen = [-1]
    handled = []

    def handle():
        member.connector.shutdown(math.inf)
        handled.append(line)

    def consume():
        with AtLine(line, handle) as handler:
            for offset in way(member, stream):
                seen.append(offset)
                if offset == 19 and not handled:
                    handler.struck = True
                    handle()

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert handled == [line]
    member.connector.shutdown()
    eventually(member.has_left)
    assert seen[-1] <= member.committed() <= seen[-1] + 1 or way is take_batches
    assert member.committed() <= seen[-1] + 1


def test_a_signal_handler_may_shut_down_while_its_thread_waits_for_messages():
    member = Member()
    stream = member.join()
    took = []

    def consume():
        for message in stream:
            took.append(message.offset())

    may = stream._stream._may_hand_out

    def handle_once():
        if len(took) == 20 and not member.connector._closed:
            member.connector.shutdown()
        return may()

    stream._stream._may_hand_out = handle_once
    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    eventually(member.has_left)
    assert (took[-1], member.committed()) == (19, 20)


def test_a_stream_that_waits_says_so_when_its_time_is_over_though_a_shutdown_is_under_way():
    member = Member(consumer_timeout_ms=20, auto_offset_reset="largest")
    stream = member.join()
    with pytest.raises(ConsumerTimeoutError):
        next(stream)
    member.connector.shutdown()
    assert list(stream) == []
