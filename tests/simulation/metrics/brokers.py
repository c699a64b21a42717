"""Brokers of a scene: logs that grow, lose their beginning to retention, end and begin again; and their clients."""

from __future__ import annotations

import threading

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from tests.support.fake_kafka import FakeBatch, FakeMessage
from zk_layout.model import TopicPartition

BROKERS = 3
ANSWER_S = 5.0
"""Seconds for which a client waits for a broker that does not answer."""


class Brokers:
    """begins, ends: {partition: first offset}, {partition: offset after the last}.

    The leader of a partition is the broker with the partition's number modulo BROKERS.
    dead: brokers that refuse connections. frozen: brokers that accept them and do not answer.
    """

    def __init__(self, clock):
        self.clock = clock
        self.begins = {}
        self.ends = {}
        self.dead = set()
        self.frozen = set()

    def create(self, topic, partitions):
        for number in range(partitions):
            self.begins[TopicPartition(topic, number)] = self.ends[TopicPartition(topic, number)] = 0

    def delete(self, topic):
        for tp in [tp for tp in self.ends if tp.topic == topic]:
            del self.begins[tp], self.ends[tp]

    def answers(self, tp):
        """Return whether the partition exists and its leader answers."""
        return tp in self.ends and not {tp.partition % BROKERS} & (self.dead | self.frozen)


class Client:
    """One process's access to the brokers: a FetcherFactory, and LogOffsets. is_cut: no packet gets through."""

    def __init__(self, brokers):
        self.brokers = brokers
        self.is_cut = False
        self.placed = {}
        """{partition: the offset to which a fetcher moved a position outside the log}."""
        self.questions = []
        """[(time when the answer is due, event to set then, thread that waits for it)]."""

    def check_access(self):
        pass

    def note_brokers(self, gone):
        pass

    def fetcher(self):
        return SceneFetcher(self)

    def log_offsets(self):
        return self

    def close(self):
        pass

    def sees(self, tp):
        return not self.is_cut and self.brokers.answers(tp)

    @property
    def waits(self):
        """Whether a question takes ANSWER_S now until it is answered or refused."""
        return self.is_cut or bool(self.brokers.frozen)

    @property
    def is_waited_for(self):
        """Whether a scrape gets no answer in time now."""
        return self.waits or bool(self.questions)

    def latest(self, partitions):
        return self._ask(partitions, self.brokers.ends)

    def earliest(self, partitions):
        return self._ask(partitions, self.brokers.begins)

    def _ask(self, partitions, where):
        if self.waits and threading.current_thread() is not threading.main_thread():
            answered = threading.Event()
            self.questions.append((self.brokers.clock.now + ANSWER_S, answered, threading.current_thread()))
            answered.wait()
        found = {tp: where[tp] for tp in partitions if self.sees(tp)}
        if partitions and (self.is_cut or len(self.brokers.dead | self.brokers.frozen) == BROKERS):
            raise BrokersUnavailableError("no broker answers")
        return found

    def pass_time(self, now=float("inf")):
        """End the questions that have waited for long enough."""
        due = [one for one in self.questions if one[0] <= now]
        self.questions = [one for one in self.questions if one[0] > now]
        for _, answered, thread in due:
            answered.set()
            thread.join()


class SceneFetcher:
    """A fetcher that reports where it begins partitions whose position is outside the log, as fetching.fetcher says."""

    def __init__(self, client):
        self._client = client
        self._positions = {}
        self._changes = []
        self._polls = 0

    def assign(self, positions):
        self._changes.append(dict(positions))

    def unassign(self, partitions):
        self._changes.append(dict.fromkeys(partitions))

    def poll(self, max_messages, timeout_s):
        changes, self._changes = self._changes, []
        for change in changes:
            self._positions.update(change)
        self._positions = {tp: at for tp, at in self._positions.items() if at is not None}
        brokers = self._client.brokers
        seen = [tp for tp in sorted(self._positions) if self._client.sees(tp)]
        placed = {tp: at for tp in seen if (at := self._placed(tp, brokers)) != self._positions[tp]}
        if placed:
            self._positions.update(placed)
            self._client.placed.update(placed)
            batch = FakeBatch([])
            batch.next_offsets = placed
            return batch
        messages = []
        # another partition comes first in each poll
        self._polls += 1
        turn = self._polls % max(1, len(seen))
        for tp in (*seen[turn:], *seen[:turn]):
            at = self._positions[tp]
            end = min(brokers.ends[tp], at + max_messages - len(messages))
            messages += [FakeMessage(tp, number) for number in range(at, end)]
            self._positions[tp] = end
        return FakeBatch(messages) if messages else None

    def _placed(self, tp, brokers):
        at = self._positions[tp]
        if at == LATEST:
            return brokers.ends[tp]
        outside = not brokers.begins[tp] <= at <= brokers.ends[tp]
        return brokers.begins[tp] if at == EARLIEST or outside else at

    def wake(self):
        pass

    def close(self):
        pass
