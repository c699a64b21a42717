"""Logs in memory, and fetchers over them that keep the promises of legacy_consumer.fetching.fetcher."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

from legacy_consumer.errors import NoCommittedOffsetError, OffsetOutOfRangeError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST, NO_POSITION
from zk_layout.model import TopicPartition


@dataclass(frozen=True)
class FakeMessage:
    tp: TopicPartition
    number: int

    def topic(self):
        return self.tp.topic

    def partition(self):
        return self.tp.partition

    def offset(self):
        return self.number

    def key(self):
        return None

    def value(self):
        return f"{self.tp}@{self.number}".encode()

    def timestamp(self):
        return (0, 0)

    def headers(self):
        return None


class FakeBatch:
    def __init__(self, messages, placed=()):
        """placed: {partition: the position that the fetcher set}."""
        self._messages = messages
        self.next_offsets = {**dict(placed), **{message.tp: message.number + 1 for message in messages}}

    def __len__(self):
        return len(self._messages)

    def messages(self):
        return self._messages


class FakeKafka:
    """ends: {partition: number of messages}."""

    def __init__(self):
        self.ends = defaultdict(int)
        self.grown = threading.Condition()

    def truncate(self, tp, end):
        """Cut the log, as when a broker that lacks the last messages becomes the leader."""
        with self.grown:
            self.ends[tp] = end

    def produce(self, tp, count=1):
        with self.grown:
            self.ends[tp] += count
            self.grown.notify_all()


class FakeFetcher:
    def __init__(self, kafka, *, resets=True):
        self._kafka = kafka
        self._resets = resets
        self._has_told = False
        self._positions = {}
        self._lock = threading.Lock()
        self._changes = []
        self._closed = False
        self.before_poll_begins = lambda: None
        self.before_poll_returns = lambda: None

    def assign(self, positions):
        with self._lock:
            self._changes.append(("assign", dict(positions)))

    def unassign(self, partitions):
        with self._lock:
            self._changes.append(("unassign", list(partitions)))

    def poll(self, max_messages, timeout_s):
        self.before_poll_begins()
        with self._lock:
            changes, self._changes = self._changes, []
        for what, which in changes:
            for tp in which:
                if what == "unassign":
                    self._positions.pop(tp, None)
                else:
                    position = which[tp]
                    self._positions[tp] = {EARLIEST: 0, LATEST: self._kafka.ends[tp]}.get(position, position)
        self._tell_of_the_lost()
        placed = self._place_the_lost()
        if placed:
            return FakeBatch([], placed)
        with self._kafka.grown:
            messages = self._fetch(max_messages)
            if not messages and timeout_s > 0:
                self._kafka.grown.wait(min(timeout_s, 0.005))
                messages = self._fetch(max_messages)
        self.before_poll_returns()
        return FakeBatch(messages) if messages else None

    def _tell_of_the_lost(self):
        """Raise an error about a partition without a valid position, in every other poll, so that the others flow."""
        self._has_told = not self._has_told
        for tp, position in sorted(self._positions.items()):
            if self._has_told and position == NO_POSITION:
                raise NoCommittedOffsetError(tp, 0, self._kafka.ends[tp])
            if self._has_told and position > self._kafka.ends[tp] and not self._resets:
                raise OffsetOutOfRangeError(tp, position, 0, self._kafka.ends[tp])

    def _place_the_lost(self):
        """Move positions beyond their logs' ends to the beginning, as with auto.offset.reset=smallest."""
        ends = self._kafka.ends
        placed = {tp: 0 for tp, position in self._positions.items() if position > ends[tp]} if self._resets else {}
        self._positions.update(placed)
        return placed

    def _fetch(self, max_messages):
        messages = []
        for tp in sorted(tp for tp, position in self._positions.items() if position != NO_POSITION):
            while self._positions[tp] < self._kafka.ends[tp] and len(messages) < max_messages:
                messages.append(FakeMessage(tp, self._positions[tp]))
                self._positions[tp] += 1
        return messages

    def wake(self):
        with self._kafka.grown:
            self._kafka.grown.notify_all()

    def close(self):
        self._closed = True


class FakeFetchers:
    def __init__(self, kafka, *, resets=True):
        """resets: whether auto.offset.reset is smallest or largest, not none."""
        self.kafka = kafka
        self.resets = resets
        self.made = []
        self.refusal = None
        self.gone = []

    def note_brokers(self, gone):
        self.gone.append([*gone])

    def check_access(self):
        if self.refusal is not None:
            raise self.refusal

    def fetcher(self):
        self.made.append(FakeFetcher(self.kafka, resets=self.resets))
        return self.made[-1]

    def log_offsets(self):
        return self

    def earliest(self, partitions):
        return dict.fromkeys(partitions, 0)

    def latest(self, partitions):
        return {tp: self.kafka.ends[tp] for tp in partitions}

    def at_time(self, partition, time_ms):
        """Return the log's beginning or end; None for any other time, as if no message were as new."""
        return {EARLIEST: 0, LATEST: self.kafka.ends[partition]}.get(time_ms)

    def before(self, partition, time_ms, most):
        """Return offsets as the old ListOffsets does, for segments of three messages."""
        end = self.kafka.ends[partition]
        begins = range(end - end % 3 or end, -1, -3) if time_ms == LATEST else [0]
        return [end, *(begin for begin in begins if begin < end)][:most] if time_ms == LATEST else [0]

    def close(self):
        pass
