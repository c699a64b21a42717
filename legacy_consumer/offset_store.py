"""Offsets in ZooKeeper: reads them, and commits them so that a group cannot move backwards by accident.

A commit is one multi: my registration exists, so my session lives; each owner znode exists; each offset znode still has
the version it had when I last saw it. A version that differs means that somebody else wrote: an operator's reset, or a
JVM member that does not know yet that it lost the partition. Nothing is overwritten unseen: the partition is reported
with both offsets, and what happens next is the caller's choice (commit.conflict).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from legacy_consumer.progress import Committed
from zk_layout.codecs import decode_offset, encode_offset
from zk_layout.errors import (
    BadVersionError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdPath, OffsetPath, OwnerPath, TopicOffsetsPath
from zk_layout.store import CheckOp, CreateOp, Op, SetOp, ZkStore, multi_size

logger = logging.getLogger(__name__)

_NO_ZNODE = Committed(None, None)


@dataclass(frozen=True, slots=True)
class Commit:
    """One offset to write, over the znode as it was last seen."""

    offset: int
    seen: Committed


@dataclass(slots=True)
class CommitResult:
    """What became of a commit.

    committed: the znodes as they are now. foreign: somebody else wrote these; the znodes as they are. unowned: their
    owner znodes are gone, so they were not written.
    """

    committed: dict[TopicPartition, Committed] = field(default_factory=dict)
    foreign: dict[TopicPartition, Committed] = field(default_factory=dict)
    unowned: set[TopicPartition] = field(default_factory=set)


class ZooKeeperOffsetStore:
    """The offset znodes of one group. Any thread may call; a caller serialises its own commits."""

    def __init__(self, store: ZkStore, group: str) -> None:
        self._store = store
        self._group = group

    def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The committed offsets; a literal -1 counts as none, as every reader of the JVM takes it.

        Raises: MalformedZnodeError, as a JVM member would fail its rebalance: to guess here would lose messages.
        """
        paths = [self._path(tp) for tp in partitions]
        found: dict[TopicPartition, Committed] = {}
        for tp, path, znode in zip(partitions, paths, self._store.get_data_many(paths), strict=True):
            if znode is None:
                found[tp] = _NO_ZNODE
            else:
                offset = decode_offset(path, znode.data)
                found[tp] = Committed(None if offset < 0 else offset, znode.stat.version)
        return found

    def commit(
        self, commits: Mapping[TopicPartition, Commit], *, consumer_id: str | None, session_id: int | None
    ) -> CommitResult:
        """Write these offsets, all of a request or none of it.

        consumer_id: the member that owns the partitions, whose registration and owner znodes must exist; None commits
        without owning, which only the versions fence.
        Raises: SessionExpiredError if the registration is gone or the session is another; ConnectionLostError, after
        which the offsets may or may not be written: read them again.
        """
        result = CommitResult()
        guard = [] if consumer_id is None else [CheckOp(ConsumerIdPath(self._group, consumer_id).path)]
        for chunk in self._chunks(commits, guard):
            self._commit_chunk(chunk, guard, session_id, result)
        return result

    def _commit_chunk(
        self,
        todo: dict[TopicPartition, Commit],
        guard: Sequence[CheckOp],
        session_id: int | None,
        result: CommitResult,
    ) -> None:
        # each round takes at least one partition out, or mends a directory
        for _ in range(len(todo) + 3):
            if not todo:
                return
            order = list(todo)
            ops: list[Op] = [*guard]
            if guard:
                ops += [CheckOp(self._owner_path(tp)) for tp in order]
            first_write = len(ops)
            ops += [self._write_op(tp, todo[tp]) for tp in order]
            try:
                stats = self._store.multi(ops, session_id=session_id)
            except MultiFailedError as error:
                if guard and error.index == 0:
                    msg = f"{guard[0].path} is gone: this member is not registered any more"
                    raise SessionExpiredError(msg) from error
                if error.index < first_write:
                    self._set_aside_unowned(todo, result)
                elif (
                    isinstance(error.cause, NoNodeError) and todo[order[error.index - first_write]].seen.version is None
                ):
                    self._make_dirs({tp.topic for tp in order})
                elif isinstance(error.cause, (BadVersionError, NodeExistsError, NoNodeError)):
                    self._set_aside_foreign(todo, result)
                else:
                    raise error.cause from error
                continue
            for tp, stat in zip(order, stats[first_write:], strict=True):
                version = 0 if stat is None else stat.version
                result.committed[tp] = Committed(todo[tp].offset, version)
            return
        logger.warning("group %s: %d offsets change faster than they can be committed", self._group, len(todo))

    def _set_aside_unowned(self, todo: dict[TopicPartition, Commit], result: CommitResult) -> None:
        order = list(todo)
        stats = self._store.exists_many([self._owner_path(tp) for tp in order])
        for tp, stat in zip(order, stats, strict=True):
            if stat is None:
                result.unowned.add(tp)
                del todo[tp]

    def _set_aside_foreign(self, todo: dict[TopicPartition, Commit], result: CommitResult) -> None:
        for tp, now in self.read(list(todo)).items():
            if now.version != todo[tp].seen.version:
                if now.offset == todo[tp].offset:
                    # our own write, whose reply was lost
                    result.committed[tp] = now
                else:
                    result.foreign[tp] = now
                del todo[tp]

    def _write_op(self, tp: TopicPartition, commit: Commit) -> Op:
        data = encode_offset(commit.offset)
        if commit.seen.version is None:
            return CreateOp(self._path(tp), data)
        return SetOp(self._path(tp), data, commit.seen.version)

    def _make_dirs(self, topics: set[str]) -> None:
        for topic in sorted(topics):
            self._store.ensure_path(TopicOffsetsPath(self._group, topic).path)

    def _chunks(
        self, commits: Mapping[TopicPartition, Commit], guard: Sequence[CheckOp]
    ) -> Iterator[dict[TopicPartition, Commit]]:
        limit = self._store.max_multi_bytes - sum(map(multi_size, guard))
        chunk: dict[TopicPartition, Commit] = {}
        size = 0
        for tp, commit in sorted(commits.items()):
            cost = multi_size(self._write_op(tp, commit))
            if guard:
                cost += multi_size(CheckOp(self._owner_path(tp)))
            if chunk and size + cost > limit:
                yield chunk
                chunk, size = {}, 0
            chunk[tp] = commit
            size += cost
        if chunk:
            yield chunk

    def _path(self, tp: TopicPartition) -> str:
        return OffsetPath(self._group, tp.topic, tp.partition).path

    def _owner_path(self, tp: TopicPartition) -> str:
        return OwnerPath(self._group, tp.topic, tp.partition).path
