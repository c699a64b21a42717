"""Searches for leaders repeatedly, on a thread, until they are found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from legacy_consumer.errors import KafkaError, MissingListenerError
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.leaders import LeaderReader, Leaders
from zk_layout.errors import LegacyConsumerError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.running_threads import OwnThread, is_running

logger = safe_logger(__name__)

_JOIN_S = 2.0
_LONGEST_BACKOFF = 5
"""The longest pause, in multiples of the back-off."""


def next_pause(pause_s: float, backoff_s: float, *, is_news: bool) -> float:
    """Return the pause before the next search: it grows while the result stays the same.

    A long wait for a leader means that a broker is down, and many members of a host may wait for it.
    """
    return backoff_s if is_news else min(2 * pause_s, _LONGEST_BACKOFF * backoff_s)


class LeaderFinder:
    """Searches for leaders in the background until they are found; its thread lives only during a search.

    on_news: called on that thread whenever there is something to take.
    """

    def __init__(self, reader: LeaderReader, *, backoff_s: float, on_news: Callable[[], None]) -> None:
        self._reader = reader
        self._backoff_s = backoff_s
        self._pause_s = backoff_s
        self._answer: Mapping[TopicPartition, str] = {}
        self._on_news = on_news
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        """Enter it through its lock: an exception inside the Condition's Python code would leave the lock taken."""
        self._open: dict[TopicPartition, float] = {}
        self._found: dict[TopicPartition, BrokerAddress] = {}
        self._reasons: dict[TopicPartition, str] = {}
        self._error: KafkaError | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def search(self, partitions: Collection[TopicPartition], delay_s: float = 0.0) -> None:
        """Search for the leaders of these partitions, after delay_s at the earliest."""
        if not partitions:
            return
        due = time.monotonic() + delay_s
        with self._lock:
            for tp in partitions:
                self._open[tp] = due
                self._found.pop(tp, None)
            if self._closed:
                return
            if not is_running(self._thread):
                self._thread = OwnThread(target=self._run, name="leader-finder")
                self._thread.start()
            self._changed.notify_all()

    def look_now(self) -> None:
        """Search again at once for all missing leaders: something has changed."""
        now = time.monotonic()
        with self._lock:
            self._open = dict.fromkeys(self._open, now)
            self._changed.notify_all()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Stop searching for these partitions."""
        with self._lock:
            for tp in partitions:
                self._open.pop(tp, None)
                self._found.pop(tp, None)
                self._reasons.pop(tp, None)
            self._changed.notify_all()

    @property
    def has_news(self) -> bool:
        """Whether take() has something to return. Takes no lock."""
        return bool(self._found or self._reasons or self._error)

    def take(self) -> tuple[Leaders, KafkaError | None]:
        """Return the leaders found since the last call, reasons for missing ones, and an error that does not pass."""
        with self._lock:
            news, error = Leaders(self._found, self._reasons), self._error
            self._found, self._reasons, self._error = {}, {}, None
            return news, error

    def close(self) -> None:
        """Stop; twice is harmless."""
        with self._lock:
            self._closed = True
            self._open.clear()
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_JOIN_S)

    def _run(self) -> None:
        while (due := self._next_due()) is not None:
            self._look(due)

    def _look(self, due: list[TopicPartition]) -> None:
        """Search once for these."""
        try:
            leaders = self._reader.read(due)
        except MissingListenerError as error:
            self._note(Leaders(), due, error=error)
        except LegacyConsumerError as error:
            self._note(Leaders(missing=dict.fromkeys(due, str(error))), due)
        except Exception as error:
            # without this thread no partition would ever find a leader again
            logger.exception("looking for leaders failed unexpectedly; it is tried again")
            self._note(Leaders(missing=dict.fromkeys(due, repr(error))), due)
        else:
            self._note(leaders, due)

    def _next_due(self) -> list[TopicPartition] | None:
        """Wait until some searches are due; None if there are no more searches."""
        with self._lock:
            while True:
                if self._closed or not self._open:
                    self._thread = None
                    return None
                now = time.monotonic()
                first = min(self._open.values())
                if first <= now:
                    return self._due(now)
                self._changed.wait(first - now)

    def _due(self, now: float) -> list[TopicPartition]:
        return [tp for tp, due in self._open.items() if due <= now]

    def _note(self, leaders: Leaders, asked: list[TopicPartition], error: KafkaError | None = None) -> None:
        is_news = bool(leaders.addresses) or leaders.missing != self._answer
        self._answer = leaders.missing
        self._pause_s = next_pause(self._pause_s, self._backoff_s, is_news=is_news)
        again = time.monotonic() + self._pause_s
        with self._lock:
            self._note_answers(leaders, asked, again)
            self._error = error or self._error
        if leaders.addresses or error is not None:
            self._on_news()

    def _note_answers(self, leaders: Leaders, asked: list[TopicPartition], again: float) -> None:
        for tp in asked:
            if tp not in self._open:
                continue  # forgotten meanwhile
            if tp in leaders.addresses:
                del self._open[tp]
                self._found[tp] = leaders.addresses[tp]
            else:
                self._open[tp] = again
                if tp in leaders.missing:
                    self._reasons[tp] = leaders.missing[tp]
