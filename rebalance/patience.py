"""Keeps a member from taking over partitions of absent members, until they are back or the time is over.

absence.py decides; this class gives it the readings of the group and of the members that stayed. A registration does
not show whether its member waits, and a registration of a JVM member looks like ours. But a JVM member releases all its
partitions before it claims again. So this class watches one owner znode of each member that would get a partition of
mine: a member that keeps the znode waits; a member that deletes it does not wait, and gets its share at once.

The machine keeps the memory of the group, and gives it with each order to rebalance. The memory outlives the session.
When all sessions expire at once, each member finds a smaller group than before, claims its own partitions again, and
waits for the other members to do so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rebalance.absence import GroupMemory, note_members, standing
from rebalance.errors import AssignmentRefusedError
from rebalance.events import Event, GroupNoted, Triggered
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
        handle: Callable[[Event], None],
        post: Callable[[Event], None],
    ) -> None:
        """handle: tells the machine at once of a change of the memory, before the rebalance ends in another event.

        post: enqueues an event, from a thread of the store, when a member that seemed to wait does not.
        """
        self._consumer_id = consumer_id
        self._store = store
        self._assign = assign
        self._handle = handle
        self._post = post

    def judge(self, snapshot: GroupSnapshot, assignment: Assignment, known: GroupMemory) -> Assignment:
        """Return the assignment during a wait, the unchanged one without a wait. Raises: ZooKeeperError.

        known: the memory so far; the machine gets GroupNoted if it has changed.
        """
        noted = note_members(known, snapshot.members)
        stands = assignment
        try:
            if noted.is_waiting:
                stands, noted = self._stand(snapshot, assignment, noted)
        finally:
            # also if ZooKeeper did not answer: the time of the wait begins with the first departure
            if noted != known:
                self._handle(GroupNoted(noted))
        return stands

    def _stand(
        self, snapshot: GroupSnapshot, assignment: Assignment, noted: GroupMemory
    ) -> tuple[Assignment, GroupMemory]:
        """Return the assignment during the wait, and the memory with the members that turned out not to wait."""
        assert noted.before is not None
        try:
            before = self._assign(replace(snapshot, members=noted.before))
        except AssignmentRefusedError:
            # no member had anything to keep
            return assignment, noted
        companions = noted.companions(snapshot.members)
        while True:
            stands = standing(before, assignment, companions - noted.impatient, companions)
            hurried = self._hurried(snapshot.group, stands, assignment)
            if not hurried:
                return stands, noted
            logger.info("%s: %s does not wait", self._consumer_id, ", ".join(sorted(hurried)))
            noted = replace(noted, impatient=noted.impatient | hurried)

    def _hear(self, event: WatchEvent) -> None:
        if event.kind is not WatchKind.LOST:
            self._post(Triggered("a member does not wait for those that left"))

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
