"""Claims and releases owner znodes: all of a plan or nothing, and only what this session owns.

A claim is one multi of creates, held together with a check that this member is still registered. ZooKeeper refuses it
as a whole when one owner znode exists; then the znodes in the way are read. Those of my own session (a claim whose
reply was lost) are adopted, all others are reported with their owners' names.

A look costs a round trip, so a release does without where it would say nothing new: an owner znode that was seen to be
mine while it was watched is mine until the watch fires, and whoever was answered since would have heard of that.

A reply that never came leaves it open whether a claim was made, and a claim of several requests may fail between two of
them, whatever the error. Such partitions are kept in mind as doubtful, and their owner znodes are looked at before the
next decision.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum

from rebalance.errors import PartitionOwnedError
from zk_layout.codecs import encode_owner
from zk_layout.errors import (
    ConnectionLostError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    ZooKeeperError,
)
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.paths import ConsumerIdPath, OwnerPath, TopicOwnersPath
from zk_layout.store import CheckOp, CreateOp, DeleteOp, Op, Watcher, WatchEvent, WatchKind, ZkStore, multi_size

logger = logging.getLogger(__name__)


class _Outcome(Enum):
    """What became of an attempt to create owner znodes."""

    DONE = "done"
    IN_THE_WAY = "owner znodes of somebody are in the way"
    NO_FOLDER = "the topic's directory under owners is missing"


class Ownership:
    """The owner znodes of one member of one group. Used by the coordinator's thread alone."""

    def __init__(self, store: ZkStore, group: str, consumer_id: str) -> None:
        self._store = store
        self._group = group
        self._consumer_id = consumer_id
        self._id_path = ConsumerIdPath(group, consumer_id).path
        self._owned: dict[TopicPartition, ConsumerThreadId] = {}
        self._doubtful: dict[TopicPartition, ConsumerThreadId] = {}
        self._watched: set[str] = set()
        self._seen_since: set[str] = set()
        """Of those watched, the ones that were seen to be mine after the watch was set."""
        self._session_id = 0

    @property
    def owned(self) -> Mapping[TopicPartition, ConsumerThreadId]:
        """What this session has claimed and not released."""
        return self._owned

    @property
    def session_id(self) -> int:
        """The session in which everything is claimed; 0 before the first."""
        return self._session_id

    def begin_session(self, session_id: int) -> None:
        """From now on claim in this session; nothing of another one is owned any more. Twice the same is harmless."""
        if session_id != self._session_id:
            self._session_id = session_id
            self.forget()

    def forget(self) -> None:
        """Own nothing, without touching ZooKeeper: the session that owned it is gone."""
        self._owned = {}
        self._doubtful = {}
        self._watched.clear()
        self._seen_since.clear()

    def claim(self, wanted: Mapping[TopicPartition, ConsumerThreadId]) -> None:
        """Create the owner znodes of all wanted partitions, or of none.

        Raises: PartitionOwnedError with the owners in the way; any other error of the store, after which
        resolve_doubts must find out what was done.
        Source: design of the Scala consumer, ZookeeperConsumerConnector.reflectPartitionOwnershipDecision, which tries
        every partition for itself and undoes what it created.
        """
        todo = dict(wanted)
        claimed: dict[TopicPartition, ConsumerThreadId] = {}
        try:
            for _ in range(4):
                outcome = self._create_all(todo, claimed)
                todo = {tp: thread for tp, thread in todo.items() if tp not in claimed}
                if outcome is _Outcome.DONE:
                    break
                if outcome is _Outcome.NO_FOLDER:
                    # once in the life of a group; most who claim find the folder there
                    self._make_folders({tp.topic for tp in todo})
                    continue
                adopted = self._adopt_or_refuse(todo)
                claimed.update(adopted)
                todo = {tp: thread for tp, thread in todo.items() if tp not in adopted}
        except Exception as error:
            # in mind before it is undone: that may fail as well
            self._doubtful.update(wanted)
            if not isinstance(error, ConnectionLostError):
                self._delete_owners(claimed)
            if isinstance(error, PartitionOwnedError):
                for tp in wanted:
                    del self._doubtful[tp]
            raise
        self._owned.update(claimed)
        if todo:
            # each look found them free, each claim found them taken: somebody comes and goes
            raise PartitionOwnedError(dict.fromkeys(todo, "(changing)"))

    def release(self, partitions: Iterable[TopicPartition], *, just_asked: bool = False) -> None:
        """Delete the owner znodes of these partitions, those that are still mine.

        just_asked: ZooKeeper has answered something since the caller began, so that watches that fired are known.
        A member of the JVM deletes owner znodes by path alone, so that one of ours may by now be somebody else's.
        """
        going = {tp: self._owned[tp] for tp in partitions if tp in self._owned}
        try:
            self._delete_owners(going, trust_watches=just_asked)
        except Exception:
            # a part of them may be gone
            self._doubtful.update(going)
            raise
        finally:
            for tp in going:
                del self._owned[tp]

    def leave(self) -> bool:
        """Delete every owner znode that is mine and my registration, if it is mine, in one request if it fits.

        Returns: whether all are gone; the session's end removes what is left.
        """
        self.resolve_doubts()
        self._watched.clear()
        self._seen_since.clear()
        ops: list[tuple[TopicPartition, Op]] = [
            (tp, DeleteOp(self._owner_path(tp))) for tp in self._still_mine(self._owned)
        ]
        *before, last = list(self._chunks(ops)) or [[]]
        stat = self._store.exists(self._id_path)
        # another member may run under the same consumer.id
        mine = stat is not None and stat.ephemeral_owner == self._session_id
        try:
            for chunk in before:
                self._multi([op for _, op in chunk])
            if last or mine:
                self._multi([*(op for _, op in last), *([DeleteOp(self._id_path)] if mine else [])])
        except MultiFailedError as error:
            logger.debug("%s: leaving in order was refused: %s", self._consumer_id, error)
            return False
        finally:
            self.forget()
        return True

    def resolve_doubts(self) -> None:
        """Look at the owner znodes of claims and releases whose outcome is not known."""
        if not self._doubtful:
            return
        doubtful = dict(self._doubtful)
        for tp, text in self._mine_among(list(doubtful)).items():
            self._owned[tp] = ConsumerThreadId.parse(text)
        self._doubtful = {}

    def lost(self) -> set[TopicPartition]:
        """Of what I believe to own, what the owner znodes no longer show as mine; those are owned no more."""
        watched = frozenset(self._watched)
        mine = self._mine_among(list(self._owned))
        self._seen_since = {path for path in map(self._owner_path, mine) if path in watched}
        gone = {tp for tp, thread in self._owned.items() if mine.get(tp) != str(thread)}
        for tp in gone:
            del self._owned[tp]
        return gone

    def watch_owned(self, on_gone: Callable[[], None]) -> bool:
        """Watch the owner znodes that are mine and not watched yet; False if there are none. Look at them after it.

        on_gone is called on a thread of the store, and not for what I release myself.
        """
        fresh = [path for path in map(self._owner_path, self._owned) if path not in self._watched]
        if not fresh:
            return False

        def watcher(event: WatchEvent) -> None:
            if event.path in self._watched:
                self._watched.discard(event.path)
                # all is looked at again after the loss of a connection
                if event.kind is not WatchKind.LOST:
                    on_gone()

        self._seen_since.difference_update(fresh)
        self._watched.update(fresh)
        try:
            self._store.watch_data_many(fresh, watcher)
        except ZooKeeperError:
            self._watched.difference_update(fresh)
            raise
        return True

    def watch_obstacles(self, owners: Mapping[TopicPartition, str], watcher: Watcher) -> bool:
        """Watch one owner znode of each member in the way; False if one of them is gone already.

        One is enough: a member of ours releases all in one request, and after it is gone the next try finds what is
        left of those of a JVM member.
        """
        last_of: dict[str, TopicPartition] = {}
        for tp, owner in owners.items():
            last_of[owner.rpartition("-")[0]] = tp
        stats = self._store.exists_many([self._owner_path(tp) for tp in sorted(last_of.values())], watcher)
        return all(stat is not None for stat in stats)

    def _owner_path(self, tp: TopicPartition) -> str:
        return OwnerPath(self._group, tp.topic, tp.partition).path

    def _make_folders(self, topics: set[str]) -> None:
        for topic in sorted(topics):
            self._store.ensure_path(TopicOwnersPath(self._group, topic).path)

    def _create_all(
        self, todo: Mapping[TopicPartition, ConsumerThreadId], claimed: dict[TopicPartition, ConsumerThreadId]
    ) -> _Outcome:
        """Create in as few requests as fit, noting what was created."""
        ops = [
            (tp, CreateOp(self._owner_path(tp), encode_owner(thread), ephemeral=True)) for tp, thread in todo.items()
        ]
        for chunk in self._chunks(ops):
            try:
                self._multi([CheckOp(self._id_path), *(op for _, op in chunk)])
            except MultiFailedError as error:
                if error.index == 0:
                    msg = f"{self._id_path} is gone"
                    raise SessionExpiredError(msg) from error
                if isinstance(error.cause, NoNodeError):
                    return _Outcome.NO_FOLDER
                if isinstance(error.cause, NodeExistsError):
                    return _Outcome.IN_THE_WAY
                raise error.cause from error
            claimed.update((tp, todo[tp]) for tp, _ in chunk)
        return _Outcome.DONE

    def _adopt_or_refuse(
        self, todo: Mapping[TopicPartition, ConsumerThreadId]
    ) -> dict[TopicPartition, ConsumerThreadId]:
        """Which of these are mine already. Raises: PartitionOwnedError if somebody else holds one."""
        adopted: dict[TopicPartition, ConsumerThreadId] = {}
        stale: dict[TopicPartition, ConsumerThreadId] = {}
        others: dict[TopicPartition, str] = {}
        paths = [self._owner_path(tp) for tp in todo]
        for (tp, thread), znode in zip(todo.items(), self._store.get_data_many(paths), strict=True):
            if znode is None:
                continue
            text = (znode.data or b"").decode("utf-8", "replace")
            # compared by session, not by text: a claim of my own dead session looks like mine and then vanishes
            if znode.stat.ephemeral_owner != self._session_id:
                others[tp] = text
            elif text == str(thread):
                adopted[tp] = thread
            else:
                stale[tp] = thread
        if others:
            raise PartitionOwnedError(others)
        # mine, but another stream's: make room for the right text
        self._multi_in_chunks([(tp, DeleteOp(self._owner_path(tp))) for tp in stale])
        return adopted

    def _delete_owners(
        self, partitions: Mapping[TopicPartition, ConsumerThreadId], *, trust_watches: bool = False
    ) -> None:
        for attempt in range(3):
            mine = self._still_mine(partitions, trust_watches=trust_watches and attempt == 0)
            self._watched.difference_update(map(self._owner_path, mine))
            try:
                self._multi_in_chunks([(tp, DeleteOp(self._owner_path(tp))) for tp in mine])
            except MultiFailedError as error:
                if not isinstance(error.cause, NoNodeError):
                    raise error.cause from error
                # deleted by somebody between the look and the request: look again
            else:
                return

    def _still_mine(
        self, partitions: Mapping[TopicPartition, ConsumerThreadId], *, trust_watches: bool = False
    ) -> Sequence[TopicPartition]:
        mine = {tp for tp in partitions if trust_watches and self._is_guarded(tp)}
        mine.update(self._mine_among([tp for tp in partitions if tp not in mine]))
        for tp in partitions:
            if tp not in mine:
                logger.warning("%s: the owner znode of %s is not mine any more", self._consumer_id, tp)
        return [tp for tp in partitions if tp in mine]

    def _is_guarded(self, tp: TopicPartition) -> bool:
        path = self._owner_path(tp)
        # in this order: a watch that fires takes it out of the second
        return path in self._seen_since and path in self._watched

    def _mine_among(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
        """{partition: owner text} of those whose owner znode belongs to my session."""
        if not partitions:
            return {}
        znodes = self._store.get_data_many([self._owner_path(tp) for tp in partitions])
        return {
            tp: (znode.data or b"").decode("utf-8", "replace")
            for tp, znode in zip(partitions, znodes, strict=True)
            if znode is not None and znode.stat.ephemeral_owner == self._session_id
        }

    def _multi_in_chunks(self, ops: Sequence[tuple[TopicPartition, Op]]) -> None:
        for chunk in self._chunks(ops):
            self._multi([op for _, op in chunk])

    def _chunks(self, ops: Sequence[tuple[TopicPartition, Op]]) -> Iterator[list[tuple[TopicPartition, Op]]]:
        limit = self._store.max_multi_bytes - multi_size(CheckOp(self._id_path))
        chunk: list[tuple[TopicPartition, Op]] = []
        size = 0
        for item in ops:
            cost = multi_size(item[1])
            if chunk and size + cost > limit:
                yield chunk
                chunk, size = [], 0
            chunk.append(item)
            size += cost
        if chunk:
            yield chunk

    def _multi(self, ops: Sequence[Op]) -> None:
        self._store.multi(ops, session_id=self._session_id)
