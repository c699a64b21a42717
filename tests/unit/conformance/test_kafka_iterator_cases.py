"""Kafka's expectations of a stream's iterator: no message twice, none after the end, the next one after user errors.

Cases: Kafka 0.10.2.2, ConsumerIteratorTest, and the cases of consumer.timeout.ms in ZookeeperConsumerConnectorTest.
"""

from __future__ import annotations

import pytest

from legacy_consumer.errors import ConsumerTimeoutError
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets.progress import Committed, Progress
from tests.support.fake_kafka import FakeBatch, FakeFetcher, FakeKafka, FakeMessage
from tests.support.group_members import FakeClock
from zk_layout.model import TopicPartition

TP = TopicPartition("topic", 0)
CONSUMED = 5


class TickingClock(FakeClock):
    """A clock that moves on by 10 ms at each reading, so that waits end."""

    def monotonic(self):
        self.now += 0.01
        return self.now


class Rig:
    """A stream whose partition begins at offset 5, and the fetcher that feeds it."""

    def __init__(self, *, at_next=False, consumer_timeout_ms=100):
        self.kafka = FakeKafka()
        self.fetcher = FakeFetcher(self.kafka)
        self.progress = Progress()
        self.stream = GatedStream(
            fetcher=self.fetcher,
            progress=self.progress,
            clock=TickingClock(),
            consumer_timeout_ms=consumer_timeout_ms,
            at_next=at_next,
            on_drained=lambda: None,
        )
        epoch = self.progress.begin(TP, CONSUMED, Committed(None, None))
        self.stream.begin({TP: CONSUMED}, {TP: epoch})

    def consumed(self):
        self.stream.note_progress()
        return self.progress.get(TP).consumed


def test_messages_before_the_position_are_never_handed_out_and_nothing_after_the_end():
    rig = Rig()
    rig.kafka.produce(TP, 10)
    seen = []
    for message in rig.stream:
        seen.append(message.offset())
        if len(seen) == 5:
            rig.stream.end()
    assert seen == [5, 6, 7, 8, 9]
    assert list(rig.stream) == []
    assert rig.consumed() == 10


@pytest.mark.parametrize("at_next", [False, True])
def test_a_user_who_cannot_decode_a_message_gets_the_next_one(at_next):
    """An error of the user's code, which decodes the value, does not harm the iterator."""
    rig = Rig(at_next=at_next)
    rig.kafka.produce(TP, 10)
    messages = iter(rig.stream)
    for expected in range(CONSUMED, 10):
        message = next(messages)
        assert message.offset() == expected
        with pytest.raises(UnicodeDecodeError):
            (b"\xff" + message.value()).decode()
        assert rig.consumed() == (expected + 1 if at_next else expected)


def test_a_timeout_is_raised_as_often_as_it_is_asked_for_and_the_stream_stays_usable():
    rig = Rig()
    rig.kafka.produce(TP, CONSUMED)
    for _ in range(3):
        with pytest.raises(ConsumerTimeoutError):
            next(rig.stream)
    rig.kafka.produce(TP, 1)
    assert next(rig.stream).offset() == CONSUMED
    with pytest.raises(ConsumerTimeoutError):
        next(rig.stream)
    assert rig.consumed() == 6


def test_a_loop_that_timed_out_can_be_begun_again():
    rig = Rig()
    rig.kafka.produce(TP, 6)
    seen = []
    for _ in range(3):
        with pytest.raises(ConsumerTimeoutError):
            seen.extend(message.offset() for message in rig.stream)
        rig.kafka.produce(TP, 1)
    assert seen == [5, 6, 7]


def test_a_position_goes_on_after_gaps_as_compaction_leaves_them():
    rig = Rig()
    batches = iter([FakeBatch([FakeMessage(TP, offset) for offset in (5, 8, 9)]), FakeBatch([FakeMessage(TP, 40)])])
    rig.fetcher.poll = lambda max_messages, timeout_s: next(batches, None)
    messages = iter(rig.stream)
    assert [next(messages).offset() for _ in range(4)] == [5, 8, 9, 40]
    with pytest.raises(ConsumerTimeoutError):
        next(messages)
    assert rig.consumed() == 41


def test_null_keys_and_values_are_handed_out_as_none():
    rig = Rig()

    class Tombstone(FakeMessage):
        def value(self):
            return None

    batches = iter([FakeBatch([Tombstone(TP, 5)])])
    rig.fetcher.poll = lambda max_messages, timeout_s: next(batches, None)
    message = next(iter(rig.stream))
    assert (message.key(), message.value()) == (None, None)


def test_a_rebalance_takes_what_was_fetched_and_the_stream_waits_instead_of_ending():
    rig = Rig()
    rig.kafka.produce(TP, 10)
    assert next(rig.stream).offset() == 5
    rig.stream.stop([TP])
    with pytest.raises(ConsumerTimeoutError):
        next(rig.stream)
    assert rig.stream.undrained([TP]) == frozenset()
    epoch = rig.progress.begin(TP, 8, Committed(None, None))
    rig.stream.begin({TP: 8}, {TP: epoch})
    assert next(rig.stream).offset() == 8
