"""One broker as the core sees it: its connection, the request in flight, and the contents of the next request.

`ready` holds the partitions to fetch; `changed` and `forgotten` hold the difference to the broker's fetch session. They
are updated when partitions change, so the cost of a request or response depends only on the partitions in it, however
many partitions the session has (KIP-227). Without a session every request names all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.core.events import Send
from legacy_consumer.fetching.columnar.core.partition import Partition
from legacy_consumer.fetching.columnar.protocol.fetch import (
    FIRST_WITH_TOTAL_LIMIT,
    FetchLimits,
    FetchPartition,
    FetchSession,
)
from legacy_consumer.fetching.columnar.settings import FetchSettings
from zk_layout.model import TopicPartition

LONGEST_THROTTLE_S = 60.0


class Asked(NamedTuple):
    """The last request to the broker for a partition."""

    life: int
    offset: int
    max_bytes: int


class Line(Enum):
    """The state of a connection."""

    CLOSED = "closed"
    OPENING = "opening"
    IDLE = "open, nothing under way"
    ASKED = "a response is under way"


@dataclass(slots=True, eq=False)
class Broker:
    """led: the partitions that it leads. ready: the partitions to request now.

    ready_at: no connection or request before this time. heard_at: the time of the request, or of the last byte.
    """

    address: BrokerAddress
    line: Line = Line.CLOSED
    version: int = 0
    ready_at: float = 0.0
    opened_at: float = float("-inf")
    heard_at: float = 0.0
    suspected_until: float = 0.0
    has_answered: bool = False
    """Whether a response has come over the present connection."""
    lost_sessions: int = 0
    """The number of fetch sessions lost in a row."""
    led: dict[TopicPartition, None] = field(default_factory=dict)
    ready: dict[TopicPartition, None] = field(default_factory=dict)
    larger: dict[TopicPartition, int] = field(default_factory=dict)
    """Ready partitions for which the request asks for more bytes than usual."""
    session: FetchSession = field(default_factory=FetchSession)
    known: dict[TopicPartition, Asked] = field(default_factory=dict)
    changed: dict[TopicPartition, None] = field(default_factory=dict)
    forgotten: dict[TopicPartition, None] = field(default_factory=dict)
    usual_bytes: int = 0
    response_bytes: int = 0
    largest_bytes: int = 0
    """The sizes of the last request, as in FetchLimits and Send: this one and the two before it."""
    turn: int = 0

    # The partitions to fetch

    def want(self, tp: TopicPartition, larger_bytes: int) -> None:
        """Ask for this partition from now on, or ask again because it has changed."""
        self.ready[tp] = None
        self.changed[tp] = None
        self.forgotten.pop(tp, None)
        if larger_bytes:
            self.larger[tp] = larger_bytes
        else:
            self.larger.pop(tp, None)

    def leave_out(self, tp: TopicPartition) -> None:
        """Do not ask for this partition."""
        if self.ready.pop(tp, self) is self:
            return
        self.changed.pop(tp, None)
        self.larger.pop(tp, None)
        if tp in self.known:
            self.forgotten[tp] = None

    # The connection

    def connect(self) -> None:
        """Note that the connection is open."""
        self.line = Line.IDLE
        self.has_answered = False

    def hang_up(self, now: float, backoff_s: float) -> float:
        """Note that the connection is closed. Returns: the seconds until it may be opened again.

        At once after a connection that lasted, otherwise after a pause: that a connection can be opened does not prove
        that the broker answers requests.
        """
        self.line = Line.CLOSED
        self._begin_session()
        self.ready_at = max(now, self.ready_at, self.opened_at + backoff_s)
        return self.ready_at - now

    @property
    def is_awaited(self) -> bool:
        """Whether the core waits for the broker's answer, or for the connection."""
        return self.line in (Line.OPENING, Line.ASKED)

    def overdue_at(self, settings: FetchSettings) -> float:
        """Return when the broker has been silent for too long."""
        return self.heard_at + settings.socket_timeout_s + settings.max_wait_ms / 1000

    def suspect_at(self, settings: FetchSettings) -> float:
        """Return when to look for other leaders: a broker may delay an empty answer, but not for this long."""
        return max(self.heard_at + settings.suspicion_s, self.suspected_until)

    def due_at(self, settings: FetchSettings) -> float:
        """Return when the core has to act for this broker, unless an event comes before."""
        if self.is_awaited:
            return min(self.overdue_at(settings), self.suspect_at(settings))
        if self.ready:
            return self.ready_at
        if self.led:
            return float("inf")
        # the core can drop this broker, but not before the pause is over: the pause would be forgotten
        return max(self.ready_at, self.opened_at + settings.backoff_s)

    # Requests

    def request(self, partitions: Mapping[TopicPartition, Partition], settings: FetchSettings, now: float) -> Send:
        """Return the next request. From now on the core waits for the broker."""
        wanted: Mapping[TopicPartition, FetchPartition] = {}
        forgotten: tuple[TopicPartition, ...] = ()
        # otherwise the session does not change, and the request has the sizes of the last one
        if self.session.session_id == 0 or self.changed or self.forgotten:
            wanted, forgotten = self._differences(partitions, settings)
        limits = FetchLimits(settings.max_wait_ms, settings.min_bytes, self.response_bytes, settings.read_committed)
        self.line = Line.ASKED
        self.heard_at = now
        return Send(self.address, self.version, limits, self.session, wanted, forgotten, self.largest_bytes)

    def _differences(
        self, partitions: Mapping[TopicPartition, Partition], settings: FetchSettings
    ) -> tuple[Mapping[TopicPartition, FetchPartition], tuple[TopicPartition, ...]]:
        """Return (the partitions that the next request asks for, the partitions that leave the fetch session).

        Without a session the request names all partitions.
        """
        usual = settings.bytes_of_each(len(self.ready))
        if self.version < FIRST_WITH_TOTAL_LIMIT:
            # the protocol has no limit for the whole response, so each partition gets a part of it
            part = settings.response_bytes // len(self.ready)
            usual = min(usual, max(part, settings.least_partition_bytes))
        if self.session.session_id == 0:
            # without a session a broker fills its answer in the request's order, so each partition comes first in turn
            first = self.turn % len(self.ready)
            self.turn += 1
            names = [*self.ready]
            named = dict.fromkeys((*names[first:], *names[:first]))
            self.known = {}
        else:
            # the size changes only while there are few partitions; for many it is the configured one
            named = self.ready if usual != self.usual_bytes else self.changed
        self.usual_bytes = usual
        wanted: dict[TopicPartition, FetchPartition] = {}
        for tp in named:
            one = partitions[tp]
            asked = Asked(one.life, one.position, max(usual, one.larger_bytes))
            if self.known.get(tp) != asked:
                self.known[tp] = asked
                wanted[tp] = FetchPartition(asked.offset, asked.max_bytes)
        forgotten = tuple(self.forgotten) if self.session.session_id else ()
        for tp in self.forgotten:
            self.known.pop(tp, None)
        self.changed, self.forgotten = {}, {}
        larger = [size for size in self.larger.values() if size > usual]
        self.response_bytes = max(settings.response_bytes, usual, *larger)
        together = usual * (len(self.ready) - len(larger)) + sum(larger)
        self.largest_bytes = settings.largest_response_bytes(together)
        return wanted, forgotten

    def answered(self, session_id: int) -> None:
        """Note that the broker has answered in this session; 0: the broker keeps none."""
        self.lost_sessions = 0
        self.session = self.session.next(session_id)

    def lose_session(self, later: float) -> None:
        """Let the next request begin a new session; after two losses in a row not before `later`.

        A broker that keeps no sessions answers each time that it does not know the last one.
        """
        self._begin_session()
        self.lost_sessions += 1
        if self.lost_sessions > 1:
            self.ready_at = max(self.ready_at, later)

    def _begin_session(self) -> None:
        self.session = FetchSession()
        self.forgotten = {}
