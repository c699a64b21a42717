"""Each call to a broker fails in every way: the fetcher keeps its promises to the member all the same."""

import itertools
import random
import re
import threading
import traceback
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from legacy_consumer.errors import CorruptRecordsError, FetchError, KafkaError
from legacy_consumer.fetching import columnar
from legacy_consumer.fetching.columnar import fetcher
from legacy_consumer.fetching.columnar.core import Records
from legacy_consumer.fetching.columnar.protocol.error_codes import Remedy, error_name, remedy
from legacy_consumer.fetching.columnar.records import Ahead
from tests.support.at_line import AfterCall, AtLine, PassedLines, TimeLimitError, interrupt, time_is_over
from tests.support.memory import memory_for
from tests.support.wire_world import BACKOFF_S, World
from zk_layout.model import TopicPartition

CONNECT = ("refused", "unreachable", "nonsense-host", "takes-and-ends", "lets-nobody-in")
FETCH = (
    "hang-up",
    "answer-and-hang-up",
    "torn",
    "torn-and-silent",
    "silent",
    "late",
    "slow",
    "other-request",
    "two-gigabytes",
    "negative-size",
    "no-size",
    "impossible-count",
    "more-than-its-end",
    "garbage",
    "cut-records",
    "damaged-records",
    "too-large",
    "old-records",
    "no-records",
)
CODES = (*range(-1, 0), *range(1, 112))
ERRORS = tuple(f"{kind} {code}" for kind in ("partition-error", "response-error") for code in CODES)
OFFSETS = ("nobody-answers", "unexpected", "missing", "log-end-behind")
ZOOKEEPER = ("connection-lost", "unexpected", "no-node")
BY_CALL = {"connect": CONNECT, "fetch": (*FETCH, *ERRORS), "offsets": OFFSETS, "zookeeper": ZOOKEEPER}
ONE_OF_EACH = [code for code in CODES if error_name(code) != f"error {code}"] + [111]
LASTING = [
    *(("connect", fault) for fault in CONNECT),
    *(("fetch", fault) for fault in FETCH if fault not in {"late", "slow", "no-records"}),
    *(("fetch", f"partition-error {code}") for code in ONE_OF_EACH),
    *(("fetch", f"response-error {code}") for code in ONE_OF_EACH),
]
WATCHED_S = 10.0
POLLING = tuple(
    str(Path(columnar.__file__).parent / name)
    for name in ("fetcher.py", "backlog.py", "batch.py", "sockets.py", "connection.py", "core", "protocol", "records")
)
"""The polling thread executes the lines of these files. Other threads execute the rest of the package."""


class Reader:
    """Polls, and keeps the messages until the end, because later responses must not change them."""

    def __init__(self, world):
        self.world = world
        self.messages = defaultdict(list)
        self.raised = Counter()
        self.complaints = []
        world.fetcher.assign(dict.fromkeys(world.partitions, 0))

    def poll(self, most=100):
        self.world.now += 1e-5
        try:
            batch = self.world.fetcher.poll(most, 1.0)
        except KafkaError as error:
            self.raised[type(error).__name__] += 1
            self.complaints.append(error)
            return
        for message in batch.messages() if batch is not None else ():
            self.messages[message.partition()].append(message)

    def until(self, is_done, within_s):
        end = self.world.now + within_s
        while not is_done():
            assert self.world.now < end, f"after {within_s} s: {self.counts()}, raised {dict(self.raised)}"
            self.poll()

    def counts(self):
        return {tp.partition: len(self.messages[tp.partition]) for tp in self.world.partitions}

    def has_all(self, partitions):
        return all(len(self.messages[tp.partition]) >= len(self.world.logs[tp]) for tp in partitions)

    def check(self, partitions):
        """Check that each message came once and in order, with the bytes of the log."""
        for tp in partitions:
            got = self.messages[tp.partition]
            assert [m.offset() for m in got] == list(range(len(self.world.logs[tp]))), tp
            assert [m.value() for m in got] == self.world.logs[tp], tp


@pytest.mark.parametrize("seed", range(150))
def test_every_message_comes_once_whatever_fails_for_a_while(seed):
    chosen = random.Random(seed)
    with World(chosen, brokers=chosen.choice([1, 2, 3]), read_committed=chosen.random() < 0.5) as world:
        rates = {call: chosen.choice([0.0, 0.2, 0.6]) for call in BY_CALL}
        failing_until = world.now + chosen.choice([1.0, 5.0, 20.0])

        def fault(broker, call):
            if world.now >= failing_until or chosen.random() >= rates[call]:
                return ""
            return chosen.choice(BY_CALL[call] if chosen.random() < 0.7 else BY_CALL[call][: len(FETCH)])

        world.fault = fault
        reader = Reader(world)
        while world.now < failing_until:
            reader.poll()
            if chosen.random() < 0.02:
                world.lead(chosen.choice(world.partitions), chosen.choice(world.brokers))
        reader.until(lambda: reader.has_all(world.partitions), 60.0)
        reader.check(world.partitions)


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_broker_that_sends_slowly_is_not_taken_for_silent(brokers):
    with World(random.Random(0), brokers=brokers, partitions=2, messages=30) as world:
        slow = world.brokers[0]
        world.slow_s = world.settings.suspicion_s / 3
        world.fault = lambda broker, call: "slow" if (broker, call) == (slow, "fetch") else ""
        reader = Reader(world)
        reads = []

        def is_done():
            if reader.counts()[world.partitions[0].partition] > 0 and not reads:
                reads.append(world.zookeeper_reads)
            return reader.has_all(world.partitions)

        reader.until(lambda: world.zookeeper_reads > 0, 1.0)
        reader.until(is_done, 600.0)
        reader.check(world.partitions)
        assert slow.calls["connect"] == 1
        assert reads == [world.zookeeper_reads], "nobody looked whether another broker leads"


def seek_or_unassign(world, chosen, expected):
    """Seek or unassign one partition, and note that in expected, {assigned partition: its next offset}."""
    tp = chosen.choice(world.partitions)
    expected.pop(tp, None)
    if chosen.random() < 0.7:
        expected[tp] = chosen.randrange(len(world.logs[tp]))
        world.fetcher.assign({tp: expected[tp]})
    else:
        world.fetcher.unassign([tp])


@pytest.mark.parametrize("seed", range(30))
def test_behind_a_change_of_position_comes_what_lies_there_and_nothing_from_before(seed):
    chosen = random.Random(seed)
    with World(chosen, brokers=2, partitions=3, messages=200) as world:
        world.fault = lambda broker, call: chosen.choice(FETCH) if call == "fetch" and chosen.random() < 0.1 else ""
        expected = dict.fromkeys(world.partitions, 0)
        world.fetcher.assign(expected)
        came = 0
        for _ in range(300):
            if chosen.random() < 0.15:
                seek_or_unassign(world, chosen, expected)
            world.now += 0.01
            try:
                batch = world.fetcher.poll(chosen.choice([1, 5, 50]), chosen.choice([0.0, 0.002, 0.1]))
            except KafkaError:
                continue
            for message in batch.messages() if batch is not None else ():
                tp = TopicPartition(message.topic(), message.partition())
                assert expected.get(tp) == message.offset()
                assert message.value() == world.logs[tp][message.offset()]
                expected[tp] += 1
                came += 1
        assert came > 100


@pytest.mark.parametrize("seed", range(60))
def test_an_error_about_an_offset_comes_behind_all_messages_before_it(seed):
    """A user who continues after the offset in the error would otherwise skip messages that still wait."""
    faults = ("too-large", "damaged-records", "partition-error 29", "partition-error 76")
    chosen = random.Random(seed)
    with World(chosen, brokers=2, partitions=3, messages=200, reset_to=None) as world:
        world.fault = lambda broker, call: chosen.choice(faults) if call == "fetch" and chosen.random() < 0.3 else ""
        expected = dict.fromkeys(world.partitions, 0)
        world.fetcher.assign(expected)
        told = []
        for _ in range(400):
            if chosen.random() < 0.05:
                seek_or_unassign(world, chosen, expected)
            world.now += 0.01
            try:
                batch = world.fetcher.poll(chosen.choice([1, 1, 5]), 0.1)
            except FetchError as error:
                told.append((str(error), expected.get(error.partition)))
                continue
            for message in batch.messages() if batch is not None else ():
                tp = TopicPartition(message.topic(), message.partition())
                assert message.offset() == expected[tp]
                expected[tp] += 1
        assert [one for one in told if f"offset {one[1]}" not in re.findall(r"offset \d+", one[0])] == []
        assert {"corrupt" in text for text, _ in told} == {True, False}


@pytest.mark.parametrize("fault", ["response-error 31", "two-gigabytes", "too-large", "partition-error 29"])
def test_an_error_of_one_broker_holds_up_no_message_that_came_before_it_and_none_of_another_broker(fault):
    with World(random.Random(2), brokers=2, partitions=2, messages=60) as world:
        bad, sound = world.brokers
        world.fault = lambda broker, call: fault if broker is bad and bad.calls["fetch"] > 3 else ""
        reader = Reader(world)
        [spoilt] = [tp for tp in world.partitions if world.leaders[tp] is bad]
        [flowing] = [tp for tp in world.partitions if world.leaders[tp] is sound]
        while not reader.raised:
            reader.poll(most=1)
            world.now += 0.01  # the user is slower than the network
        came = reader.counts()[spoilt.partition]
        assert came > 3
        reader.until(lambda: reader.has_all([flowing]), 30.0)
        reader.check([flowing])
        assert reader.counts()[spoilt.partition] == came, "more of it had been received before the error"
        world.fault = lambda *_: ""
        reader.until(lambda: reader.has_all([spoilt]), 30.0)
        reader.check(world.partitions)


def test_an_error_of_a_search_for_a_position_comes_behind_the_messages_before_that_position():
    with World(random.Random(2), brokers=1, partitions=1, messages=30) as world:
        [broker], [tp] = world.brokers, world.partitions
        world.fault = lambda _, call: "refused" if call == "offsets" else ""
        reader = Reader(world)
        while broker.calls["fetch"] < 4:
            reader.poll(most=1)
            world.now += 0.01
        world.batches[tp] = []
        world.logs[tp], whole = [], world.logs[tp]
        came = reader.counts()[0]
        while not reader.raised:
            reader.poll(most=1)
            world.now += 0.01
        outside = world.fetcher._core._partitions[tp].position
        assert came < outside < len(whole)
        assert [m.value() for m in reader.messages[0]] == whole[:outside]
        assert str(reader.complaints[0]) == "t/0: TOPIC_AUTHORIZATION_FAILED"


def test_of_a_fault_that_lasts_one_error_waits_behind_messages_that_are_taken_slowly():
    with World(random.Random(2), brokers=1, partitions=1, messages=60) as world:
        [broker], [tp] = world.brokers, world.partitions
        world.fault = lambda _, call: "partition-error 29" if broker.calls["fetch"] > 3 else ""
        reader = Reader(world)
        while not reader.raised:
            reader.poll(most=1)
            world.now += 2 * BACKOFF_S
        assert reader.counts()[tp.partition] > 3
        assert broker.calls["fetch"] > 6
        assert world.fetcher._backlog.is_empty


@pytest.mark.parametrize(("call", "fault"), LASTING, ids=lambda value: value)
def test_a_broker_that_always_fails_holds_up_nobody_else_and_is_not_overrun(call, fault):
    chosen = random.Random(7)
    with World(chosen, messages=60) as world:
        bad = world.brokers[0]
        world.fault = lambda broker, what: fault if broker is bad and what == call else ""
        sound = [tp for tp in world.partitions if world.leaders[tp] is not bad]
        reader = Reader(world)
        begun = world.now
        reader.until(lambda: reader.has_all(sound), 5.0)
        while world.now < begun + WATCHED_S:
            reader.poll()
        reader.check(sound)
        # the second try comes at once; the fetcher pauses before each later try
        tries = WATCHED_S / BACKOFF_S + 5
        partitions = len(world.partitions) - len(sound)
        assert bad.calls["connect"] <= tries
        # the fetcher finds damaged records only after it has sent the next request
        assert bad.calls["fetch"] <= 2 * tries * partitions
        assert world.zookeeper_reads <= 2 * tries * partitions
        assert sum(reader.raised.values()) <= tries * partitions


def test_damaged_records_of_one_partition_damage_no_other():
    with World(random.Random(1), brokers=1, partitions=3) as world:
        spoilt = world.partitions[1]
        first, count, data = world.batches[spoilt][2]
        world.batches[spoilt][2] = (first, count, data[:30] + bytes([data[30] ^ 1]) + data[31:])
        others = [tp for tp in world.partitions if tp != spoilt]
        reader = Reader(world)
        reader.until(lambda: reader.has_all(others) and reader.raised, 10.0)
        reader.check(others)
        assert [m.offset() for m in reader.messages[spoilt.partition]] == list(range(first))
        assert {(type(error), error.partition) for error in reader.complaints} == {(CorruptRecordsError, spoilt)}


def kept_by(error):
    """Yield the local variables of all frames of an error and of its causes."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename != __file__:
                yield from frame.f_locals.values()
        error = error.__cause__


@pytest.mark.parametrize("is_ahead", [True, False])
def test_an_error_that_is_kept_keeps_no_records(is_ahead, monkeypatch):
    if not is_ahead:
        monkeypatch.setattr("legacy_consumer.fetching.columnar.fetcher.decode_ahead", lambda *_, **__: None)
    with World(random.Random(1), brokers=1, partitions=3) as world:
        for spoilt in world.partitions:
            first, count, data = world.batches[spoilt][0]
            world.batches[spoilt][0] = (first, count, data[:30] + bytes([data[30] ^ 1]) + data[31:])
        reader = Reader(world)
        reader.until(lambda: len({error.partition for error in reader.complaints}) == 3, 10.0)
        kept = [one for error in reader.complaints for one in kept_by(error)]
        assert world.fetcher in kept, "the frames were not seen"
        assert [one for one in kept if isinstance(one, (Ahead, Records, memoryview))] == []


def test_records_behind_the_last_stable_offset_of_a_response_are_handed_out_too():
    """The broker notes that offset and then reads the log, which may hold more committed records by then."""
    with World(random.Random(5), brokers=1, partitions=1, read_committed=True) as world:
        world.stable = lambda tp: 3
        reader = Reader(world)
        reader.until(lambda: reader.has_all(world.partitions), 5.0)
        reader.check(world.partitions)


def test_a_log_end_that_goes_back_for_a_moment_is_no_position_outside_the_log():
    """A new leader knows its high watermark only after its followers have fetched from it (KIP-207)."""
    with World(random.Random(6), brokers=1, partitions=1) as world:
        begun = world.now

        def fault(broker, call):
            is_new = begun + 1.0 < world.now < begun + 3.5
            if is_new and call == "fetch":
                return "partition-error 1"
            return "log-end-behind" if is_new and call == "offsets" else ""

        reader = Reader(world)
        reader.until(lambda: reader.has_all(world.partitions), 0.9)
        world.fault = fault
        [tp] = world.partitions
        while world.now < begun + 6.0:
            reader.poll()
        world.append(tp, [b"more"])
        reader.until(lambda: reader.has_all(world.partitions), 5.0)
        reader.check(world.partitions)


def test_a_log_that_stays_shorter_than_the_position_is_told_and_reset():
    with World(random.Random(6), brokers=1, partitions=1, messages=10) as world:
        [tp] = world.partitions
        world.fetcher.assign({tp: 500})
        moved = []
        begun = world.now
        while not moved:
            assert world.now < begun + 20.0
            batch = world.fetcher.poll(100, 1.0)
            moved += [batch.next_offsets] if batch is not None else []
        assert moved == [{tp: 0}]
        assert world.now > begun + 2.0


def test_of_a_user_that_takes_little_no_more_is_received_than_the_backlog_may_hold():
    bound = 2000
    with World(random.Random(4), messages=3000, backlog_bytes=bound) as world:
        whole = sum(len(data) for batches in world.batches.values() for _, _, data in batches)
        largest = 3 * max(len(data) for batches in world.batches.values() for _, _, data in batches)
        reader = Reader(world)
        for _ in range(300):
            reader.poll(most=1)
            world.now += 0.1  # the user's time for one message
            taken = sum(reader.counts().values())
            # the most bytes of a taken message; one response of each broker may come on top
            per_message = 200
            assert world.received_bytes <= bound + per_message * taken + len(world.brokers) * 4 * largest
        assert world.received_bytes < whole / 2
        reader.until(lambda: reader.has_all(world.partitions), 60.0)
        reader.check(world.partitions)


def test_no_broker_is_left_out_while_the_backlog_is_full_of_another_ones_messages():
    # a response is larger than the backlog, and the next response comes before the user has taken all of it
    with World(random.Random(4), brokers=2, partitions=2, messages=3000, backlog_bytes=100) as world:
        for tp, broker in zip(world.partitions, world.brokers, strict=True):
            world.lead(tp, broker)
        reader = Reader(world)
        for _ in range(600):
            reader.poll(most=1)
            world.now += 0.1
        assert min(reader.counts().values()) > 200


@pytest.mark.parametrize("strike_at", [AtLine, AfterCall])
@pytest.mark.parametrize("by", [interrupt, time_is_over])
def test_a_poll_interrupted_anywhere_leaves_every_message_and_every_broker_where_it_was(strike_at, by):
    lines = PassedLines(POLLING)
    assert not is_struck(lines)
    # only every third call
    for number in lines.first_times(1) if strike_at is AtLine else range(1, 10_000, 3):
        if not is_struck(strike_at(number, by, library=POLLING)):
            return


def is_struck(strike):
    """Interrupt a poll, and check that all messages still come. Returns: whether the interrupt came."""
    with World(random.Random(3), brokers=2, partitions=3, messages=6, backlog_bytes=100) as world:
        reader = Reader(world)
        gone, back, other = world.partitions
        kept = [back, other]
        is_told = is_left = False
        try:
            with strike:
                reader.poll(most=4)
                world.fetcher.unassign([gone, back])
                is_left = True
                reader.poll(most=4)
                world.fetcher.assign({back: len(reader.messages[back.partition])})
                while not reader.has_all(kept):
                    reader.poll(most=4)
        except (KeyboardInterrupt, TimeLimitError):
            is_told = True
        assert is_told == strike.struck, "what strikes comes out as it is"
        if not is_left:
            world.fetcher.unassign([gone])
        # as a stream does, which continues after the messages that its user has got
        world.fetcher.unassign(kept)
        world.fetcher.assign({tp: len(reader.messages[tp.partition]) for tp in kept})
        had = len(reader.messages[gone.partition])
        world.append(gone, [b"after it was left"])
        reader.until(lambda: reader.has_all(kept), 3.0)
        reader.check(kept)
        waits = world.waits
        reader.poll()
        assert world.waits < waits + 500, "processor time at rest"
        assert len(reader.messages[gone.partition]) == had, "what was left is fetched no more"
    return strike.struck


@pytest.mark.parametrize("strike_at", [AtLine, AfterCall])
@pytest.mark.parametrize("is_own_thread", [True, False], ids=["the same thread", "another thread"])
def test_wherever_a_poll_was_interrupted_close_frees_the_sockets(strike_at, is_own_thread):
    for number in itertools.count():
        world = World(random.Random(3), brokers=2, partitions=3, messages=6, backlog_bytes=100)
        strike = strike_at(number, interrupt, library=(fetcher.__file__,))
        with world:
            reader = Reader(world)
            with suppress(KeyboardInterrupt), strike:
                for _ in range(6):
                    reader.poll(most=4)
            closing = threading.Thread(target=world.fetcher.close)
            closing.run() if is_own_thread else closing.start()
            if not is_own_thread:
                closing.join()
            assert world.fetcher._sockets._bell_in.fileno() == -1, f"interrupted at {number}"
        if not strike.struck:
            break
    assert number > 50, "the library's lines were not seen"


def test_a_new_leader_is_gone_to_while_the_old_ones_host_takes_no_connection():
    with World(random.Random(3)) as world:
        dead, other = world.brokers
        world.fault = lambda broker, call: "unreachable" if broker is dead and call == "connect" else ""
        reader = Reader(world)
        reader.until(lambda: reader.has_all(tp for tp in world.partitions if world.leaders[tp] is other), 5.0)
        for tp in world.partitions:
            world.lead(tp, other)
        reader.until(lambda: reader.has_all(world.partitions), 3.0)  # the timeout of the connection alone is 4 s
        reader.check(world.partitions)


def test_a_broker_that_left_zookeeper_is_left_before_it_is_suspected():
    with World(random.Random(9)) as world:
        gone, other = world.brokers
        world.fault = lambda broker, call: "silent" if broker is gone and call == "fetch" else ""
        reader = Reader(world)
        reader.until(lambda: reader.has_all(tp for tp in world.partitions if world.leaders[tp] is other), 5.0)
        assert gone.calls["fetch"]
        world.zookeeper.delete(f"/brokers/ids/{gone.address.broker_id}")
        for tp in world.partitions:
            world.lead(tp, other)
        world.fetcher.note_brokers([gone.address.broker_id])
        reader.until(lambda: reader.has_all(world.partitions), 1.0)  # the fetcher suspects a silent broker after 2 s
        reader.check(world.partitions)


def test_a_late_answer_of_a_silent_leader_does_not_repeat_messages_of_the_new_one():
    with World(random.Random(8), partitions=1) as world:
        old, new = world.brokers
        [tp] = world.partitions
        world.late_s = 3.7  # after the fetcher suspects the broker, before it gives the broker up
        world.fault = lambda broker, call: "late" if broker is old and call == "fetch" else ""
        reader = Reader(world)
        begun = world.now
        while not old.calls["fetch"]:
            reader.poll()
        world.lead(tp, new)
        reader.until(lambda: reader.has_all([tp]), 2.6)
        while world.now < begun + 6.0:
            reader.poll()
        reader.check([tp])


def test_every_error_that_asking_again_does_not_mend_is_told():
    told = [code for code in CODES if remedy(code) is Remedy.TELL_USER]
    for code in told:
        with World(random.Random(code), brokers=1, partitions=1) as world:
            world.fault = lambda broker, call, code=code: f"partition-error {code}" if call == "fetch" else ""
            reader = Reader(world)
            reader.until(lambda reader=reader: reader.raised, 5.0)


def test_without_memory_for_a_response_the_user_is_told_and_nothing_is_lost():
    with World(random.Random(1), brokers=1, largest_bytes=2**31 - 1) as world:
        world.fault = lambda _, call: "two-gigabytes" if call == "fetch" else ""
        reader = Reader(world)
        with memory_for(500_000_000):
            reader.until(lambda: reader.raised["FetchError"], 5.0)
        assert "there is no memory for a response: lower fetch.message.max.bytes" in str(reader.complaints[0])
        world.fault = lambda *_: ""
        reader.until(lambda: reader.has_all(world.partitions), 60.0)
        reader.check(world.partitions)
