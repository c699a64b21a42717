"""Finds unknown positions: the ends of logs, and the new position of a partition whose old one is outside its log.

A thread asks the brokers, so that flowing partitions need not wait for one without a leader. It lives only during a
search. It retries until a passing error is over. Any other error ends the search, and take() raises it; then the
search begins again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from legacy_consumer.errors import NoCommittedOffsetError, OffsetOutOfRangeError, PositionError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST, NO_POSITION, LogOffsets
from zk_layout.errors import LegacyConsumerError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.running_threads import OwnThread, is_running
from zk_layout.signals import Flag

logger = safe_logger(__name__)

_JOIN_S = 2.0
LOG_END_WAIT_S = 3.0
"""A new leader's log may end lower than that of the last leader, until its followers have caught up (KIP-207). So a
position beyond the end counts as outside the log only after this time, in seconds.
"""
_MOST_LINES = 3
"""The most resets of one search that have a line at level WARNING: hundreds of partitions may be reset at once."""
_REASON_S = 2.0
"""Seconds between two requests for the reason of a missing position: with its leader down the answer takes long, and
other partitions wait.
"""


@dataclass(frozen=True, slots=True)
class Search:
    """A position to be found. life: distinguishes two assignments of one partition."""

    partition: TopicPartition
    life: int
    position: int


@dataclass(frozen=True, slots=True)
class Found:
    """The position from which a partition continues, or the error that says why it cannot."""

    search: Search
    offset: int
    outside: PositionError | None = None
    """Set if the position lies outside the log, or there is none."""


def settle(search: Search, earliest: int, latest: int, reset_to: int | None) -> Found:
    """Decide from the log's ends. A position inside the log stays: the broker had only not caught up.

    reset_to: EARLIEST or LATEST; None = a position outside the log, and NO_POSITION, stay as they are.
    """
    position = search.position
    if earliest <= position <= latest:
        return Found(search, position)
    ends = {EARLIEST: earliest, LATEST: latest}
    if position in ends:
        return Found(search, ends[position])
    if position == NO_POSITION:
        return Found(search, position, NoCommittedOffsetError(search.partition, earliest, latest))
    outside = OffsetOutOfRangeError(search.partition, position, earliest, latest)
    return Found(search, position if reset_to is None else ends[reset_to], outside)


def _tell(resets: Sequence[Found]) -> None:
    """Log the new positions of partitions whose positions were outside their logs."""
    for number, one in enumerate(resets):
        level = logging.WARNING if number < _MOST_LINES else logging.DEBUG
        logger.log(level, "%s; going to %d, by auto.offset.reset", one.outside, one.offset)
    if len(resets) > _MOST_LINES:
        logger.warning(
            "%d more partitions go on elsewhere, by auto.offset.reset; level DEBUG has a line for each",
            len(resets) - _MOST_LINES,
        )


class StandingStill:
    """The partitions of one fetcher that wait for a seek by the user's code; for its polling thread.

    Polls raise the first error of each, one a poll, then one error every backoff_s: between two errors the other
    partitions flow.
    """

    def __init__(self, backoff_s: float) -> None:
        self._backoff_s = backoff_s
        self._untold: dict[TopicPartition, PositionError] = {}
        self._told: dict[TopicPartition, PositionError] = {}
        self._next_time = 0.0

    def add(self, error: PositionError) -> None:
        """Raise this error repeatedly until its partition is forgotten."""
        self._untold[error.partition] = error

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these partitions: they continue elsewhere, or are not fetched any more."""
        for tp in partitions if self._untold or self._told else ():
            self._untold.pop(tp, None)
            self._told.pop(tp, None)

    def tell(self) -> None:
        """Raise the next error if it is due."""
        waiting = self._untold or self._told
        if not waiting:
            return
        now = time.monotonic()
        if not self._untold and now < self._next_time:
            return
        self._next_time = now + self._backoff_s
        tp = next(iter(waiting))
        error = self._told[tp] = waiting.pop(tp)
        raise error.with_traceback(None)


class PositionFinder:
    """Searches in the background, and keeps found positions until they are taken."""

    def __init__(self, log_offsets: Callable[[], LogOffsets], *, reset_to: int | None, backoff_s: float) -> None:
        self._log_offsets = log_offsets
        self._reset_to = reset_to
        self._backoff_s = backoff_s
        self._lock = threading.Lock()
        self._news = Flag()
        """Ends the pause between two tries."""
        self._closed = False
        self._open: dict[TopicPartition, Search] = {}
        self._found: list[Found] = []
        self._failure: LegacyConsumerError | None = None
        self._thread: threading.Thread | None = None
        self._complained = False
        self._next_reason = 0.0
        self._reasons_asked = 0
        self._behind_the_end: dict[Search, float] = {}
        """{search whose position is beyond the log's end: since when, by time.monotonic()}."""

    @property
    def resets(self) -> bool:
        """Whether a position outside the log is reset; otherwise it is an error."""
        return self._reset_to is not None

    @property
    def is_busy(self) -> bool:
        """Whether a search is running, or its result was not taken yet."""
        return bool(self._open or self._found)

    def search(self, searches: Collection[Search]) -> None:
        """Search for these positions, too; each replaces an earlier search of its partition."""
        with self._lock:
            self._open.update((search.partition, search) for search in searches)
            self._go_on()

    def _go_on(self) -> None:
        if self._failure is None and self._open and not self._closed and not is_running(self._thread):
            self._thread = OwnThread(target=self._run, name="position-finder")
            self._thread.start()

    def look_now(self) -> None:
        """End the pause and ask the brokers again: something has changed."""
        self._news.set()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Stop searching for these partitions."""
        with self._lock:
            for tp in partitions:
                self._open.pop(tp, None)
            if not self._open:
                self._failure = None

    def take(self) -> list[Found]:
        """Return the positions found since the last call. Raises: a lasting error, which has ended the search."""
        if not self._found and self._failure is None:
            return []
        with self._lock:
            found, self._found = self._found, []
            if found or self._failure is None:
                return found
            failure, self._failure = self._failure, None
            self._go_on()
        raise failure

    def close(self) -> None:
        """Stop; twice is harmless."""
        with self._lock:  # _run clears the flag under this lock, so it cannot miss this
            self._closed = True
            self._news.set()
            thread = self._thread
        if thread is not None:
            thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._lock:
                searches = list(self._open.values())
                if not searches or self._closed:
                    self._thread = None
                    return
                self._news.clear()  # a change from now on ends the next pause
            unanswered = self._look(searches)
            if unanswered is None:
                return
            if unanswered:
                self._news.wait(self._backoff_s)  # close() ends it, too

    def _look(self, searches: list[Search]) -> list[Search] | None:
        """Ask once. Returns: the searches to repeat; None after a lasting error."""
        try:
            unanswered = self._ask(searches)
            if unanswered and time.monotonic() >= self._next_reason:
                # an answer for many partitions leaves out some without a reason; an answer for one has the reason.
                # They take turns: one may wait for a leader while another is refused
                self._next_reason = time.monotonic() + _REASON_S
                self._reasons_asked += 1
                self._log_offsets().at_time(unanswered[self._reasons_asked % len(unanswered)].partition, EARLIEST)
        except LegacyConsumerError as error:
            if not error.retriable:
                self._fail(searches, error)
                return None
            self._complain("positions not found yet: %s", error)
            return searches
        except Exception as error:  # noqa: BLE001 - without this thread no position would ever be found again
            self._complain("positions not found yet, for a reason that was not expected: %r", error)
            return searches
        if not unanswered:
            self._complained = False
        return unanswered

    def _complain(self, message: str, error: Exception) -> None:
        """Log an error as a warning once, and its repetitions at level DEBUG."""
        logger.log(logging.DEBUG if self._complained else logging.WARNING, message, error)
        self._complained = True

    def _fail(self, searches: list[Search], error: LegacyConsumerError) -> None:
        with self._lock:
            self._thread = None
            if any(self._open.get(search.partition) is search for search in searches):
                self._failure = error
            self._go_on()

    def _ask(self, searches: list[Search]) -> list[Search]:
        """Ask for the ends of the logs, and note found positions. Returns: the searches without an answer."""
        log_offsets = self._log_offsets()
        partitions = [search.partition for search in searches]
        earliest = log_offsets.earliest(partitions)
        latest = log_offsets.latest(partitions)
        found = [
            settle(search, earliest[search.partition], latest[search.partition], self._reset_to)
            for search in searches
            if search.partition in earliest
            and search.partition in latest
            and not self._may_yet_be_inside(search, latest[search.partition])
        ]
        if self._reset_to is not None:
            _tell([one for one in found if one.outside is not None])
        with self._lock:
            for one in found:
                self._note(one)
        answered = {one.search.partition for one in found}
        return [search for search in searches if search.partition not in answered]

    def _note(self, one: Found) -> None:
        self._behind_the_end.pop(one.search, None)
        if self._open.get(one.search.partition) is one.search:
            del self._open[one.search.partition]
            self._found.append(one)

    def _may_yet_be_inside(self, search: Search, latest: int) -> bool:
        if search.position <= latest:
            return False
        if len(self._behind_the_end) > len(self._open):  # some searches were dropped
            self._behind_the_end = {
                one: since for one, since in self._behind_the_end.items() if one in self._open.values()
            }
        now = time.monotonic()
        return now - self._behind_the_end.setdefault(search, now) < LOG_END_WAIT_S
