"""Decides the requests to brokers, and handles responses, silence, and lost connections.

The core gets each event with the time, and returns events and orders. It keeps one request per broker in flight. Its
driver (fetcher.ColumnarFetcher, with threads) connects, sends, receives, decodes and searches.

    requests(now)                     the orders for connections: Open, Send, HangUp
    opened, heard, received, lost     the results of these orders
    gone, look_for_silence            brokers that left ZooKeeper, silent brokers
    interrupted                       an exception kept the driver from carrying out orders or events
    change, leader_found, placed      changes of the user's code, and results of searches
    damaged                           the decoder cannot read a record set
    next_deadline()                   when requests() and look_for_silence() are to be called at the latest
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping

from legacy_consumer.errors import FetchError, KafkaError
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.core.answers import Answer, judge
from legacy_consumer.fetching.columnar.core.broker import LONGEST_THROTTLE_S, Broker, Line
from legacy_consumer.fetching.columnar.core.events import (
    Event,
    Failed,
    FindLeader,
    FindPosition,
    HangUp,
    Open,
    Order,
    Waiting,
)
from legacy_consumer.fetching.columnar.core.partition import Partition
from legacy_consumer.fetching.columnar.protocol import error_codes
from legacy_consumer.fetching.columnar.protocol.error_codes import Remedy, error_name, remedy
from legacy_consumer.fetching.columnar.protocol.fetch import FetchResponse
from legacy_consumer.fetching.columnar.settings import FetchSettings
from zk_layout.model import TopicPartition

MOST_COMPLAINTS = 20
"""The most complaints about one partition or broker until it is well: each answer of a broker could cause a new one."""

Glance = Callable[[memoryview, int], tuple[int, int]]
"""Returns (position after a record set, bytes of its first batch if that is incomplete), by the batches' heads."""


class FetchCore:
    """The core of one fetcher. Only one thread may use it. Times are seconds of any clock that never goes back."""

    def __init__(self, settings: FetchSettings, glance: Glance) -> None:
        self._settings = settings
        self._glance = glance
        self._partitions: dict[TopicPartition, Partition] = {}
        self._brokers: dict[BrokerAddress, Broker] = {}
        self._known_leaders: dict[TopicPartition, BrokerAddress] = {}
        self._life = 0
        self._resting: list[tuple[float, int, TopicPartition]] = []
        """(end of the pause, a number, partition) of partitions that pause, and of some whose pause is over."""
        self._rests = 0
        self._complaints: dict[object, set[str]] = {}

    # Changes of the user's code

    def change(self, positions: Mapping[TopicPartition, int | None]) -> list[Event]:
        """Fetch each partition from its offset on, EARLIEST or LATEST; None = do not fetch it any more."""
        leaderless: list[TopicPartition] = []
        events: list[Event] = []
        for tp, position in positions.items():
            self._remove(tp)
            self._complaints.pop(tp, None)
            if position is None:
                continue
            self._life += 1
            one = self._partitions[tp] = Partition(self._life, position, is_placed=position >= 0)
            # the last known leader: it answers with an error if it no longer leads
            leader = self._known_leaders.get(tp)
            if leader is None:
                leaderless.append(tp)
            else:
                self._lead(tp, one, leader)
            if not one.is_placed:
                events.append(FindPosition(tp, one.life, position))
        if leaderless:
            events.append(FindLeader(tuple(leaderless)))
        return events

    def is_live(self, tp: TopicPartition, life: int) -> bool:
        """Return whether responses to requests in this life of a partition still count."""
        one = self._partitions.get(tp)
        return one is not None and one.life == life

    # Results of searches and of the decoder

    def leader_found(self, tp: TopicPartition, address: BrokerAddress, now: float) -> list[Event]:
        """Note that this broker leads the partition."""
        one = self._partitions.get(tp)
        if one is None:
            return []
        events: list[Event] = []
        before = one.leader
        if before == address:
            return []
        if before is not None and self._brokers[before].line is not Line.CLOSED:
            # the search was for a silent broker: the leaders of its other partitions are looked for at once
            events = self._lose(self._brokers[before], f"broker {address.broker_id} leads {tp} now", now)
        self._unlead(tp, one)
        self._known_leaders[tp] = address
        self._lead(tp, one, address)
        return events

    def leader_missing(self, tp: TopicPartition, reason: str) -> list[Event]:
        """Note that no leader was found yet, for this reason."""
        events: list[Event] = []
        if tp in self._partitions:
            self._complain(tp, reason, events)
        return events

    def placed(self, tp: TopicPartition, life: int, position: int) -> bool:
        """Take the position that a search found. Returns: False if it moves nothing, or nothing waits for it any more.

        A position inside the log stays, and so do all messages received before it.
        """
        if not self.is_live(tp, life):
            return False
        one = self._partitions[tp]
        if position == one.position:
            one.is_placed = True
            self._ask_for(tp, one)
            return False
        self._place(tp, position)
        return True

    def damaged(self, tp: TopicPartition, life: int, position: int, now: float) -> None:
        """Handle an unreadable record set at this position: ask again from there, after a pause."""
        if self.is_live(tp, life):
            self._partitions[tp].not_before = now + self._settings.backoff_s
            self._place(tp, position)

    # Connections

    def opened(self, address: BrokerAddress, version: int) -> None:
        """Note that a connection is open, with this version of fetch requests."""
        broker = self._brokers[address]
        broker.version = version
        broker.connect()

    def heard(self, address: BrokerAddress, now: float) -> None:
        """Note that a part of a response has come, or waits to be received."""
        broker = self._brokers.get(address)
        if broker is not None:
            broker.heard_at = now

    def lost(self, address: BrokerAddress, reason: str, now: float, error: KafkaError | None = None) -> list[Event]:
        """Note that a connection cannot be opened, or has broken, for this reason. error: one for the user's code."""
        broker = self._brokers.get(address)
        if broker is None:
            return []
        events: list[Event] = [] if error is None else [Failed(error, address)]
        if broker.line is Line.IDLE and broker.has_answered:
            # no request was in flight, so only the connection has ended: it is opened again when it is needed
            broker.hang_up(now, self._settings.backoff_s)
            return [*events, HangUp(address)]
        return events + self._lose(broker, reason, now)

    def gone(self, broker_ids: Collection[int], now: float) -> list[Event]:
        """Note that these brokers left ZooKeeper: other brokers lead their partitions, or will soon."""
        events: list[Event] = []
        for broker in [broker for broker in self._brokers.values() if broker.address.broker_id in broker_ids]:
            if broker.line is not Line.CLOSED:
                events += self._lose(broker, f"broker {broker.address.broker_id} left ZooKeeper", now)
        return events

    def interrupted(self, now: float) -> list[Event]:
        """Open all connections again: an exception may have kept the driver from carrying out the last orders."""
        events: list[Event] = []
        for broker in [broker for broker in self._brokers.values() if broker.line is not Line.CLOSED]:
            events += self._lose(broker, "an exception interrupted the consuming thread", now)
        return events

    def look_for_silence(self, now: float) -> list[Event]:
        """Give up brokers that are silent for too long; before that, search for new leaders of their partitions."""
        events: list[Event] = []
        for broker in [broker for broker in self._brokers.values() if broker.is_awaited]:
            address = broker.address
            if now >= broker.overdue_at(self._settings):
                events += self._lose(broker, f"{address.in_words} does not answer", now)
            elif now >= broker.suspect_at(self._settings):
                broker.suspected_until = now + self._settings.suspicion_s
                if broker.led:
                    events.append(FindLeader(tuple(broker.led)))
        return events

    # Requests

    def requests(self, now: float) -> list[Order]:
        """Return the present orders for connections."""
        while self._resting and self._resting[0][0] <= now:
            tp = heapq.heappop(self._resting)[2]
            one = self._partitions.get(tp)
            if one is not None:
                self._ask_for(tp, one, now)
        orders: list[Order] = []
        spare: list[Broker] = []
        for address, broker in self._brokers.items():
            if broker.is_awaited or now < broker.due_at(self._settings):
                continue
            if not broker.ready:
                spare.append(broker)
            elif broker.line is Line.IDLE:
                orders.append(broker.request(self._partitions, self._settings, now))
            else:
                broker.line = Line.OPENING
                broker.opened_at = broker.heard_at = now
                orders.append(Open(address))
        for broker in spare:
            del self._brokers[broker.address]
            if broker.line is Line.IDLE:
                orders.append(HangUp(broker.address))
        return orders

    def next_deadline(self) -> float:
        """Return the latest time for the next call of requests() or look_for_silence(); infinity: only after an event.

        A time in the past means that one of the two has something to do now.
        """
        due = self._resting[0][0] if self._resting else float("inf")
        for broker in self._brokers.values():
            due = min(due, broker.due_at(self._settings))
        return due

    # Responses

    def received(self, address: BrokerAddress, response: FetchResponse, now: float) -> list[Event]:
        """Handle the response to the request in flight."""
        broker = self._brokers.get(address)
        if broker is None or broker.line is not Line.ASKED:
            return []
        later = now + self._settings.backoff_s
        broker.line = Line.IDLE
        broker.has_answered = True
        if response.throttle_ms > 0:
            broker.ready_at = now + min(response.throttle_ms / 1000, LONGEST_THROTTLE_S)
        if response.error != error_codes.NONE:
            return self._refused(broker, response.error, later)
        broker.answered(response.session_id)
        self._complaints.pop(address, None)
        events: list[Event] = []
        moved: list[TopicPartition] = []
        delay_s = 0.0
        for tp, fetched in response.partitions.items():
            asked = broker.known.get(tp)
            one = self._partitions.get(tp)
            if asked is None or one is None or one.leader != address or one.life != asked.life:
                continue
            answer = judge(tp, one, fetched, self._settings, self._glance)
            self._follow(tp, one, answer, later, events)
            if answer.remedy is Remedy.FIND_LEADER:
                moved.append(tp)
                if one.failures > 1:  # the last search found no other leader
                    delay_s = self._settings.backoff_s
            else:
                self._ask_for(tp, one, now)
        if moved:
            events.append(self._look_for_leaders(moved, delay_s))
        return events

    def _follow(self, tp: TopicPartition, one: Partition, answer: Answer, later: float, events: list[Event]) -> None:
        if answer.rests:
            one.not_before = later
        if answer.error is not None:
            events.append(Failed(answer.error, tp, one.life))
        if answer.complaint is not None:
            self._complain(tp, answer.complaint, events)
        elif answer.is_well:
            self._complaints.pop(tp, None)
        if answer.records is not None:
            events.append(answer.records)
        if answer.remedy is Remedy.FIND_POSITION:
            events.append(FindPosition(tp, one.life, one.position))

    def _refused(self, broker: Broker, code: int, later: float) -> list[Event]:
        events: list[Event] = []
        # it is unknown whether the broker has noted the changes in the request: the next one names all partitions
        broker.lose_session(later)
        match remedy(code):
            case Remedy.NEW_SESSION:
                return events
            case Remedy.TELL_USER:
                text = f"broker {broker.address.broker_id} says {error_name(code)}"
                events.append(Failed(FetchError(None, text), broker.address))
            case _:
                self._complain(broker.address, error_name(code), events)
        broker.ready_at = max(broker.ready_at, later)
        return events

    # Partitions

    def _place(self, tp: TopicPartition, position: int) -> None:
        """Continue at this position; responses in flight and received records of the partition are dropped."""
        one = self._partitions[tp]
        self._life += 1
        one.life = self._life
        one.position = position
        one.is_placed = True
        self._ask_for(tp, one)

    def _ask_for(self, tp: TopicPartition, one: Partition, now: float = float("-inf")) -> None:
        """Ask for the partition with the next request, after its pause, or not at all, by its state."""
        if one.leader is None:
            return
        broker = self._brokers[one.leader]
        if not one.is_placed:
            broker.leave_out(tp)
        elif one.not_before > now:
            broker.leave_out(tp)
            self._rests += 1
            heapq.heappush(self._resting, (one.not_before, self._rests, tp))
        else:
            broker.want(tp, one.larger_bytes)

    def _lead(self, tp: TopicPartition, one: Partition, address: BrokerAddress) -> None:
        broker = self._brokers.get(address)
        if broker is None:
            broker = self._brokers[address] = Broker(address)
        one.leader = address
        broker.led[tp] = None
        self._ask_for(tp, one)

    def _unlead(self, tp: TopicPartition, one: Partition) -> None:
        if one.leader is not None:
            broker = self._brokers[one.leader]
            broker.leave_out(tp)
            broker.led.pop(tp, None)
            one.leader = None

    def _remove(self, tp: TopicPartition) -> None:
        one = self._partitions.get(tp)
        if one is not None:
            # in this order: an exception in between leaves no broker with a partition that is not in _partitions
            self._unlead(tp, one)
            del self._partitions[tp]

    def _look_for_leaders(self, partitions: Collection[TopicPartition], delay_s: float) -> FindLeader:
        for tp in partitions:
            self._unlead(tp, self._partitions[tp])
            self._known_leaders.pop(tp, None)
        return FindLeader(tuple(partitions), delay_s)

    # Brokers

    def _lose(self, broker: Broker, reason: str, now: float) -> list[Event]:
        """Close the broker's connection, and search for the leaders of its partitions."""
        pause_s = broker.hang_up(now, self._settings.backoff_s)
        events: list[Event] = [HangUp(broker.address)]
        self._complain(broker.address, reason, events)
        if broker.led:
            events.append(self._look_for_leaders(list(broker.led), pause_s))
        return events

    def _complain(self, about: object, reason: str, events: list[Event]) -> None:
        """Report a fault that may pass, once until it has: one partition may wait for long while others flow."""
        known = self._complaints.setdefault(about, set())
        if reason not in known and len(known) < MOST_COMPLAINTS:
            known.add(reason)
            events.append(Waiting(about, reason))
