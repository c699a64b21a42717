"""When the fetcher replaces a handle of librdkafka with another."""

import itertools
import threading
import weakref
from contextlib import suppress
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError

from legacy_consumer.fetching.librdkafka import LibrdkafkaFetcher, fetcher
from legacy_consumer.fetching.librdkafka.client_consumer import ConsumerHandle
from tests.support.at_line import AfterCall, AtLine, interrupt
from zk_layout.model import TopicPartition

OTHER = TopicPartition("t", 0)


class Handle:
    """A handle that gets no messages. The first one made has reported that no broker can be reached."""

    bootstrap_servers = "h:1"
    has_forgotten = False

    def __init__(self, made):
        made.append(self)
        self.may_stand_still = len(made) == 1
        self.positions = {}
        self.is_closed = False

    def assign(self, positions):
        self.positions.update(positions)

    def unassign(self, partitions):
        for tp in partitions:
            self.positions.pop(tp, None)

    def resume_positions(self):
        return self.positions

    def consume(self, _most, _timeout_s):
        return []

    def passed(self):
        return {}

    def lasting_failure(self):
        return None

    def close(self):
        self.is_closed = True


def test_librdkafka_is_begun_again_once_if_nothing_comes_after_no_broker_could_be_reached(monkeypatch):
    """After a power cut of all brokers, librdkafka once kept to the same brokers for ever, and reported no error."""
    monkeypatch.setattr("legacy_consumer.fetching.librdkafka.fetcher._LOOK_S", 0.0)
    made = []
    finder = Mock(is_busy=False)
    fetcher = LibrdkafkaFetcher(lambda: Handle(made), finder, backoff_s=1.0)
    fetcher.assign({OTHER: 5})
    for _ in range(10):
        assert fetcher.poll(100, 0.0) is None
    first, looked, again = made
    assert (first.is_closed, looked.is_closed, again.is_closed) == (True, True, False)
    assert again.positions == {OTHER: 5}
    fetcher.close()


class Queue:
    """A confluent_kafka consumer whose calls return these lists: queued messages, or messages of a later fetch."""

    def __init__(self, *given):
        self._given = list(given)

    def consume(self, most, timeout):
        return self._given.pop(0) if self._given else []


def test_brokers_that_cannot_be_reached_are_told_without_a_count_that_contradicts_it(caplog):
    handle = ConsumerHandle({"bootstrap.servers": "", "group.id": "g"})
    handle.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "0/2 brokers are down"))
    assert [record.getMessage() for record in caplog.records] == ["no broker can be reached"]
    handle.close()


def test_messages_that_were_queued_before_the_brokers_were_gone_do_not_tell_that_librdkafka_fetches_again():
    """A stream that got nothing any more after its broker was killed and restarted had had such messages."""
    handle = ConsumerHandle({"bootstrap.servers": "", "group.id": "g"})
    message = Mock(error=lambda: None)
    handle.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    handle._consumer, real = Queue([message], [], [Mock(error=lambda: "gone")], [], [], [message]), handle._consumer
    told = []
    for _ in range(3):
        handle.consume(1, 0.1)
        told.append(handle.may_stand_still)
    handle.consume(1, 0.1)
    assert (told, handle.may_stand_still) == ([True, True, True], False)
    handle._consumer = real
    handle.close()


STRIKES = [AtLine, AfterCall]


class Sound(Handle):
    """A Handle whose brokers can be reached. It adds itself to alive, a WeakSet."""

    def __init__(self, alive):
        super().__init__([])
        self.may_stand_still = False
        alive.add(self)


@pytest.mark.parametrize("strike_at", STRIKES)
def test_wherever_a_poll_is_interrupted_the_next_one_has_one_handle_with_what_is_assigned(strike_at):
    gone, kept = TopicPartition("t", 1), OTHER
    for number in itertools.count():
        alive = weakref.WeakSet()
        reader = LibrdkafkaFetcher(lambda alive=alive: Sound(alive), Mock(is_busy=False), backoff_s=1.0)
        reader.assign({gone: 5, kept: 6})
        strike = strike_at(number, interrupt, library=(fetcher.__file__,))
        is_left = False
        with suppress(KeyboardInterrupt), strike:
            reader.poll(100, 0.0)
            reader.unassign([gone])
            is_left = True
            reader.poll(100, 0.0)
        if not is_left:
            reader.unassign([gone])
        # as a stream does after an interrupt
        reader.unassign([kept])
        reader.assign({kept: 6})
        reader.poll(100, 0.0)
        [handle] = [one for one in alive if not one.is_closed]
        assert handle.positions == {kept: 6}, f"interrupted at {number}"
        reader.close()
        assert handle.is_closed
        if not strike.struck:
            break
    assert number > 20, "the library's lines were not seen"


@pytest.mark.parametrize("strike_at", STRIKES)
def test_wherever_a_poll_was_interrupted_close_closes_the_handle_from_another_thread_too(strike_at):
    for number in itertools.count():
        alive = weakref.WeakSet()
        reader = LibrdkafkaFetcher(lambda alive=alive: Sound(alive), Mock(is_busy=False), backoff_s=1.0)
        reader.assign({OTHER: 6})
        strike = strike_at(number, interrupt, library=(fetcher.__file__,))
        with suppress(KeyboardInterrupt), strike:
            reader.poll(100, 0.0)
            reader.poll(100, 0.0)
        closing = threading.Thread(target=reader.close)
        closing.start()
        closing.join()
        assert all(one.is_closed for one in alive), f"interrupted at {number}"
        if not strike.struck:
            break
    assert number > 20, "the library's lines were not seen"
