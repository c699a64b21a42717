"""Every public call in a signal handler that interrupts every other public call on its thread, at any line.

The handler's call does its work, or raises one error that says why it cannot. It never waits for a lock that the
interrupted call holds, and the interrupted call ends as usual. For shutdown() see test_connector_closing.py.
"""

import contextlib
import threading
from itertools import count

import pytest

from legacy_consumer import ConsumerConnector, ConsumerTimeoutError, SimpleConsumer
from legacy_consumer.errors import CallInProgressError, MessageStreamsExistError, NotAssignedError, StreamError
from tests.support.at_line import AtLine
from tests.support.fake_kafka import FakeFetcher, FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.errors import LegacyConsumerError, SessionExpiredError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

P0 = TopicPartition("t", 0)
NOT_MINE = TopicPartition("t", 7)


class Member:
    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.kafka = FakeKafka()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})), make_parents=True)
        self.store = MemoryStore(self.zookeeper)
        self.connector = ConsumerConnector(
            store=self.store,
            fetchers=FakeFetchers(self.kafka),
            zookeeper_connect="memory",
            group_id="g",
            auto_offset_reset="smallest",
            auto_commit_enable=False,
            consumer_timeout_ms=1,
        )
        self.got = []

    def join(self):
        (self.stream,) = self.connector.create_message_streams({"t": 1})["t"]

    def produce(self, messages=1):
        self.kafka.produce(P0, messages)


def iterate(member):
    member.produce(3)
    try:
        for message in member.stream:
            member.got.append(message.offset())
    except ConsumerTimeoutError:
        return


def take_one(member):
    member.produce()
    member.got.append(next(member.stream).offset())


def take_batch(member):
    member.produce(3)
    batches = member.stream.batches(2)
    member.got.extend(message.offset() for message in next(batches))


def commit(member):
    take_one(member)
    member.connector.commit_offsets()


def commit_by_name(member):
    take_one(member)
    member.connector.commit_offsets({P0: member.got[-1] + 1})


OUTER = [
    iterate,
    take_one,
    take_batch,
    commit,
    commit_by_name,
    lambda member: member.connector.progress,
    lambda member: member.connector.counters,
    lambda member: member.connector.vitals,
    lambda member: member.connector.log_ends([P0]),
    lambda member: member.connector.lag(),
    lambda member: member.connector.position(P0),
    lambda member: member.connector.committed([P0]),
    lambda member: member.connector.paused(),
    lambda member: member.connector.pause([P0]) or member.connector.resume([P0]),
    lambda member: member.stream.pause() or member.stream.resume(),
    lambda member: member.connector.seek(P0, member.kafka.ends[P0]),
    lambda member: member.stream.seek(P0, member.kafka.ends[P0]),
]
LOOKING = [
    lambda member: member.connector.status,
    lambda member: member.connector.progress,
    lambda member: member.connector.counters,
    lambda member: member.connector.vitals,
    lambda member: member.connector.wait_until(lambda status: True, 60),
    lambda member: member.connector.at_shutdown(lambda: None),
]
DOING = [
    lambda member: member.connector.commit_offsets(),
    lambda member: member.connector.commit_offsets({P0: 0}, unfenced=True),
    lambda member: member.connector.log_ends([P0]),
    lambda member: member.connector.lag(),
    lambda member: member.connector.position(P0),
    lambda member: member.connector.committed([P0]),
    lambda member: member.connector.paused(),
    lambda member: member.connector.pause([P0]),
    lambda member: member.connector.resume([P0]),
    lambda member: member.connector.seek(NOT_MINE, 0),
    lambda member: member.stream.pause(),
    lambda member: member.stream.resume(),
    lambda member: member.stream.seek(NOT_MINE, 0),
]
NOT_AGAIN = [
    lambda member: member.connector.create_message_streams({"t": 1}),
    lambda member: member.connector.set_rebalance_listener(None),
]


def in_time(work):
    """Run work() on another thread: if it waits for a lock of its own thread, it never ends, and the test fails."""
    raised = []

    def run():
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for itself"
    if raised:
        raise raised[0]


@pytest.mark.parametrize("outer", OUTER, ids=range(len(OUTER)))
def test_a_call_in_a_handler_does_its_work_or_says_that_it_interrupts_another(outer):
    member = Member()
    inside = []

    def handle():
        for call in LOOKING:
            call(member)
        refused = []
        for call in DOING:
            try:
                call(member)
            except CallInProgressError as error:
                refused.append(error)
            except NotAssignedError:
                continue
        inside.append(bool(refused))
        for call in NOT_AGAIN:
            with pytest.raises((CallInProgressError, MessageStreamsExistError)):
                call(member)

    def at_every_line():
        for line in count():
            with AtLine(line, handle) as handler:
                outer(member)
            if not handler.struck:
                return

    with member.connector:
        member.join()
        in_time(at_every_line)
        assert any(inside), "no handler interrupted a call"
        member.produce(2)
        in_time(lambda: iterate(member))
        assert member.got == list(range(member.kafka.ends[P0])) or outer not in (iterate, take_one, commit)
        member.connector.commit_offsets()
        assert int(member.admin.get_data("/consumers/g/offsets/t/0").data) == member.kafka.ends[P0]


def test_each_call_works_in_a_handler_that_interrupts_a_call_of_another_consumer():
    member, other, reading = Member(), Member(), Reading()

    def handle():
        for call in (*LOOKING, *DOING):
            with contextlib.suppress(NotAssignedError):
                call(member)

    def at_every_line(call):
        for line in count():
            with AtLine(line, handle) as handler:
                call()
            if not handler.struck:
                return

    with member.connector, other.connector, reading.consumer:
        member.join()
        other.join()
        in_time(lambda: at_every_line(lambda: take_one(other)))
        in_time(lambda: at_every_line(lambda: commit(other)))
        in_time(lambda: at_every_line(reading.calls()[0]))
        take_one(member)


@pytest.mark.parametrize("take", [take_one, take_batch, iterate])
def test_a_handler_that_reads_the_stream_that_it_interrupts_loses_and_repeats_nothing(take):
    member = Member()
    refused = []

    def handle():
        try:
            member.got.append(next(member.stream).offset())
        except CallInProgressError as error:
            refused.append(error)
        except ConsumerTimeoutError:
            return

    def at_every_line():
        for line in count():
            with AtLine(line, handle) as handler:
                try:
                    take(member)
                except ConsumerTimeoutError:
                    continue
            if not handler.struck:
                return

    with member.connector:
        member.join()
        in_time(at_every_line)
        in_time(lambda: iterate(member))
    assert len(refused) > 10
    assert sorted(member.got) == list(range(member.kafka.ends[P0]))


def test_a_handler_that_interrupts_joining_cannot_join_and_joining_goes_on():
    for line in range(0, 400, 7):
        member = Member()

        def handle(member=member):
            with pytest.raises(StreamError):
                member.connector.create_message_streams({"t": 1})
            with pytest.raises(StreamError):
                member.connector.commit_offsets()

        def join(member=member, line=line, handle=handle):
            with AtLine(line, handle) as handler:
                member.join()
                handler.struck = True

        with member.connector:
            in_time(join)
            assert len(member.admin.get_children("/consumers/g/ids")) == 1


def test_the_function_of_wait_until_may_call_the_connector():
    member = Member()
    with member.connector:
        member.join()
        take_one(member)
        next_one = lambda status: member.connector.commit_offsets().committed[P0].offset == 1  # noqa: E731
        assert member.connector.wait_until(next_one, 60)


def test_of_two_threads_that_join_one_does():
    member = Member()
    start = member.store.start
    refused = []

    def join_too():
        try:
            member.connector.create_message_streams({"t": 1})
        except MessageStreamsExistError as error:
            refused.append(error)

    member.store.start = lambda: (in_time(join_too), start())
    with member.connector:
        member.join()
        assert len(refused) == 1
        take_one(member)


def test_joining_may_be_tried_again_after_an_error_that_passes():
    member = Member()
    start, errors = member.store.start, [SessionExpiredError()]

    def fail_once():
        if errors:
            raise errors.pop()
        start()

    member.store.start = fail_once
    with member.connector:
        with pytest.raises(SessionExpiredError):
            member.join()
        member.join()
        take_one(member)


# The other consumer


class Reading:
    def __init__(self):
        member = Member()
        self.kafka, self.admin = member.kafka, member.admin
        self.kafka.produce(P0, 3)
        self.store = MemoryStore(member.zookeeper)
        self.fetcher = FakeFetcher(self.kafka)
        self.consumer = SimpleConsumer(
            store=self.store,
            fetcher=self.fetcher,
            log_offsets=FakeFetchers(self.kafka),
            zookeeper_connect="memory",
        )

    def calls(self):
        return [
            lambda: self.consumer.fetch(P0, 0, 2),
            lambda: self.consumer.offsets_before(P0, -1),
            lambda: self.consumer.partitions("t"),
        ]


@pytest.mark.parametrize("outer", range(3))
def test_a_simple_consumers_call_in_a_handler_says_that_it_interrupts_another(outer):
    reading = Reading()
    refused = []

    def handle():
        for call in reading.calls():
            try:
                call()
            except CallInProgressError as error:
                refused.append(error)

    def at_every_line():
        for line in count():
            with AtLine(line, handle) as handler:
                reading.calls()[outer]()
            if not handler.struck:
                return

    with reading.consumer:
        in_time(at_every_line)
    assert len(refused) > 10


@pytest.mark.parametrize("outer", range(3))
def test_a_handler_may_close_a_simple_consumer_whatever_line_it_interrupts(outer):
    for line in count():
        reading = Reading()

        def read(reading=reading, line=line):
            with AtLine(line, reading.consumer.close) as handler, contextlib.suppress(LegacyConsumerError):
                reading.calls()[outer]()
            return handler.struck

        struck = []
        in_time(lambda read=read, struck=struck: struck.append(read()))
        reading.consumer.close()
        eventually(lambda reading=reading: reading.store._closed and reading.fetcher._closed)
        if struck == [False]:
            break
