"""Commits the processed offsets of a stream to /consumers, for its group.

Each offset is written at the version that was last read. If another client wrote meanwhile, an operator or a member
beside the stream, both offsets are logged, and the stream's is written: the stream is the reader. An offset that the
group had committed before the stream's first commit is never moved back: the stream is then reading messages again
that the group has processed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from legacy_consumer.offsets.progress import Commit, Committed
from legacy_consumer.offsets.store import refuse_unreadable
from legacy_consumer.offsets.zookeeper import ZooKeeperOffsetStore
from spark_source.errors import OwnershipLostError
from spark_source.messages.group_claim import GroupClaim, refuse_members
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_TRIES = 3


class GroupProgress:
    """The committed offsets of one group, written by one stream.

    alone: refuse to write while the group has members.
    """

    def __init__(self, store: ZkStore, group: str, claim: GroupClaim | None, *, alone: bool = False) -> None:
        self._store = store
        self._group = group
        self._alone = alone
        self._claim = claim
        self._offsets = ZooKeeperOffsetStore(store, group)
        self._seen: dict[TopicPartition, Committed] = {}
        self._done: dict[TopicPartition, int] = {}
        self._begun: set[TopicPartition] = set()

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets, before which everything is processed. Committed offsets cost nothing.

        Raises: LiveGroupError, OwnershipLostError, ZooKeeperError; OffsetError for an offset that cannot be read.
        """
        todo = {tp: offset for tp, offset in offsets.items() if self._done.get(tp) != offset}
        if todo and self._alone:
            refuse_members(self._store, self._group)
        unseen = [tp for tp in todo if tp not in self._seen]
        if unseen:
            read = self._offsets.read(unseen)
            refuse_unreadable(read)
            self._seen.update(read)
        for tp in [tp for tp in todo if tp not in self._begun]:
            stands = self._seen[tp].offset
            if stands is not None and stands >= todo[tp]:
                if stands > todo[tp] and tp not in self._done:
                    logger.warning(
                        "group %s has committed %d in %s and the stream is at %d: the stream commits when it "
                        "has passed that offset",
                        self._group, stands, tp, todo[tp],
                    )  # fmt: skip
                self._done[tp] = todo.pop(tp)
        for _ in range(_TRIES):
            todo = self._try_commit(todo)
            if not todo:
                return
        logger.warning("group %s: %d offsets change faster than they can be committed", self._group, len(todo))

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these partitions: from now on they are other logs, of which nothing is processed or read."""
        for tp in partitions:
            self._seen.pop(tp, None)
            self._done.pop(tp, None)
            self._begun.discard(tp)

    def _try_commit(self, todo: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Commit once. Returns: the offsets that another client has changed in between."""
        commits = {tp: Commit(offset, self._seen[tp]) for tp, offset in todo.items()}
        result = self._offsets.commit(
            commits,
            consumer_id=self._claim.consumer_id if self._claim else None,
            session_id=self._claim.session_id if self._claim else None,
            unfenced=True,
        )
        if result.unowned:
            raise OwnershipLostError(self._group, dict.fromkeys(result.unowned, "somebody else"))
        self._seen.update(result.committed)
        self._done.update((tp, todo[tp]) for tp in result.committed)
        self._begun.update(result.committed)
        result.raise_errors()
        for tp, theirs in result.foreign.items():
            logger.warning(
                "group %s: another client %s of %s, the stream commits %d over it",
                self._group, theirs.as_told(), tp, todo[tp],
            )  # fmt: skip
        self._seen.update(result.foreign)
        return {tp: todo[tp] for tp in result.foreign}
