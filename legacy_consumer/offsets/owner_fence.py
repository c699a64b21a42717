"""Checks whether a client may commit a partition: its owner may, and if it has no owner, any client may.

ZooKeeper checks this in the request that writes offsets. Offsets in Kafka are written right after such a check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from legacy_consumer.errors import OffsetError
from legacy_consumer.offsets.requests import OfPartitions, in_requests
from legacy_consumer.offsets.store import CommitResult
from zk_layout.closed_znodes import FoundStat, stat_each
from zk_layout.errors import MultiFailedError, NoNodeError, NotPermittedError, SessionExpiredError
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdPath, OwnerPath, OwnersPath, TopicOwnersPath
from zk_layout.store import CheckOp, CreateOp, DeleteOp, Op, ZkStore


class OwnerFence:
    """Checks in ZooKeeper who owns the partitions of one group. Any thread may call."""

    def __init__(self, store: ZkStore, group: str) -> None:
        self._store = store
        self._group = group
        self._checks = OfPartitions(lambda tp: CheckOp(OwnerPath(group, *tp).path))

    def guard(self, consumer_id: str | None) -> list[CheckOp]:
        """Return the check that the member is registered, for the front of a multi; nothing without a member."""
        return [] if consumer_id is None else [CheckOp(ConsumerIdPath(self._group, consumer_id).path)]

    def checks(self, partitions: Iterable[TopicPartition]) -> list[CheckOp]:
        """Return the checks, for a multi, that each owner znode exists. find_stolen finds out whose it is."""
        return [self._checks[tp] for tp in partitions]

    def check_registered(self, error: MultiFailedError, guard: Sequence[CheckOp]) -> None:
        """Raise the error if the guard made this multi fail: SessionExpiredError if the registration is gone."""
        if error.index >= len(guard):
            return
        if not isinstance(error.cause, NoNodeError):
            raise error.cause from error
        msg = f"{guard[0].path} is gone: this member is not registered any more"
        raise SessionExpiredError(msg) from error

    def check_session(self, session_id: int | None) -> None:
        """Check that the store still has this session. Sends no request. Raises: SessionExpiredError.

        ZooKeeper answers reads in any session, so the caller calls this after reads: if the session has ended, another
        member may own the partitions.
        """
        if session_id is not None and self._store.session_id != session_id:
            msg = f"session 0x{session_id:x} is over: what was committed in it may have another owner"
            raise SessionExpiredError(msg)

    def find_unowned(
        self, partitions: Collection[TopicPartition], *, consumer_id: str, session_id: int | None
    ) -> CommitResult:
        """Check, writing nothing, that this member may commit these.

        Returns: unowned: partitions whose owner znodes are gone. refused: partitions whose owner znodes an ACL closes.
        Raises: SessionExpiredError if the registration is gone or the session is another; ConnectionLostError;
        NotPermittedError for the registration; OffsetError if owner znodes come and go.
        """
        result = CommitResult()
        guard = self.guard(consumer_id)
        for chunk in in_requests(self._store.max_multi_bytes, partitions, guard, lambda tp: self.checks([tp])):
            for _ in range(len(chunk) + 1):
                try:
                    self._store.multi([*guard, *self.checks(chunk)], session_id=session_id)
                except MultiFailedError as error:
                    self.check_registered(error, guard)
                    if isinstance(error.cause, NoNodeError):
                        unowned = self.without_owner(chunk)
                        result.unowned |= unowned
                        chunk[:] = [tp for tp in chunk if tp not in unowned]
                    elif isinstance(error.cause, NotPermittedError):
                        result.refused[chunk.pop(error.index - len(guard))] = error.cause
                    else:
                        raise error.cause from error
                else:
                    break
            else:
                msg = f"group {self._group}: {len(chunk)} owner znodes are deleted and created again all the time"
                raise OffsetError(msg)
        return result

    def find_stolen(self, partitions: Collection[TopicPartition], session_id: int | None) -> CommitResult:
        """Find out, after another client has committed these, whether this session owns them still.

        That client may own the partition by now: a JVM member deletes also other members' owner znodes.
        Returns: unowned: partitions that it does not own. refused: partitions whose owner znodes an ACL closes.
        Raises: SessionExpiredError if the store has another session by now.
        """
        stats = self._stats(partitions)
        self.check_session(session_id)
        result = CommitResult()
        for tp, stat in stats.items():
            if isinstance(stat, NotPermittedError):
                result.refused[tp] = stat
            elif stat is None or stat.ephemeral_owner != session_id:
                result.unowned.add(tp)
        return result

    def without_owner(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return which of these have no owner now; an owner znode that an ACL closes is one.

        Raises: ConnectionLostError, SessionExpiredError.
        """
        return {tp for tp, stat in self._stats(partitions).items() if stat is None}

    def _stats(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, FoundStat]:
        order = sorted(partitions)
        return dict(zip(order, stat_each(self._store, [self._checks[tp].path for tp in order]), strict=True))


class NoOwnerFence:
    """Operations that make a multi fail if a partition has an owner.

    They create each owner znode and delete it again; the creation fails if the znode exists.

    ZooKeeper creates nothing in a folder that does not exist. For such a folder the operations create and delete the
    folder itself: that fails if another client has created it meanwhile, to claim a partition.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._missing: set[str] = set()
        """The topics whose folder of owner znodes does not exist."""
        self._all_missing = False
        """Whether the parent of these folders does not exist."""
        self._fenced: list[TopicPartition] = []

    def ops(self, partitions: Iterable[TopicPartition]) -> list[Op]:
        """Return the operations for the front of the multi."""
        fenced: dict[str, TopicPartition] = {}
        for tp in partitions:
            fenced.setdefault(self._path(tp), tp)
        self._fenced = [*fenced.values(), *reversed(fenced.values())]
        return [*(CreateOp(path, b"") for path in fenced), *(DeleteOp(path) for path in reversed(fenced))]

    def partition_at(self, index: int) -> TopicPartition:
        """Return the partition of an operation of ops; one of them if the operation is for a whole folder."""
        return self._fenced[index]

    def found(self, tp: TopicPartition) -> bool:
        """Note that the znode that ops creates for this partition exists; return whether it is the owner znode."""
        if self._all_missing:
            self._all_missing = False
        elif tp.topic in self._missing:
            self._missing.discard(tp.topic)
        else:
            return True
        return False

    def missed(self, tp: TopicPartition) -> bool:
        """Note that the parent of the znode that ops creates for this partition does not exist.

        Returns: whether that parent is the group's folder.
        """
        if self._all_missing:
            return True
        self._all_missing = tp.topic in self._missing
        self._missing.add(tp.topic)
        return False

    def _path(self, tp: TopicPartition) -> str:
        if self._all_missing:
            return OwnersPath(self._group).path
        if tp.topic in self._missing:
            return TopicOwnersPath(self._group, tp.topic).path
        return OwnerPath(self._group, *tp).path
