"""One broker as a fetcher sees it: a connection, opened again when it is lost, and one request under way on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from legacy_consumer.wire.connection import BrokerAddress, Connection
from legacy_consumer.wire.opening import Opening
from legacy_consumer.wire.partition import PartitionState
from legacy_consumer.wire.protocol.fetch import (
    FIRST_WITH_SESSIONS,
    FIRST_WITH_TOTAL_LIMIT,
    FetchLimits,
    FetchPartition,
    FetchResponse,
    FetchSession,
    decode_fetch,
    encode_fetch,
)
from legacy_consumer.wire.protocol.framing import Api
from legacy_consumer.wire.sessions import FetchPlan, FetchSessions
from legacy_consumer.wire.settings import FetchSettings
from zk_layout.model import TopicPartition

_LONGEST_THROTTLE_S = 60.0
_CLOSE_WAIT_S = 1.0

Asked = Mapping[TopicPartition, tuple[int, int]]
"""(life, offset) of every partition in a request."""


class BrokerLink:
    """For the polling thread alone. ready_at: not to be asked before, by time.monotonic()."""

    def __init__(
        self, address: BrokerAddress, settings: FetchSettings, begin_opening: Callable[[BrokerAddress], Opening]
    ) -> None:
        self.address = address
        self.ready_at = 0.0
        self.opened_at = float("-inf")
        """When it was connected to last, or began to be."""
        self.has_answered = False
        """Whether a response has come over this connection."""
        self.lost_sessions = 0
        """In a row."""
        self._settings = settings
        self._begin_opening = begin_opening
        self._opening: Opening | None = None
        self._sessions = FetchSessions()
        self.connection: Connection | None = None
        self._suspected_until = 0.0
        self.asked: Asked = {}
        """What the request under way asks for."""

    @property
    def is_idle(self) -> bool:
        """Whether a request can be sent."""
        return self.connection is not None and not self.connection.is_waiting

    def is_spare(self, now: float) -> bool:
        """Whether nothing is under way on it, nor to be waited for before it may be opened again."""
        return self.is_idle or (self.connection is None and self._opening is None and self.ready_at <= now)

    @property
    def is_waiting(self) -> bool:
        """Whether a response is under way."""
        return self.connection is not None and self.connection.is_waiting

    @property
    def is_opening(self) -> bool:
        """Whether the connection is being opened."""
        return self._opening is not None

    def open(self) -> None:
        """Begin to connect."""
        assert self.connection is None
        assert self._opening is None
        self.opened_at = time.monotonic()
        self._opening = self._begin_opening(self.address)

    def take_opened(self) -> Connection | None:
        """The connection, once, when it has become ready. Raises: what opening it raised."""
        opening = self._opening
        if opening is None or not opening.is_done:
            return None
        self._opening = None
        self.connection = opening.result()
        self._sessions = FetchSessions()
        self.has_answered = False
        return self.connection

    def wanted(
        self, partitions: Collection[TopicPartition], states: Mapping[TopicPartition, PartitionState]
    ) -> tuple[dict[TopicPartition, FetchPartition], Asked]:
        """What to ask for of these, from where they stand; kept there, to be used again while it is the same."""
        wanted: dict[TopicPartition, FetchPartition] = {}
        asked: dict[TopicPartition, tuple[int, int]] = {}
        usual_bytes = self._limited(len(partitions), 0)
        for tp in partitions:
            state = states[tp]
            limit = self._limited(len(partitions), state.larger_bytes) if state.larger_bytes else usual_bytes
            one = state.asked
            if one is None or one.offset != state.position or one.max_bytes != limit:
                state.asked = one = FetchPartition(state.position, limit)
            wanted[tp] = one
            asked[tp] = (state.life, state.position)
        return wanted, asked

    def _limited(self, count: int, larger: int) -> int:
        """How many bytes to ask of each of so many partitions.

        Before 0.10.1 a response has no limit as a whole, so each partition gets its part of it.
        """
        assert self.connection is not None
        size = self._settings.bytes_of_each(count)
        if self.connection.versions.of(Api.FETCH) < FIRST_WITH_TOTAL_LIMIT and not larger:
            size = min(size, max(self._settings.response_bytes // max(count, 1), self._settings.least_partition_bytes))
        return max(size, larger)

    def send(self, wanted: Mapping[TopicPartition, FetchPartition], asked: Asked) -> None:
        """Ask for these. Raises: BrokersUnavailableError."""
        connection = self.connection
        assert connection is not None
        settings = self._settings
        version = connection.versions.of(Api.FETCH)
        whole_bytes = max(settings.response_bytes, *(one.max_bytes for one in wanted.values()))
        limits = FetchLimits(settings.max_wait_ms, settings.min_bytes, whole_bytes, settings.read_committed)
        if version >= FIRST_WITH_SESSIONS:
            plan = self._sessions.plan(wanted)
        else:
            plan = FetchPlan(FetchSession(), self._sessions.plan(wanted).partitions)
        body = encode_fetch(version, limits, plan.partitions, plan.session, plan.forgotten)
        largest = settings.largest_response_bytes(one.max_bytes for one in wanted.values())
        self.asked = asked
        connection.send(Api.FETCH, body, largest_bytes=largest, timeout_s=settings.socket_timeout_s)

    def receive(self) -> FetchResponse | None:
        """The response once it is whole. Raises: BrokersUnavailableError, MalformedResponseError."""
        connection = self.connection
        assert connection is not None
        body = connection.receive()
        if body is None:
            return None
        response = decode_fetch(connection.versions.of(Api.FETCH), body)
        self.has_answered = True
        if response.error == 0:
            self.lost_sessions = 0
            self._sessions.answered(response.session_id)
        if response.throttle_ms > 0:
            self.ready_at = time.monotonic() + min(response.throttle_ms / 1000, _LONGEST_THROTTLE_S)
        return response

    def break_session(self) -> None:
        """The broker lost it; one that keeps none at all says so each time."""
        self._sessions.broken()
        self.lost_sessions += 1
        if self.lost_sessions > 1:
            self.ready_at = time.monotonic() + self._settings.backoff_s

    def is_suspect(self, now: float) -> bool:
        """Whether the broker has been silent for longer than one is that holds back an empty answer."""
        return self._silence_s(now) > self._settings.suspicion_s and now >= self._suspected_until

    def suspect(self, now: float) -> None:
        """Whether others lead by now is being asked: not to be asked again for a while."""
        self._suspected_until = now + self._settings.suspicion_s

    def is_overdue(self, now: float) -> bool:
        """Whether the broker has been silent for too long."""
        return self._silence_s(now) > self._settings.socket_timeout_s + self._settings.max_wait_ms / 1000

    def _silence_s(self, now: float) -> float:
        """For how long it has not answered a request, or not taken a connection."""
        if self._opening is not None:
            return now - self.opened_at
        connection = self.connection
        return now - connection.waiting_since if connection is not None and connection.is_waiting else 0.0

    def close(self, *, wait: bool = False) -> None:
        """Hang up; wait: until a thread that is opening has ended."""
        if self._opening is not None:
            self._opening.close(_CLOSE_WAIT_S if wait else 0)
            self._opening = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self.asked = {}
