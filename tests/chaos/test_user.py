"""The user of a chaos run's member records each message that it got exactly once, whatever interrupts it."""

import signal
import threading
from collections import deque
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from legacy_consumer import ConsumerConnector
from tests.chaos.history import HistoryFile, load_history
from tests.chaos.producing import value_of
from tests.chaos.user import User


class Message(SimpleNamespace):
    def partition(self):
        return 0

    def offset(self):
        return self.number

    def value(self):
        return value_of(self.number)


class Stream:
    """Hands out one message after the other, in one step each, until a test ends it."""

    def __init__(self):
        self._stream = SimpleNamespace(_may_hand_out=lambda: True)
        self._messages = deque(Message(number=number) for number in range(100_000))

    def __iter__(self):
        return iter(self._messages.popleft, None)

    def end(self):
        self._messages.clear()
        self._messages.extend([None] * 10)


class Notes(HistoryFile):
    """A history that raises a signal while a message is recorded, and ends the stream after enough events `until`."""

    def __init__(self, folder, stream, strike, until, times):
        super().__init__(folder, "p1")
        self._stream, self._strike, self._until, self._left = stream, strike, until, times

    def write(self, what, *arguments, **details):
        if what == "delivered" and self._strike == signal.SIGTERM:
            signal.raise_signal(self._strike)
        super().write(what, *arguments, **details)
        if what == "delivered" and self._strike == signal.SIGINT:
            signal.raise_signal(self._strike)
        self._left -= what == self._until
        if self._left == 0:
            self._stream.end()


@pytest.fixture(autouse=True)
def handlers(monkeypatch):
    monkeypatch.setattr("tests.chaos.user.STRUCK_WAITING", 1.0)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def consumed(tmp_path, until, times=1, *, strike=None, on="main", prepare=lambda user: None):
    """Consume until the history has an event this many times. Returns: its events."""
    stream = Stream()
    history = Notes(tmp_path, stream, strike, until, times)
    connector = Mock(spec=ConsumerConnector)
    connector.end_streams.__name__, connector.shutdown.__name__ = "end_streams", "shutdown"
    user = User(connector, "each", on, history)
    user.hear_signals()
    running = set(threading.enumerate())
    try:
        prepare(user)
        user.consume(stream)
    finally:
        # a thread that still runs after the handlers are restored would send its next signal to pytest
        for thread in set(threading.enumerate()) - running:
            thread.join()
        history.close()
    events = load_history(tmp_path)
    delivered = [event["first"] for event in events if event.what == "delivered"]
    assert delivered == list(range(len(delivered))), "each message is written down once"
    return [event.what for event in events]


def test_an_interrupt_that_comes_while_a_message_is_written_down_strikes_afterwards(tmp_path):
    assert consumed(tmp_path, "interrupted", 3, strike=signal.SIGINT).count("interrupted") >= 3


def test_sigterm_that_comes_while_a_message_is_written_down_is_heard_afterwards(tmp_path):
    seen = consumed(tmp_path, "told to end", strike=signal.SIGTERM)
    assert (seen[0], "told to end" in seen) == ("delivered", True)


def test_a_message_that_was_handed_out_as_an_interrupt_struck_is_written_down(tmp_path):
    def prepare(user):
        write_down = user._write_down

        def strike():
            user._write_down = write_down
            signal.raise_signal(signal.SIGINT)

        user._write_down = strike

    assert consumed(tmp_path, "interrupted", prepare=prepare)[:2] == ["interrupted", "delivered"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_leaves_the_stream_to_another(tmp_path):
    seen = consumed(tmp_path, "delivered", 3, on="thread", prepare=lambda user: user.die())
    assert (seen.count("died"), seen.count("delivered")) == (1, 3)


def test_interrupts_strike_at_least_as_often_as_is_asked_for(tmp_path):
    def prepare(user):
        threading.Thread(target=user.interrupt, args=(3,)).start()

    assert consumed(tmp_path, "interrupted", 3, prepare=prepare).count("interrupted") >= 3
