"""Offsets in ZooKeeper: reads them, and commits them so that a group cannot move backwards by accident.

A commit is one multi: my registration exists, so my session lives; each owner znode exists; each offset znode still has
the version it had when I last saw it. A version that differs means that somebody else wrote: an operator's reset, or a
JVM member that does not know yet that it lost the partition. Nothing is overwritten unseen: the partition is reported
with both offsets, and what happens next is the caller's choice (commit.conflict).

What an offset is worth for the topic as it is, judgement.py says.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

from legacy_consumer.offsets.judgement import TopicOrigin, Verdict, judge, written_in_zookeeper
from legacy_consumer.offsets.store import Commit, CommitResult
from legacy_consumer.offsets.topic_lives import origin_paths, origins_in
from legacy_consumer.progress import Committed
from zk_layout.codecs import decode_offset, encode_offset
from zk_layout.errors import (
    BadVersionError,
    ConnectionLostError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdPath, TopicOffsetsPath, TopicOwnersPath
from zk_layout.store import CheckOp, CreateOp, Op, SetOp, ZkStore, Znode, multi_size

logger = logging.getLogger(__name__)

_LONGEST_OFFSET = b"9" * 19


class ZooKeeperOffsetStore:
    """The offset znodes of one group. Any thread may call; a caller serialises its own commits."""

    def __init__(self, store: ZkStore, group: str) -> None:
        self._store = store
        self._group = group
        self._topics: dict[str, tuple[str, str]] = {}
        self._unanswered: dict[TopicPartition, set[tuple[int, int]]] = {}

    def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The committed offsets; a literal -1 counts as none, as every reader of the JVM takes it.

        The topics' znodes are read in the same batch. Raises: MalformedZnodeError.
        """
        topics = sorted({tp.topic for tp in partitions})
        paths = [self._path(tp) for tp in partitions]
        znodes = self._store.get_data_many([*paths, *origin_paths(topics)])
        origins = origins_in(topics, znodes[len(paths) :])
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
    ) -> CommitResult:
        """Write these offsets, all of a request or none of it; without a consumer_id only the versions fence it."""
        result = CommitResult()
        guard = self._guard(consumer_id)
        for chunk in self._chunks(commits, guard):
            self._commit_chunk(chunk, guard, session_id, result)
        return result

    def find_unowned(
        self, partitions: Collection[TopicPartition], *, consumer_id: str, session_id: int | None
    ) -> set[TopicPartition]:
        """Check, writing nothing, that this member may commit these; returns those whose owner znodes are gone.

        Raises: SessionExpiredError if the registration is gone or the session is another; ConnectionLostError.
        """
        result = CommitResult()
        guard = self._guard(consumer_id)
        nothing = Committed(None, None)
        for chunk in self._chunks({tp: Commit(0, nothing) for tp in partitions}, guard):
            for _ in range(len(chunk) + 1):
                try:
                    self._store.multi([*guard, *(CheckOp(self._owner_path(tp)) for tp in chunk)], session_id=session_id)
                except MultiFailedError as error:
                    self._refuse_unregistered(error, guard)
                    self._set_aside_unowned(chunk, result)
                else:
                    break
        return result.unowned

    def close(self) -> None:
        """The store is not this one's to close."""

    @property
    def wants_unchanged(self) -> bool:
        """A znode stays as it is."""
        return False

    def _guard(self, consumer_id: str | None) -> list[CheckOp]:
        return [] if consumer_id is None else [CheckOp(ConsumerIdPath(self._group, consumer_id).path)]

    def _refuse_unregistered(self, error: MultiFailedError, guard: Sequence[CheckOp]) -> None:
        if guard and error.index == 0:
            msg = f"{guard[0].path} is gone: this member is not registered any more"
            raise SessionExpiredError(msg) from error

    def _commit_chunk(
        self,
        todo: dict[TopicPartition, Commit],
        guard: Sequence[CheckOp],
        session_id: int | None,
        result: CommitResult,
    ) -> None:
        # each round takes at least one partition out, learns that a write was ours, or mends a directory
        for _ in range(2 * len(todo) + 3):
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
            except ConnectionLostError:
                # perhaps written all the same: not to be taken for somebody else's write later
                for tp, commit in todo.items():
                    version = 0 if commit.seen.version is None else commit.seen.version + 1
                    self._unanswered.setdefault(tp, set()).add((commit.offset, version))
                raise
            except MultiFailedError as error:
                self._refuse_unregistered(error, guard)
                if error.index < first_write:
                    self._set_aside_unowned(todo, result)
                elif (
                    isinstance(error.cause, NoNodeError) and todo[order[error.index - first_write]].seen.version is None
                ):
                    self._make_dirs({tp.topic for tp in order})
                elif isinstance(error.cause, (BadVersionError, NodeExistsError, NoNodeError)):
                    if guard:
                        self._set_aside_stolen(todo, session_id, result)
                    self._set_aside_foreign(todo, result)
                else:
                    raise error.cause from error
                continue
            for tp, stat in zip(order, stats[first_write:], strict=True):
                version = 0 if stat is None else stat.version
                result.committed[tp] = Committed(todo[tp].offset, version, todo[tp].seen.topic)
                self._unanswered.pop(tp, None)
            return
        logger.warning("group %s: %d offsets change faster than they can be committed", self._group, len(todo))

    def _set_aside_unowned(self, todo: dict[TopicPartition, Commit], result: CommitResult) -> None:
        order = list(todo)
        stats = self._store.exists_many([self._owner_path(tp) for tp in order])
        for tp, stat in zip(order, stats, strict=True):
            if stat is None:
                result.unowned.add(tp)
                del todo[tp]

    def _set_aside_stolen(
        self, todo: dict[TopicPartition, Commit], session_id: int | None, result: CommitResult
    ) -> None:
        """Who wrote may own the partition by now: a JVM member deletes owner znodes by path, whoever's they are."""
        order = list(todo)
        stats = self._store.exists_many([self._owner_path(tp) for tp in order])
        for tp, stat in zip(order, stats, strict=True):
            if stat is None or stat.ephemeral_owner != session_id:
                result.unowned.add(tp)
                del todo[tp]

    def _set_aside_foreign(self, todo: dict[TopicPartition, Commit], result: CommitResult) -> None:
        for tp, now in self.read(list(todo)).items():
            if now.version == todo[tp].seen.version:
                continue
            if now.offset == todo[tp].offset:
                # our own write, whose reply was lost
                result.committed[tp] = now
                self._unanswered.pop(tp, None)
            elif (now.offset, now.version) in self._unanswered.get(tp, ()):
                # our own too, of an earlier commit: this one goes on top of it
                todo[tp] = Commit(todo[tp].offset, now)
                continue
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
        """As many partitions at a time as fit in a request, if all were as long as the longest."""
        order = sorted(commits)
        if not order:
            return
        # an exact sum would cost as much as the request itself
        longest = max(map(self._path, order), key=len)
        cost = multi_size(CreateOp(longest, _LONGEST_OFFSET))
        if guard:
            cost += multi_size(CheckOp(longest))
        fitting = max(1, (self._store.max_multi_bytes - sum(map(multi_size, guard))) // cost)
        for start in range(0, len(order), fitting):
            yield {tp: commits[tp] for tp in order[start : start + fitting]}

    def _path(self, tp: TopicPartition) -> str:
        return f"{self._folders(tp.topic)[0]}/{tp.partition}"

    def _owner_path(self, tp: TopicPartition) -> str:
        return f"{self._folders(tp.topic)[1]}/{tp.partition}"

    def _folders(self, topic: str) -> tuple[str, str]:
        """Where the topic's offsets and its owners are: a commit asks for hundreds of paths in the same two."""
        found = self._topics.get(topic)
        if found is None:
            found = (TopicOffsetsPath(self._group, topic).path, TopicOwnersPath(self._group, topic).path)
            self._topics[topic] = found
        return found


def _committed(path: str, znode: Znode | None, topic: TopicOrigin | None) -> Committed:
    judgement = judge(written_in_zookeeper(path, znode), topic)
    if judgement.verdict is Verdict.UNREADABLE:
        assert znode is not None
        decode_offset(path, znode.data)  # raises
    version = None if znode is None else znode.stat.version
    return Committed(judgement.position, version, topic, judgement.outlived)
