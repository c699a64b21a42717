"""Elects the leader: a member takes the lead if there is no leader, and does the leader's work while it leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance.assignors.seam import Assignor
from rebalance.clock import Clock
from rebalance.coordination.states import GroupState
from rebalance.led.cluster import subscribed_counts
from rebalance.led.leadership import Leadership
from rebalance.led.permanent import is_permanent
from rebalance.led.records import coordination_path, leader_path
from rebalance.led.watched import WatchedZnodes
from rebalance.snapshot import GroupSnapshot, remember_last
from zk_layout.store import ZkStore, Znode

_FAR_MS = 1 << 40
"""A deadline further away than this is no deadline."""


class Election:
    """One member's part in the election. Used by the coordinator's thread alone, except for leader and state.

    watched: the member's watched znodes. look_in: has the member read again after a number of milliseconds.
    """

    def __init__(
        self,
        store: ZkStore,
        watched: WatchedZnodes,
        group: str,
        consumer_id: str,
        assignors: Mapping[str, Assignor],
        clock: Clock,
        *,
        initial_delay_ms: int,
        look_in: Callable[[int], None],
    ) -> None:
        self._store = store
        self._watched = watched
        self._group = group
        self._consumer_id = consumer_id
        self._assignors = assignors
        self._clock = clock
        self._initial_delay_ms = initial_delay_ms
        self._look_in = look_in
        # with topic filters this takes long, and a leader asks each time a member has written its znode
        self._subscribed = remember_last(subscribed_counts)
        self._leadership: Leadership | None = None
        self._rests_until_ms = 0
        self._vacant_since_ms: int | None = None
        self.leader: str | None = None
        """The consumer id of the leader, as this member saw it last."""

    @property
    def leads(self) -> bool:
        """Whether this member leads, as far as it knows."""
        return self._leadership is not None

    @property
    def state(self) -> GroupState | None:
        """The state of the group, if this member leads."""
        leadership = self._leadership
        return None if leadership is None else leadership.state

    def misses(self, member_id: str) -> bool:
        """Return whether this member leads and could not read the offer of the member with that id."""
        return self._leadership is not None and not self._leadership.hears(member_id)

    def forget(self, rest_ms: int = 0) -> None:
        """Drop the leader's state after an error: a partial state is worse than one that is read anew.

        rest_ms: how long this member does not take the lead then. Its own writes as a new leader fire its watches, and
        so cause the next look: without a rest, a leader that cannot do its work would be elected hundreds of times a
        second.
        """
        self._leadership = self.leader = None
        self._rests_until_ms = self._now_ms() + rest_ms

    def step_down(self, znode: Znode | None, session_id: int) -> None:
        """Give up the lead, if this member has it. znode: the leader's. Raises: ZooKeeper's errors."""
        self._see(znode)
        self._leadership = None
        if znode is not None and znode.stat.ephemeral_owner == session_id:
            self.leave(session_id)
            self.leader = None

    def leave(self, session_id: int) -> None:
        """Delete the leader's znode if it is this session's. Raises: ZooKeeper's errors."""
        path = leader_path(self._group)
        # read just before: each new leader's znode has version 0, so the version does not tell one from the next
        stat = self._store.exists(path)
        if stat is not None and stat.ephemeral_owner == session_id:
            self._store.delete(path, stat.version)

    def is_vacant(self, znode: Znode | None, for_ms: int) -> bool:
        """Return whether this member has seen no leader for for_ms milliseconds.

        The first call without a leader has the member look again after that time. znode: the leader's.
        """
        if _shows_a_leader(znode):
            return False
        now = self._now_ms()
        if self._vacant_since_ms is None:
            self._vacant_since_ms = now
            self._look_in(for_ms)
        return now - self._vacant_since_ms >= for_ms

    def restore(self, znode: Znode | None, session_id: int, asked: Znode | None, given: Znode | None) -> bool:
        """While this member leads, write its round and generation again if another client wrote one of them.

        znode: the leader's. Returns: whether another client had. Raises: DeposedError; ZooKeeper's errors.
        """
        if self._leadership is None or znode is None or znode.stat.ephemeral_owner != session_id:
            return False
        return self._leadership.restore(asked, given)

    def stand(self, znode: Znode | None, session_id: int, snapshot: GroupSnapshot) -> None:
        """Lead if the group has no leader, and take the next step while this member leads.

        znode: the leader's. Raises: DeposedError if another one leads; RebalanceError; ZooKeeper's errors.
        """
        self._see(znode)
        now = self._now_ms()
        if self._leadership is None and now < self._rests_until_ms:
            self._look_in(self._rests_until_ms - now)
            return
        if znode is None or not _shows_a_leader(znode):
            self._begin(session_id)
        elif znode.stat.ephemeral_owner != session_id:
            self._leadership = None
        elif self._leadership is None:
            # the reply to the request that elected this member was lost, so the member does not know what it wrote
            self.leave(session_id)
            self._look_in(0)
        if self._leadership is None:
            return
        self._leadership.look(self._subscribed(snapshot), now)
        deadline = self._leadership.next_deadline()
        if deadline is not None and deadline < now + _FAR_MS:
            self._look_in(max(1, deadline - now))

    def _see(self, znode: Znode | None) -> None:
        if _shows_a_leader(znode):
            self._vacant_since_ms = None
        self.leader = None if znode is None else (znode.data or b"").decode("utf-8", "replace")

    def _begin(self, session_id: int) -> None:
        self._store.ensure_path(coordination_path(self._group))
        self._leadership = Leadership(
            self._store,
            self._watched,
            self._group,
            self._consumer_id,
            self._assignors,
            session_id,
            initial_delay_ms=self._initial_delay_ms,
        )
        self._leadership.begin(self._now_ms())
        self.leader = self._consumer_id

    def _now_ms(self) -> int:
        return round(self._clock.monotonic() * 1000)


def _shows_a_leader(znode: Znode | None) -> bool:
    """Return whether a member's session owns this znode; another client may have created a permanent one instead."""
    return znode is not None and not is_permanent(znode)
