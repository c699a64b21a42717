"""Offsets in ZooKeeper: reads them, and commits them so that a group cannot move backwards by accident.

A commit is one multi: my registration exists, so my session lives; each owner znode exists; each offset znode still has
the version it had when I last saw it. A different version means that another client wrote: an operator's reset, or a
JVM member that does not know yet that it lost the partition. No offset is overwritten silently: the partition is
reported with both offsets, and the caller decides (commit.conflict).

A partition that makes a multi fail is taken out of it, and the others are written. A permanent refusal (an ACL, a
quota) is remembered: from then on such partitions are tried separately, so that they do not delay the others.

judgement.py decides whether an offset fits the topic as it is now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from legacy_consumer.errors import OffsetError
from legacy_consumer.offsets.judgement import TopicOrigin, judge, written_in_zookeeper
from legacy_consumer.offsets.own_writes import OwnWrites, version_after
from legacy_consumer.offsets.owner_fence import NoOwnerFence, OwnerFence
from legacy_consumer.offsets.progress import Commit, Committed
from legacy_consumer.offsets.requests import OfPartitions, in_requests
from legacy_consumer.offsets.store import CommitResult
from legacy_consumer.offsets.topic_lives import origin_paths, origins_in
from zk_layout.closed_znodes import read_each
from zk_layout.codecs import encode_offset
from zk_layout.errors import (
    BadVersionError,
    LegacyConsumerError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotPermittedError,
)
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import OffsetPath, TopicOffsetsPath
from zk_layout.store import CheckOp, CreateOp, Op, SetOp, ZkStore, Znode

logger = safe_logger(__name__)

_LONGEST_OFFSET = b"9" * 19
_MOST_REFUSALS = 50
"""The most refused partitions to find in one commit, each by its own request; the next commit finds the rest."""


class ZooKeeperOffsetStore:
    """The offset znodes of one group. Any thread may call; a caller serialises its own commits."""

    def __init__(self, store: ZkStore, group: str) -> None:
        self._store = store
        self._group = group
        self._paths = OfPartitions(lambda tp: OffsetPath(group, *tp).path)
        self._fence = OwnerFence(store, group)
        self._own = OwnWrites()
        self._refused: dict[TopicPartition, LegacyConsumerError] = {}
        """{partition: why the last commit that named it could not write it}, the oldest refusal first."""

    def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the committed offsets; a literal -1 counts as none, as for every reader of the JVM.

        The topics' znodes are read in the same batch.
        """
        topics = sorted({tp.topic for tp in partitions})
        paths = [self._paths[tp] for tp in partitions]
        znodes = read_each(self._store, [*paths, *origin_paths(topics)])
        origins = origins_in(topics, [None if isinstance(z, NotPermittedError) else z for z in znodes[len(paths) :]])
        return {
            tp: _committed(path, znode, origins.get(tp.topic))
            for tp, path, znode in zip(partitions, paths, znodes, strict=False)
        }

    def commit(
        self,
        commits: Mapping[TopicPartition, Commit],
        *,
        consumer_id: str | None,
        session_id: int | None,
        timeout_s: float | None = None,  # noqa: ARG002  (ZooKeeper's own bounds it)
        unfenced: bool = False,
        unchanged: Collection[TopicPartition] = (),
    ) -> CommitResult:
        """Write these offsets in as many requests as needed; each request writes all of its offsets or none.

        unchanged: partitions whose stored offset is already the one to commit: it is checked, not written.
        """
        result = CommitResult()
        guard = self._fence.guard(consumer_id)
        suspects = [tp for tp in self._refused if tp in commits]
        tried = {tp: commits[tp] for tp in islice(suspects, _MOST_REFUSALS)}
        sound = {tp: commit for tp, commit in commits.items() if tp not in self._refused}
        result.refused = {tp: self._refused[tp] for tp in suspects if tp not in tried}
        no_owner = None if guard or unfenced else NoOwnerFence(self._group)
        try:
            for chunk in (*self._in_requests(sound, guard), *self._in_requests(tried, guard)):
                self._commit_chunk(chunk, guard, no_owner, session_id, result, unchanged)
        except Exception as error:  # noqa: BLE001 - returned with the outcome of the requests before it
            result.failure = error
        return result

    def close(self) -> None:
        """Do nothing: the caller closes the ZkStore."""

    def wants_unchanged(self, tp: TopicPartition, seen: Committed) -> bool:
        """Return True if the last commit got no answer, or its answer was not noted; or for a fragile offset.

        Written once more, a fragile offset stays valid although a topic is deleted.
        """
        return seen.is_fragile or self._own.may_have_changed(tp, seen)

    def _commit_chunk(
        self,
        todo: dict[TopicPartition, Commit],
        guard: Sequence[CheckOp],
        no_owner: NoOwnerFence | None,
        session_id: int | None,
        result: CommitResult,
        unchanged: Collection[TopicPartition],
    ) -> None:
        refusals = 0
        # each round removes at least one partition, recognises a write of ours, or finds or creates a folder
        for _ in range(5 * len(todo) + 5):
            if not todo:
                self._fence.check_session(session_id)
                return
            order = list(todo)
            ops: list[Op] = [*guard, *(no_owner.ops(order) if no_owner else self._fence.checks(order) if guard else ())]
            first_write = len(ops)
            # an offset that a round recognised as ours is overwritten; without a znode there is nothing to check
            stands = {
                tp: c.seen
                for tp, c in todo.items()
                if tp in unchanged and c.offset == c.seen.offset and c.seen.version is not None
            }
            written = {tp: commit for tp, commit in todo.items() if tp not in stands}
            ops += [self._write_op(tp, commit, stands=tp in stands) for tp, commit in todo.items()]
            self._own.begin(written, session_id)
            try:
                zxid = self._store.multi(ops, session_id=session_id)
                done = {
                    tp: Committed(commit.offset, version_after(commit), commit.seen.topic, transaction=zxid)
                    for tp, commit in written.items()
                }
                self._own.note(done)
                result.committed.update(stands)
                result.committed.update(done)
                for tp in self._refused.keys() & todo.keys():
                    del self._refused[tp]
            except MultiFailedError as error:
                self._own.take_back()
                self._fence.check_registered(error, guard)
                cause, in_fence = error.cause, error.index < first_write
                if not in_fence:
                    tp = order[error.index - first_write]
                else:
                    tp = no_owner.partition_at(error.index) if no_owner else order[error.index - len(guard)]
                if in_fence and isinstance(cause, (NoNodeError, NodeExistsError)):
                    self._heed_fence(tp, cause, no_owner, todo, result)
                elif isinstance(cause, NoNodeError) and todo[tp].seen.version is None:
                    self._make_dirs(todo, result)
                elif isinstance(cause, (BadVersionError, NodeExistsError, NoNodeError)):
                    self._set_aside_foreign(todo, session_id, result, is_fenced=bool(guard))
                elif cause.retriable:
                    raise cause from error
                else:
                    self._refuse(tp, cause, todo, result)
                    refusals += 1
                    if refusals == _MOST_REFUSALS:
                        result.refused.update(dict.fromkeys(todo, cause))
                        return
                continue
            return
        result.failure = OffsetError(
            f"group {self._group}: {len(todo)} offsets change faster than they can be committed"
        )

    def _heed_fence(
        self,
        tp: TopicPartition,
        cause: NoNodeError | NodeExistsError,
        no_owner: NoOwnerFence | None,
        todo: dict[TopicPartition, Commit],
        result: CommitResult,
    ) -> None:
        if no_owner is None:
            self._set_aside_unowned(todo, result)
        elif isinstance(cause, NoNodeError):
            if no_owner.missed(tp):
                self._make_dirs(todo, result)
        elif no_owner.found(tp):
            result.unowned.add(tp)
            del todo[tp]

    def _refuse(
        self,
        tp: TopicPartition,
        error: LegacyConsumerError,
        todo: dict[TopicPartition, Commit],
        result: CommitResult,
    ) -> None:
        del todo[tp]
        self._refused.pop(tp, None)
        self._refused[tp] = result.refused[tp] = error

    def _set_aside_unowned(self, todo: dict[TopicPartition, Commit], result: CommitResult) -> None:
        # a partition whose owner znode an ACL closes stays: ZooKeeper refuses its check in the next request
        for tp in self._fence.without_owner(todo):
            result.unowned.add(tp)
            del todo[tp]

    def _set_aside_foreign(
        self, todo: dict[TopicPartition, Commit], session_id: int | None, result: CommitResult, *, is_fenced: bool
    ) -> None:
        foreign: dict[TopicPartition, Committed] = {}
        for tp, now in self.read(list(todo)).items():
            if now.problem is not None and now.version is None:
                self._refuse(tp, OffsetError(now.problem), todo, result)
                continue
            if now.version == todo[tp].seen.version:
                continue
            if not self.wrote(tp, now):
                foreign[tp] = now
                continue
            if now.offset == todo[tp].offset:
                # our own write, whose reply was lost
                self._own.note({tp: now})
                result.committed[tp] = now
            else:
                # our own write, too, but of an earlier commit: this commit overwrites it
                todo[tp] = Commit(todo[tp].offset, now)
                continue
            del todo[tp]
        # after the read of the offsets: a client that takes a partition away commits after that
        found = self._fence.find_stolen(foreign, session_id) if is_fenced else CommitResult()
        for tp, now in foreign.items():
            if tp in found.refused:
                self._refuse(tp, found.refused[tp], todo, result)
                continue
            if tp in found.unowned:
                result.unowned.add(tp)
            else:
                result.foreign[tp] = now
            del todo[tp]

    def wrote(self, tp: TopicPartition, stored: Committed) -> bool:
        """As OffsetStore; compares the transaction, or offset and version if no reply named it."""
        return self._own.holds(tp, stored)

    def _write_op(self, tp: TopicPartition, commit: Commit, *, stands: bool) -> Op:
        offset, seen = commit
        if stands and seen.version is not None:
            return CheckOp(self._paths[tp], seen.version)
        if seen.version is None:
            return CreateOp(self._paths[tp], encode_offset(offset))
        return SetOp(self._paths[tp], encode_offset(offset), seen.version)

    def _make_dirs(self, todo: dict[TopicPartition, Commit], result: CommitResult) -> None:
        for topic in sorted({tp.topic for tp in todo}):
            try:
                self._store.ensure_path(TopicOffsetsPath(self._group, topic).path)
            except NoNodeError:
                # another client deletes the group's folders meanwhile: the next round creates them again
                continue
            except LegacyConsumerError as error:
                if error.retriable:
                    raise
                for tp in [tp for tp in todo if tp.topic == topic]:
                    self._refuse(tp, error, todo, result)

    def _in_requests(
        self, commits: Mapping[TopicPartition, Commit], guard: Sequence[CheckOp]
    ) -> Iterator[dict[TopicPartition, Commit]]:
        def ops_of(tp: TopicPartition) -> list[Op]:
            fence = self._fence.checks([tp]) if guard else NoOwnerFence(self._group).ops([tp])
            return [*fence, CreateOp(self._paths[tp], _LONGEST_OFFSET)]

        for chunk in in_requests(self._store.max_multi_bytes, commits, guard, ops_of):
            yield {tp: commits[tp] for tp in chunk}


def _committed(path: str, znode: Znode | NotPermittedError | None, topic: TopicOrigin | None) -> Committed:
    if isinstance(znode, NotPermittedError):
        return Committed(None, None, topic, problem=str(znode))
    written = written_in_zookeeper(path, znode)
    judgement = judge(written, topic)
    if znode is None:
        return Committed(judgement.position, None, topic, judgement.outlived, written.problem)
    stat = znode.stat
    return Committed(
        judgement.position, stat.version, topic, judgement.outlived, written.problem, stat.mzxid, judgement.is_fragile
    )
