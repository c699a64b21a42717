"""Keeps a member from taking over partitions of absent members, until they are back or the time is over.

absence.py decides; this class gives it the readings of the group and of the members that stayed. A registration does
not show whether its member waits, and a registration of a JVM member looks like ours. But a JVM member releases all its
partitions before it claims again. So this class watches one owner znode of each member that would get a partition of
mine: a member that keeps the znode waits; a member that deletes it does not wait, and gets its share at once.

The memory of the group outlives the session. When all sessions expire at once, each member finds a smaller group than
before, claims its own partitions again, and waits for the other members to do so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rebalance.absence import Absence, Members, note_members, standing
from rebalance.clock import Clock
from rebalance.errors import AssignmentRefusedError
from rebalance.events import Event, Triggered
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.loggers import safe_logger
from zk_layout.paths import ConsumerIdPath, OwnerPath
from zk_layout.store import WatchEvent, WatchKind, ZkStore

logger = safe_logger(__name__)


class Patience:
    """Decides for one member whether it waits for absent ones. Used by the coordinator's thread alone."""

    def __init__(
        self,
        consumer_id: str,
        store: ZkStore,
        assign: Callable[[GroupSnapshot], Assignment],
        clock: Clock,
        delay_ms: int,
        post: Callable[[Event], None],
    ) -> None:
        """post: enqueues an event, from a thread of the store, when a member that seemed to wait does not."""
        self._consumer_id = consumer_id
        self._store = store
        self._assign = assign
        self._clock = clock
        self._delay_s = delay_ms / 1000
        self._post = post
        self._last: Members | None = None
        self._absence: Absence | None = None
        self._impatient: frozenset[str] = frozenset()

    @property
    def remaining_ms(self) -> int | None:
        """How long the wait may still take, None if there is none; never 0 before its end."""
        if self._absence is None:
            return None
        return max(0, int((self._absence.until_s - self._clock.monotonic()) * 1000) + 1)

    def judge(self, snapshot: GroupSnapshot, assignment: Assignment) -> Assignment:
        """Return the assignment during a wait, the unchanged one without a wait. Raises: ZooKeeperError."""
        if self._delay_s <= 0:
            return assignment
        self._note(snapshot)
        if self._absence is None:
            return assignment
        try:
            before = self._assign(replace(snapshot, members=self._absence.before))
        except AssignmentRefusedError:
            # no member had anything to keep
            return assignment
        companions = self._absence.companions(snapshot.members)
        patient = companions - self._impatient
        while True:
            stands = standing(before, assignment, patient, companions)
            hurried = self._hurried(snapshot.group, stands, assignment)
            if not hurried:
                return stands
            logger.info("%s: %s does not wait", self._consumer_id, ", ".join(sorted(hurried)))
            self._impatient |= hurried
            patient -= hurried

    def _hear(self, event: WatchEvent) -> None:
        if event.kind is not WatchKind.LOST:
            self._post(Triggered("a member does not wait for those that left"))

    def _note(self, snapshot: GroupSnapshot) -> None:
        was, members = self._absence, snapshot.members
        self._absence = now = note_members(
            was, self._last, members, now_s=self._clock.monotonic(), delay_s=self._delay_s
        )
        self._last = members
        if now is None and was is not None:
            left = len(was.before) - len(members)
            what = "is whole again" if left <= 0 else f"goes on with {left} members fewer"
            logger.info("%s: group %s %s", self._consumer_id, snapshot.group, what)
        elif now is not None and was is None:
            self._impatient = frozenset()
            logger.info(
                "%s: %d members left group %s; their partitions wait up to %.1f s for them or for new members",
                self._consumer_id,
                len(now.before) - len(members),
                snapshot.group,
                self._delay_s,
            )

    def _hurried(self, group: str, stands: Assignment, now: Assignment) -> frozenset[str]:
        """Return the members that are believed to wait, but disagree with me and do not hold their own partitions."""
        me = self._consumer_id
        differ = {
            name
            for tp, thread in stands.items()
            for name in (thread.consumer_id, now[tp].consumer_id)
            if thread != now[tp] and me in (thread.consumer_id, now[tp].consumer_id)
        } - {me}
        if not differ:
            return frozenset()
        held: dict[str, tuple[str, str]] = {}
        for tp, thread in stands.items():
            if thread.consumer_id in differ and thread.consumer_id not in held:
                held[thread.consumer_id] = (OwnerPath(group, *tp).path, str(thread))
        znodes = self._store.get_data_many([path for path, _ in held.values()], self._hear)
        waits = {
            name
            for (name, (_, text)), znode in zip(held.items(), znodes, strict=True)
            if znode is not None and znode.data == text.encode()
        }
        hurried = sorted(differ - waits)
        if not hurried:
            return frozenset()
        # a member that left after the list was read holds nothing either; the reader then reads the list again
        ids = self._store.exists_many([ConsumerIdPath(group, name).path for name in hurried])
        return frozenset(name for name, stat in zip(hurried, ids, strict=True) if stat is not None)
