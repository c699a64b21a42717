"""The lease: how long a member may hand out messages without another answer from ZooKeeper.

ZooKeeper expires a session without heartbeats, deletes its owner znodes, and other members claim. The member learns of
it only when it runs and the network works: a process that stood still (SIGSTOP, a pause of the virtual machine,
swapping) still believes in its old state when it wakes up. So a member owns its partitions on a lease. The lease begins
when the member sends a request that the server later answers, and lasts somewhat less than the session timeout. After
it the member hands out nothing until the next answer, or until the coordinator has dropped the lost partitions.

The lease needs no requests of its own: the heartbeats, every third of the session timeout, are enough.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance.clock import Clock
from zk_layout.store import ZkStore

_SHARE = 0.95
"""The part of the session timeout that a lease lasts.

Below 1, because a server that is not the leader reports a client's heartbeat to the leader only with its own next one.
"""


class Lease:
    """The lease of one member; any thread may ask. session_id: returns the session in which the member claimed."""

    def __init__(self, store: ZkStore, session_id: Callable[[], int], clock: Clock) -> None:
        self._store = store
        self._session_id = session_id
        self._clock = clock
        self._until = float("-inf")

    def holds(self) -> bool:
        """Return whether the member may hand out messages now. Asks the store only when the known lease has ended."""
        now = self._clock.monotonic()
        if now < self._until:
            return True
        # now was read before the silence, so a thread that pauses here gets a lease that is too short, never too long
        silence_s = self._store.silence_s(self._session_id())
        self._until = now + self._store.session_timeout_ms * _SHARE / 1000 - silence_s
        return now < self._until
