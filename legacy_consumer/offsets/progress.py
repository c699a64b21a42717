"""The progress of each owned partition: consumed, and committed.

Pure bookkeeping, shared by the streams and the committer; a lock makes each change atomic. A partition gets a new epoch
each time it is claimed or its position is moved: a late note for an earlier epoch then changes nothing.

Reading takes no lock, because a signal handler may read it at any point.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    from legacy_consumer.offsets.judgement import TopicOrigin


# Committed and PartitionProgress are not frozen, though no code changes one: a commit makes one Committed and two
# PartitionProgress for each partition, and a frozen one takes six times as long to make.


@dataclass(slots=True, unsafe_hash=True)
class Committed:
    """A committed offset as last seen: the next offset to read, None if there is none, and its znode's version.

    version None = there is no znode, so a commit creates it.
    topic: where the topic's znode comes from, None if the topic does not exist.
    outlived: the offset of an earlier topic of this name, which does not count for the present topic; offset is None
    then. problem: why the stored offset is unreadable; offset is None then, and no code may guess one. transaction: the
    zxid that wrote the znode; 0 if it is not known. is_fragile: as Judgement has it.
    """

    offset: int | None
    version: int | None
    topic: TopicOrigin | None = None
    outlived: int | None = None
    problem: str | None = None
    transaction: int = field(default=0, compare=False)
    is_fragile: bool = field(default=False, compare=False)

    def as_told(self) -> str:
        """Return what another client did to leave the offset like this, in words for a log line."""
        if self.problem is not None:
            return f"committed an unreadable offset ({self.problem})"
        offset = self.outlived if self.offset is None else self.offset
        return "deleted the offset" if offset is None else f"committed {offset}"


class Commit(NamedTuple):
    """One offset to write, and the stored offset that was last seen."""

    offset: int
    seen: Committed


@dataclass(slots=True)
class PartitionProgress:
    """consumed: the next offset to read after all consumed messages; None while no position is known.

    done: the offset that the user's code committed by name, since the position was last moved back; None without any.
    """

    epoch: int
    consumed: int | None
    committed: Committed
    done: int | None = None

    @property
    def to_commit(self) -> int | None:
        """The offset that the next commit writes."""
        return self.consumed if self.consumed is None else max(self.consumed, self.done or 0)


class Progress:
    """The partitions of one member."""

    def __init__(self) -> None:
        self.committing = threading.Lock()
        """Held from the reading of the progress until the commit is noted, and while partitions begin or are reset.

        All memberships of a connector share it: a commit of the last one may still be under way.
        """
        self._lock = threading.Lock()
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self._epoch = 0
        self._counted: dict[TopicPartition, int | None] = {}
        """The offsets up to which totals() has counted; None while no position is known."""
        self._consumed: Counter[str] = Counter()
        self._committed: Counter[str] = Counter()

    def begin(self, tp: TopicPartition, position: int | None, committed: Committed, *, done: int | None = None) -> int:
        """Add a partition that is read from position; return its epoch. done: see PartitionProgress."""
        epoch = self.new_epoch()
        with self._lock:
            self._begin(tp, epoch, position, committed, done)
        return epoch

    def new_epoch(self) -> int:
        """Return a new epoch, for move()."""
        with self._lock:
            self._epoch += 1
            return self._epoch

    def move(
        self, tp: TopicPartition, epoch: int, new_epoch: int, position: int | None, committed: Committed | None
    ) -> None:
        """Move a partition to another position, with a new epoch; do nothing if the given epoch is over.

        committed: the stored offset, if it changed. The offset that the user's code committed by name no longer counts.
        """
        with self._lock:
            known = self._partitions.get(tp)
            if known is not None and known.epoch == epoch:
                self._begin(tp, new_epoch, position, committed or known.committed, None)

    def _begin(
        self, tp: TopicPartition, epoch: int, position: int | None, committed: Committed, done: int | None
    ) -> None:
        self._partitions[tp] = PartitionProgress(epoch, position, committed, done)
        self._counted[tp] = position
        # the counters exist from the start, so that a rate includes the first messages
        self._consumed[tp.topic] += 0
        self._committed[tp.topic] += 0

    def note_consumed(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int], *, placed: bool = False
    ) -> None:
        """Note that all messages before these offsets are consumed; ignore partitions whose epoch is over.

        placed: the fetcher moved the positions, because none was known, it lay outside the log, or no message for the
        user's code lies before it: no message was consumed.
        """
        with self._lock:
            self._note_consumed(offsets, epochs, placed)

    def _note_consumed(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int], placed: bool
    ) -> None:
        for tp, offset in offsets.items():
            known = self._partitions.get(tp)
            if known is not None and known.epoch == epochs.get(tp) and known.consumed != offset:
                counted = self._counted[tp]
                if known.consumed is None or counted is None:
                    self._counted[tp] = offset
                elif placed:
                    # messages consumed before and not committed yet still count at their commit
                    self._counted[tp] = counted + offset - known.consumed
                else:
                    self._consumed[tp.topic] += max(0, offset - known.consumed)
                self._partitions[tp] = PartitionProgress(known.epoch, offset, known.committed, known.done)

    def note_committed(
        self, commits: Mapping[TopicPartition, Committed], named_in: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Note the stored offsets of these partitions.

        named_in: the epochs of the partitions whose offsets the user's code committed by name. Those offsets count as
        done, unless the epoch of their partition is over.
        """
        with self._lock:
            self._note_committed(commits, named_in or {})

    def _note_committed(
        self, commits: Mapping[TopicPartition, Committed], named_in: Mapping[TopicPartition, int]
    ) -> None:
        for tp, committed in commits.items():
            known = self._partitions.get(tp)
            if known is not None:
                offset, before = committed.offset, self._counted[tp]
                if before is not None and offset is not None and offset > before:
                    self._committed[tp.topic] += offset - before
                self._counted[tp] = offset
                done = offset if named_in.get(tp) == known.epoch else known.done
                self._partitions[tp] = PartitionProgress(known.epoch, known.consumed, committed, done)

    def forget_done(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Forget the offsets that the user's code committed by name, of partitions whose epoch is not over."""
        with self._lock:
            self._forget_done(epochs)

    def _forget_done(self, epochs: Mapping[TopicPartition, int]) -> None:
        for tp, epoch in epochs.items():
            known = self._partitions.get(tp)
            if known is not None and known.epoch == epoch:
                self._partitions[tp] = PartitionProgress(epoch, known.consumed, known.committed)

    def uncommitted(
        self,
        partitions: Collection[TopicPartition] | None = None,
        *,
        unchanged: Callable[[TopicPartition, Committed], bool] = lambda *_: False,
    ) -> dict[TopicPartition, Commit]:
        """Return the offset to commit of each partition, if it differs from the stored one or `unchanged` wants it.

        Of all partitions by default. A partition without a known position is left out.
        """
        with self._lock:
            return self._uncommitted(self._partitions if partitions is None else partitions, unchanged)

    def _uncommitted(
        self, partitions: Collection[TopicPartition], unchanged: Callable[[TopicPartition, Committed], bool]
    ) -> dict[TopicPartition, Commit]:
        found: dict[TopicPartition, Commit] = {}
        for tp in partitions:
            known = self._partitions.get(tp)
            offset = None if known is None else known.to_commit
            if (
                known is not None
                and offset is not None
                and (offset != known.committed.offset or unchanged(tp, known.committed))
            ):
                found[tp] = Commit(offset, known.committed)
        return found

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove these partitions."""
        with self._lock:
            for tp in partitions:
                self._partitions.pop(tp, None)
                self._counted.pop(tp, None)

    def get(self, tp: TopicPartition) -> PartitionProgress | None:
        """Return a partition's progress; None if the member does not own it."""
        return self._partitions.get(tp)

    def totals(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return {topic: messages by which consumed offsets grew}, and the same of committed ones; all memberships."""
        # read in this order, so that the result never has more committed than consumed messages
        committed = dict(self._committed)
        return dict(self._consumed), committed

    def snapshot(self) -> dict[TopicPartition, PartitionProgress]:
        """Return the progress of all partitions."""
        return dict(self._partitions)
