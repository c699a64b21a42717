"""A seeded world around the fetcher's core: brokers, logs, searches and a decoder, without threads, sockets or bytes.

A record set is three numbers: its first offset, the offset after its last, and the size of a batch that does not come
whole. The world checks at every step that the core keeps its promises; see World.
"""

from __future__ import annotations

import heapq
import random
import struct
from dataclasses import replace

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.columnar.core import (
    BrokerAddress,
    Failed,
    FetchCore,
    FindLeader,
    FindPosition,
    HangUp,
    Open,
    Records,
    Send,
)
from legacy_consumer.fetching.columnar.protocol.fetch import FetchedPartition, FetchResponse, FetchSession
from legacy_consumer.fetching.columnar.settings import FetchSettings
from legacy_consumer.fetching.fetcher import EARLIEST
from zk_layout.model import TopicPartition

BACKOFF_S = 0.2
SETTINGS = replace(
    FetchSettings.of(
        ConsumerConfig.load(
            zookeeper_connect="h:1",
            group_id="g",
            refresh_leader_backoff_ms=int(BACKOFF_S * 1000),
            fetch_wait_max_ms=500,
            socket_timeout_ms=4000,
        )
    ),
    partition_bytes=1000,
    few_partitions_bytes=1000,
    largest_bytes=10_000,
)
_LATENCY_S = 0.01
_WAIT_S = SETTINGS.max_wait_ms / 1000
_MOST_STEPS = 3000
_RECORDS = struct.Struct(">qqq")


def record_set(first, behind, cut=0):
    """Return the bytes of a record set, for glance()."""
    return memoryview(_RECORDS.pack(first, behind, cut))


def glance(records, position):
    """Return (next position, size of an incomplete batch or 0), like the decoder's glance."""
    _, behind, cut = _RECORDS.unpack(records)
    return (position, cut) if cut else (max(behind, position), 0)


class _Line:
    """The broker's side of a connection, and the fetch session on it."""

    def __init__(self):
        self.is_open = False
        self.asked = None
        self.asked_at = 0
        self.heard_at = 0.0
        self.session_id = 0
        self.epoch = 0
        self.known = {}


class World:
    """The schedule of one seed. Raises AssertionError if the core breaks a promise:

    - The user gets each message once and in order, from the position that the user or a search set.
    - An error about an offset comes after all messages before that offset.
    - At most one request is on its way to each broker.
    - The core connects to a broker at most once in a back-off, and asks no broker that throttles.
    - The core does not ask for a partition right after an error of it.
    - The core asks only for assigned partitions.
    - When the faults are over, every partition comes to the end of its log, in bounded time and steps.
    """

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.now = 100.0
        self.core = FetchCore(SETTINGS, glance)
        self.version = rng.choice((2, 4, 10, 10, 10))
        self.brokers = [BrokerAddress(number, "h", 9000 + number, 4) for number in range(rng.choice((1, 2, 2, 3)))]
        self.partitions = [TopicPartition("t", number) for number in range(rng.choice((1, 1, 2, 2, 4)))]
        self.leaders = {tp: rng.choice(self.brokers) for tp in self.partitions}
        self.starts = dict.fromkeys(self.partitions, 0)
        self.ends = {tp: rng.randint(1, 30) for tp in self.partitions}
        self.batch_bytes = {tp: rng.choice((100, 100, 3000)) for tp in self.partitions}
        self.errors = {}
        self.down = set()
        self.mute = set()
        self.torn = set()
        """Brokers that close the connection in the middle of a response."""
        self.slow = set()
        """Brokers that send a response in pieces for longer than socket_timeout_s."""
        self.low_ends = {}
        """{partition: the lower log end that its new leader reports for a moment}."""
        self.damage = 0.0
        self.lines = {}
        self.agenda = []
        self.number = 0
        self.searched = {}
        self.expected = {}
        self.rests = {}
        self.moved_at = {}
        """{partition: the step in which its position was last set}."""
        self.opened_at = {}
        self.throttled_until = {}
        self.session_ids = 0
        self.backlog = []
        self.told = 0
        """The number of errors about an offset that the user got."""
        self.poll_s = rng.choice((0.0, 0.0, 0.2))
        """Seconds between two polls of the user; a slow user has a long backlog while other things happen."""
        self.steps = 0

    def run(self):
        """Run the whole schedule. Returns self."""
        self._change({tp: self.rng.choice((0, 0, EARLIEST)) for tp in self.partitions})
        for _ in range(self.rng.choice((1, 2, 2, 3, 3, 5))):
            self._fault()
            self._until(self.now + self.rng.choice((0.02, 0.3, 1.0, 5.0)))
        self._mend()
        self._until(self.now + 60.0, is_enough=self._is_done)
        assert self._is_done(), f"stuck: {self.expected} of {self.ends}"
        return self

    # Faults and changes

    def _fault(self):
        rng = self.rng
        tp, broker = rng.choice(self.partitions), rng.choice(self.brokers)
        match rng.randrange(17):
            case 0:
                self.leaders[tp] = broker
            case 1:
                self.leaders[tp] = None
            case 2:
                self.down.add(broker)
                self._break_off(broker)
            case 3:
                self.mute.add(broker)
            case 4:
                self._break_off(broker)
            case 5:
                self.starts[tp] = self.ends[tp] = self.ends[tp] + 5
                self.ends[tp] += 10
            case 6:
                self.errors[tp] = rng.choice((-1, 3, 29, 74, 75, 76, 78))
            case 7:
                self.errors[broker] = rng.choice((-1, 31, 70, 71))
            case 8:
                self.errors[broker] = "throttle"
            case 9:
                self.damage = 0.5
            case 10:
                self._change({tp: None})
                if rng.random() < 0.5:
                    self._until(self.now + 0.05)
            case 11:
                self._change({tp: rng.randint(self.starts[tp], self.ends[tp])})
            case 12:
                self._follow(self.core.gone([broker.broker_id], self.now))
            case 13:
                # a new leader has every message, and does not know yet that they are committed (KIP-207)
                self.leaders[tp] = broker
                self.low_ends[tp] = self.rng.randint(self.starts[tp], self.ends[tp])
                self._at(self.rng.choice((0.05, 0.5, 1.5)), self.low_ends.pop, tp, None)
            case 14:
                self.torn.add(broker)
            case 15:
                self.slow.add(broker)
            case 16:
                self.ends[tp] += rng.randint(1, 30)

    def _mend(self):
        self.errors.clear()
        self.down.clear()
        self.mute.clear()
        self.torn.clear()
        self.slow.clear()
        self.damage = 0.0
        for tp in self.partitions:
            self.leaders[tp] = self.leaders[tp] or self.brokers[0]
            self.ends[tp] += 3
        self._change({tp: self.starts[tp] for tp in self.partitions if tp not in self.expected})

    def _is_done(self):
        return all(self.expected.get(tp) == end for tp, end in self.ends.items())

    def _change(self, positions):
        for tp, position in positions.items():
            self.searched.pop(tp, None)
            self.rests.pop(tp, None)
            self.moved_at[tp] = self.steps
            if position is None:
                self.expected.pop(tp, None)
            else:
                self.expected[tp] = position if position >= 0 else None
        self._follow(self.core.change(positions))

    def _break_off(self, broker):
        line = self.lines.pop(broker, None)
        if line is not None:
            self._follow(self.core.lost(broker, "it broke off", self.now))

    # Time

    def _at(self, after_s, act, *what):
        self.number += 1
        heapq.heappush(self.agenda, (self.now + after_s, self.number, act, what))

    def _until(self, deadline, is_enough=lambda: False):
        while not is_enough():
            self.steps += 1
            assert self.steps < _MOST_STEPS, "the core turns in circles"
            for order in self.core.requests(self.now):
                self._obey(order)
            due = self.core.next_deadline()
            comes = self.agenda[0][0] if self.agenda else float("inf")
            if due <= self.now:
                self._look_for_silence()
            elif min(comes, due) > deadline:
                self.now = deadline
                return
            elif comes <= due:
                self.now, _, act, what = heapq.heappop(self.agenda)
                act(*what)
            else:
                self.now = due

    def _look_for_silence(self):
        events = self.core.look_for_silence(self.now)
        for event in events:
            if isinstance(event, HangUp):
                heard_at = self.lines[event.broker].heard_at
                assert self.now >= heard_at + SETTINGS.socket_timeout_s, "left while its response comes"
        self._follow(events)

    # Connections

    def _obey(self, order):
        broker = order.broker
        match order:
            case Open():
                assert broker not in self.lines, "connected to twice"
                assert self.now >= self.opened_at.get(broker, 0.0) + BACKOFF_S - 1e-9, "connected to without a pause"
                self.opened_at[broker] = self.now
                line = self.lines[broker] = _Line()
                if broker not in self.mute:
                    self._at(_LATENCY_S, self._opened, broker, line)
            case HangUp():
                self.lines.pop(broker, None)
            case Send():
                self._asked(order, self.lines[broker])

    def _opened(self, broker, line):
        if self.lines.get(broker) is not line:
            return
        if broker in self.down:
            del self.lines[broker]
            self._follow(self.core.lost(broker, "refused", self.now))
            return
        line.is_open = True
        self.core.opened(broker, self.version)

    def _asked(self, send, line):
        assert line.is_open
        assert line.asked is None, "two requests under way"
        assert self.now >= self.throttled_until.get(send.broker, 0.0), "asked while it throttles"
        line.asked = send
        line.asked_at = self.steps
        line.heard_at = self.now
        if send.session.epoch <= 0:
            line.known = {}
            line.session_id = 0
        line.known.update(send.partitions)
        for tp in send.forgotten:
            assert tp in line.known, "forgotten, and was never named"
            assert tp not in send.partitions
            del line.known[tp]
        for tp, wanted in line.known.items():
            assert tp in self.expected, "asked for, and not assigned"
            assert self.now >= self.rests.get(tp, 0.0), "asked for without a pause"
            assert wanted.max_bytes <= SETTINGS.largest_bytes
        assert send.largest_bytes > sum(wanted.max_bytes for wanted in line.known.values())
        if send.broker not in self.mute:
            wait_s = self._wait_s(send.broker, line)
            if send.broker in self.torn:
                self._at(wait_s, self._hear, send.broker, line)
                self._at(wait_s + self.rng.choice((0.001, 0.5)), self._tear, send.broker, line)
            elif send.broker in self.slow:
                for piece in range(12):
                    self._at(wait_s + piece / 2, self._hear, send.broker, line)
                self._at(wait_s + 6, self._answer, send.broker, line)
            else:
                self._at(wait_s, self._answer, send.broker, line)

    def _hear(self, broker, line):
        if self.lines.get(broker) is line:
            line.heard_at = self.now
            self.core.heard(broker, self.now)

    def _tear(self, broker, line):
        if self.lines.get(broker) is line:
            self._break_off(broker)

    def _wait_s(self, broker, line):
        has_news = any(self._answer_for(tp, wanted, broker) for tp, wanted in line.known.items())
        return _LATENCY_S * self.rng.randint(1, 3) if has_news or broker in self.errors else _WAIT_S

    # Answers

    def _answer(self, broker, line):
        if self.lines.get(broker) is not line:
            return
        send, line.asked = line.asked, None
        fault = self.errors.get(broker)
        throttle_ms = error = 0
        if fault == "throttle":
            throttle_ms = 700
            self.throttled_until[broker] = self.now + 0.7
        elif fault is not None:
            error = fault
            if error not in {70, 71}:
                self.throttled_until[broker] = self.now + BACKOFF_S
        elif send.session.epoch > 0 and send.session != FetchSession(line.session_id, line.epoch):
            error = 71
        if self.version >= 7 and not error:
            if send.session.epoch == 0:
                self.session_ids += 1
                line.session_id, line.epoch = self.rng.choice((0, self.session_ids, self.session_ids)), 0
            line.epoch += 1
        answers = {}
        if not error:
            for tp, wanted in line.known.items():
                answer = self._answer_for(tp, wanted, broker)
                if answer is not None:
                    answers[tp] = answer
                    # an answer to a request from before the position was set does not count
                    if answer.error in {-1, 29, 76, 78} and self.moved_at.get(tp, 0) < line.asked_at:
                        self.rests[tp] = self.now + BACKOFF_S
                elif line.session_id == 0:
                    answers[tp] = FetchedPartition(0, 0, (), None)
        self._follow(self.core.received(broker, FetchResponse(throttle_ms, error, line.session_id, answers), self.now))

    def _answer_for(self, tp, wanted, broker):
        if self.leaders[tp] != broker:
            return FetchedPartition(6, -1, (), None)
        if tp in self.errors:
            return FetchedPartition(self.errors[tp], -1, (), None)
        first, end = wanted.offset, self.low_ends.get(tp, self.ends[tp])
        if not self.starts[tp] <= first <= end:
            return FetchedPartition(1, -1, (), None)
        if first == end:
            return None
        if self.version < 3 and self.batch_bytes[tp] > wanted.max_bytes:
            return FetchedPartition(0, end, (), record_set(first, first, self.batch_bytes[tp]))
        return FetchedPartition(0, end, (), record_set(first, min(end, first + 7)))

    # Requests of the core

    def _follow(self, events):
        for event in events:
            match event:
                case Records() | Failed():
                    self._wait_for_the_user(event)
                case FindLeader(partitions, delay_s):
                    assert delay_s <= BACKOFF_S + 0.7, "a look for leaders waits for too long"
                    for tp in partitions:
                        assert tp in self.expected
                        self._search_leader(tp, delay_s)
                case FindPosition(tp, life, position):
                    self._at(_LATENCY_S, self._found_position, tp, life, position)
                case HangUp():
                    self._obey(event)

    def _wait_for_the_user(self, event):
        """Keep the event for the user's next poll; of equal errors keep only one."""
        if isinstance(event, Failed):
            waiting = [(one.about, one.life) for one in self.backlog if isinstance(one, Failed)]
            if (event.about, event.life) in waiting:
                return
        self.backlog.append(event)
        if len(self.backlog) == 1:
            self._at(self.poll_s, self._poll)

    def _search_leader(self, tp, delay_s):
        search = self.searched[tp] = object()
        self._at(delay_s + _LATENCY_S, self._found_leader, tp, search)

    def _found_leader(self, tp, search):
        if self.searched.get(tp) is not search:
            return
        leader = self.leaders[tp]
        if leader is None or leader in self.down:
            self._follow(self.core.leader_missing(tp, "it has none"))
            self._search_leader(tp, 5 * BACKOFF_S)
            return
        del self.searched[tp]
        self._follow(self.core.leader_found(tp, leader, self.now))

    def _found_position(self, tp, life, position):
        """Keep a position inside the log; ask again if it is after the leader's low end, as PositionFinder does."""
        if self.low_ends.get(tp, position) < position:
            self._at(BACKOFF_S, self._found_position, tp, life, position)
            return
        is_inside = self.starts[tp] <= position <= self.ends[tp]
        if self.core.placed(tp, life, position if is_inside else self.starts[tp]) and not is_inside:
            self.moved_at[tp] = self.steps
            self.expected[tp] = self.starts[tp]

    def _poll(self):
        """Poll as the user: take a record set, or get an error."""
        records = self.backlog.pop(0)
        if self.backlog:
            self._at(self.poll_s, self._poll)
        if isinstance(records, Failed):
            if isinstance(records.about, TopicPartition) and self.core.is_live(records.about, records.life):
                assert f"offset {self.expected[records.about]}:" in str(records.error), "told before its turn"
                self.told += 1
            return
        tp = records.partition
        if self.core.is_live(tp, records.life):
            assert records.position == self.expected[tp], f"{tp}: at {records.position}, not {self.expected[tp]}"
            if self.rng.random() < self.damage:
                self.core.damaged(tp, records.life, records.position, self.now)
                self.rests[tp] = self.now + BACKOFF_S
                self.moved_at[tp] = self.steps
            else:
                first, behind, _ = _RECORDS.unpack(records.records)
                assert first == records.position
                self.expected[tp] = behind
