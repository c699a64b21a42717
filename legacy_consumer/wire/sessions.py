"""What a fetch request has to name, given what the broker knows from the ones before. No I/O.

Without a session that is every partition, each time. In a session (KIP-227) it is what changed: see protocol.fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from legacy_consumer.wire.protocol.fetch import FetchPartition, FetchSession
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What goes into one request."""

    session: FetchSession
    partitions: Mapping[TopicPartition, FetchPartition]
    forgotten: tuple[TopicPartition, ...] = ()


@dataclass(slots=True)
class FetchSessions:
    """The sessions with one broker over one connection, one after the other."""

    _session: FetchSession = field(default_factory=FetchSession)
    _known: dict[TopicPartition, FetchPartition] = field(default_factory=dict)
    _turn: int = 0

    def plan(self, wanted: Mapping[TopicPartition, FetchPartition]) -> FetchPlan:
        """The next request. A broker fills its answer in the order that partitions have, so each comes first in turn.

        Inside of a session the broker itself sees to that.
        """
        if self._session.session_id == 0:
            first = self._turn % len(wanted) if wanted else 0
            self._turn += 1
            names = list(wanted)
            self._known = {tp: wanted[tp] for tp in (*names[first:], *names[:first])}
            return FetchPlan(self._session, dict(self._known))
        known = self._known
        # mostly the very same object, and comparing what is in it takes longer than all else here
        changed = {tp: one for tp, one in wanted.items() if (was := known.get(tp)) is not one and was != one}
        forgotten = tuple(tp for tp in self._known if tp not in wanted)
        self._known = dict(wanted)
        return FetchPlan(self._session, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """The request was taken, in this session; 0 = there is none."""
        self._session = self._session.next(session_id)

    def broken(self) -> None:
        """The broker does not know the session any more: name everything again."""
        self._session = FetchSession()
