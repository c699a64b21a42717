"""How long a member may hand out messages without another word from ZooKeeper.

A session that is not heard of ends at the server, its owner znodes vanish, and others claim. The member learns of it
only when it gets to run and the network to work: a process that stood still (SIGSTOP, a long garbage collection of the
machine below, swapping) wakes up with everything it believed before. So what it owns is leased: from the sending of the
last question that the server answered, for somewhat less than the session timeout. Then nothing is handed out until the
next answer, or until the coordinator has dropped what was lost.

Nothing is asked for it: the heartbeats are enough, which come every third of the session timeout.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance.clock import Clock
from zk_layout.store import ZkStore

_SHARE = 0.95
"""Of the session timeout: a server that is no leader tells the leader of a heartbeat only with its own next one."""


class Lease:
    """The lease of one member. session_id: the one in which everything that it owns was claimed. From any thread."""

    def __init__(self, store: ZkStore, session_id: Callable[[], int], clock: Clock) -> None:
        self._store = store
        self._session_id = session_id
        self._clock = clock
        self._until = float("-inf")

    def holds(self) -> bool:
        """Whether messages may be handed out now. The time of the last answer is looked up only when it must be."""
        now = self._clock.monotonic()
        if now < self._until:
            return True
        # a thread that stands still in the midst of this finds itself with a lease that is too short, never too long
        silence_s = self._store.silence_s(self._session_id())
        self._until = now + self._store.session_timeout_ms * _SHARE / 1000 - silence_s
        return now < self._until
