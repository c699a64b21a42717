"""The fetcher over librdkafka when librdkafka returns errors instead of messages."""

import threading

import confluent_kafka
import pytest

from legacy_consumer.errors import FetchError, PositionError
from legacy_consumer.fetching.columnar.protocol.error_codes import Remedy, error_name, remedy
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.librdkafka import client_consumer
from legacy_consumer.fetching.librdkafka.client_consumer import ConsumerHandle
from legacy_consumer.fetching.librdkafka.client_faults import FaultKind, kind_of
from legacy_consumer.fetching.librdkafka.fetcher import LibrdkafkaFetcher
from legacy_consumer.fetching.positions import PositionFinder
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
OUTSIDE = confluent_kafka.KafkaError._AUTO_OFFSET_RESET
CORRUPT = confluent_kafka.KafkaError._BAD_MSG
UNREADABLE = [
    CORRUPT,
    confluent_kafka.KafkaError.INVALID_MSG,
    confluent_kafka.KafkaError._BAD_COMPRESSION,
    confluent_kafka.KafkaError._NOT_IMPLEMENTED,
]
ODD_OFFSETS = [None, 3, 7, 8_680_820_740_569_200_760]
"""Offsets in librdkafka's errors: none, the begin of the position's batch, the right one, one of damaged bytes."""


class Handle(ConsumerHandle):
    """A handle of librdkafka without a broker, which returns the messages and errors in `coming` first."""

    def __init__(self):
        super().__init__({"bootstrap.servers": "", "group.id": "g"})
        self.coming = []
        self.placed = {}

    def assign(self, positions):
        self.placed.update(positions)
        super().assign(positions)

    def consume(self, max_messages, timeout_s):
        coming, self.coming = self.coming, []
        return coming or super().consume(max_messages, timeout_s)


@pytest.fixture
def handle():
    return Handle()


@pytest.fixture
def fetching(handle):
    def fetcher(reset_to, backoff_s=0.01):
        kafka = FakeKafka()
        kafka.produce(TP, 9)
        finder = PositionFinder(FakeFetchers(kafka).log_offsets, reset_to=reset_to, backoff_s=0.01)
        made.append(LibrdkafkaFetcher(lambda: handle, finder, backoff_s=backoff_s))
        return made[-1]

    made = []
    yield fetcher
    for one in made:
        one.close()


def error(code, offset):
    named = {} if offset is None else {"offset": offset}
    return confluent_kafka.Message(topic="t", partition=0, error=confluent_kafka.KafkaError(code, "told"), **named)


def message(tp, offset):
    return confluent_kafka.Message(topic=tp.topic, partition=tp.partition, offset=offset, value=b"v")


def is_named(code):
    """Return whether the columnar fetcher knows the code as an error of a partition."""
    return error_name(code) != f"error {code}" and remedy(code) is not Remedy.NEW_SESSION


def places(batch):
    return [(one.partition(), one.offset()) for one in batch.messages()]


@pytest.mark.parametrize("reset_to", [EARLIEST, LATEST, None])
@pytest.mark.parametrize("times", [1, 2])
def test_a_partition_that_librdkafka_gives_up_without_an_offset_goes_on_where_it_stood(
    fetching, handle, reset_to, times
):
    fetcher = fetching(reset_to)
    fetcher.assign({TP: 5})
    assert fetcher.poll(10, 0) is None
    handle.placed.clear()
    handle.coming = [error(OUTSIDE, None)] * times
    found = []
    eventually(lambda: found.append(fetcher.poll(10, 0)) or handle.placed)
    assert handle.placed == {TP: 5}
    assert [batch.next_offsets for batch in found if batch is not None] == [{TP: 5}]


@pytest.mark.parametrize("code", [code for code in range(-1, 107) if is_named(code)], ids=error_name)
def test_both_fetchers_tell_the_user_of_the_same_errors_of_brokers(code):
    """Earlier, the fetchers differed.

    With librdkafka, a broker's error that passes ended the user's loop. The columnar fetcher waited for ever for a
    broker to read records that the broker calls corrupt.
    """
    is_told = kind_of(confluent_kafka.KafkaError(code)) in (FaultKind.LASTING, FaultKind.CORRUPT)
    assert is_told == (remedy(code) is Remedy.TELL_USER)


@pytest.mark.parametrize("change", [lambda one: one.unassign([TP]), lambda one: one.assign({TP: 8})])
def test_no_error_of_a_partition_comes_after_it_was_taken_away_or_moved(fetching, handle, change):
    """As with the columnar fetcher. An earlier version then raised each error that had come before, one a poll."""
    fetcher = fetching(EARLIEST)
    fetcher.assign({TP: 5})
    assert fetcher.poll(10, 0) is None
    handle.coming = [error(confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, None)] * 3
    assert fetcher.poll(10, 0) is None
    with pytest.raises(FetchError, match="t/0: told"):
        fetcher.poll(10, 0)
    assert fetcher.poll(10, 0) is None
    handle.coming = [error(confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, None)]
    assert fetcher.poll(10, 0) is None
    change(fetcher)
    for _ in range(3):
        assert fetcher.poll(10, 0) is None


def test_a_message_that_cannot_be_read_is_asked_for_again_though_its_offset_is_not_told(fetching, handle):
    fetcher = fetching(EARLIEST)
    fetcher.assign({TP: 5})
    assert fetcher.poll(10, 0) is None
    handle.placed.clear()
    handle.coming = [error(CORRUPT, None)]
    assert fetcher.poll(10, 0) is None
    with pytest.raises(FetchError):
        fetcher.poll(10, 0)
    eventually(lambda: fetcher.poll(10, 0) or handle.placed)
    assert handle.placed == {TP: 5}


@pytest.mark.parametrize("then", ["nothing", "it is unassigned", "it is assigned anew"])
def test_a_partition_with_a_message_that_cannot_be_read_rests_before_it_is_asked_for_again(fetching, handle, then):
    fetcher = fetching(EARLIEST, backoff_s=60)
    fetcher.assign({TP: 5, OTHER: 0})
    assert fetcher.poll(10, 0) is None
    handle.placed.clear()
    handle.coming = [error(CORRUPT, None)]
    assert fetcher.poll(10, 0) is None
    with pytest.raises(FetchError):
        fetcher.poll(10, 0)
    if then == "it is unassigned":
        fetcher.unassign([TP])
    elif then == "it is assigned anew":
        fetcher.assign({TP: 7})
    assert fetcher.poll(10, 0) is None
    assert handle.placed == ({TP: 7} if then == "it is assigned anew" else {})
    assert set(handle.assigned) == ({TP, OTHER} if then == "it is assigned anew" else {OTHER})


@pytest.mark.parametrize("code", UNREADABLE)
@pytest.mark.parametrize("offset", ODD_OFFSETS)
@pytest.mark.parametrize("before", [(), (5, 6)])
def test_no_message_behind_one_that_cannot_be_read_comes_and_the_position_stays_before_it(
    fetching, handle, code, offset, before
):
    """librdkafka continues after such a message: an earlier version lost messages, and repeated others at each try."""
    fetcher = fetching(LATEST)
    fetcher.assign({TP: 5, OTHER: 0})
    assert fetcher.poll(10, 0) is None
    handle.placed.clear()
    position = 5 + len(before)
    handle.coming = [
        message(OTHER, 0),
        *(message(TP, number) for number in before),
        error(code, offset),
        message(TP, 8),
        message(OTHER, 1),
        error(OUTSIDE, offset),
        message(TP, 9),
    ]
    batch = fetcher.poll(10, 0)
    assert places(batch) == [(1, 0), *((0, number) for number in before), (1, 1)]
    assert batch.next_offsets == {OTHER: 2, **({TP: position} if before else {})}
    with pytest.raises(FetchError, match=f"offset {position}: told"):
        fetcher.poll(10, 0)
    eventually(lambda: fetcher.poll(10, 0) or handle.placed)
    assert handle.placed == {TP: position}


@pytest.mark.parametrize("offset", ODD_OFFSETS)
def test_a_position_outside_the_log_is_that_behind_the_messages_that_came(fetching, handle, offset):
    fetcher = fetching(None)
    fetcher.assign({TP: 20})
    assert fetcher.poll(10, 0) is None
    handle.coming = [message(TP, 20), error(OUTSIDE, offset)]
    assert fetcher.poll(10, 0).next_offsets == {TP: 21}
    caught = []

    def is_raised():
        try:
            fetcher.poll(10, 0)
        except PositionError as raised:
            caught.append(raised)
        return caught

    eventually(is_raised)
    assert caught[0].offset == 21


class Standing:
    """A consumer of librdkafka whose position has moved without a message, past the end of a transaction."""

    def __init__(self, consumer, offset):
        self._consumer = consumer
        self._offset = offset

    def __getattr__(self, name):
        return getattr(self._consumer, name)

    def position(self, asked):
        for one in asked:
            if one.partition == TP.partition:
                one.offset = self._offset
        return asked


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda fetcher, _: fetcher.assign({TopicPartition("t", 2): 0}),
        lambda fetcher, _: fetcher.unassign([OTHER]),
        lambda _, handle: setattr(handle, "coming", [error(confluent_kafka.KafkaError._TRANSPORT, None)]),
    ],
    ids=["another is assigned", "another is released", "an error comes"],
)
def test_a_position_that_moved_without_a_message_is_told_whatever_comes_before_the_next_look(
    fetching, handle, monkeypatch, meanwhile
):
    """In an earlier version, the committed offset stayed before the end of the transaction until the next message."""
    monkeypatch.setattr("legacy_consumer.fetching.librdkafka.fetcher._PASSED_S", 0.0)
    fetcher = fetching(LATEST)
    fetcher.assign({TP: 5, OTHER: 0})
    assert fetcher.poll(10, 0) is None
    handle._consumer = Standing(handle._consumer, 9)
    meanwhile(fetcher, handle)
    told = {}
    for _ in range(3):
        batch = fetcher.poll(10, 0)
        told.update(batch.next_offsets if batch is not None else {})
    assert told == {TP: 9}


class NeverClosed:
    """A consumer of librdkafka whose close() waits until the test sets the event."""

    def __init__(self, consumer, told):
        self._consumer = consumer
        self._told = told

    def __getattr__(self, name):
        return getattr(self._consumer, name)

    def close(self):
        self._told.wait()
        self._consumer.close()


def test_a_handle_that_librdkafka_does_not_close_holds_up_neither_fetching_nor_the_end(monkeypatch, caplog):
    monkeypatch.setattr(client_consumer, "_CLOSE_WAIT_S", 0.05)
    told = threading.Event()
    handles = []

    def open_handle():
        handles.append(Handle())
        handles[-1]._consumer = NeverClosed(handles[-1]._consumer, told)
        return handles[-1]

    finder = PositionFinder(FakeFetchers(FakeKafka()).log_offsets, reset_to=EARLIEST, backoff_s=0.01)
    fetcher = LibrdkafkaFetcher(open_handle, finder, backoff_s=0.01)
    try:
        fetcher.assign({TP: 5})
        assert fetcher.poll(10, 0) is None
        handles[0].note_forgotten()
        eventually(lambda: fetcher.poll(10, 0) or len(handles) == 2)
        assert handles[1].placed == {TP: 5}
        fetcher.close()
        assert caplog.text.count("does not close a handle") == 2
    finally:
        told.set()
        eventually(lambda: not any(thread.name == "librdkafka-close" for thread in threading.enumerate()))
