"""Claims and releases owner znodes: all of a plan or nothing, and only what this session owns.

A claim is one multi: a check that this member is still registered, and the creates. If one owner znode exists,
ZooKeeper refuses the whole multi and names that znode, and the member reads and watches it. If it belongs to the
member's own session (a claim whose reply was lost), the member adopts all owner znodes of its session; otherwise it
reports the owner.

To read owner znodes costs a round trip. A release omits that for an owner znode that is watched since the transaction
that wrote it: the znode is the member's until the watch fires, and the store calls a watcher before it returns a later
answer of ZooKeeper.

After a lost reply the member does not know whether ZooKeeper carried out the claim, and a claim of several requests may
fail between two of them, with any error. The member notes such partitions as doubtful, and reads their owner znodes
before the next decision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from rebalance.errors import PartitionOwnedError
from zk_layout.closed_znodes import read_or_stat
from zk_layout.codecs import encode_owner
from zk_layout.errors import (
    ConnectionLostError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotPermittedError,
    SessionExpiredError,
)
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.paths import ConsumerIdPath, OwnerPath, TopicOwnersPath
from zk_layout.store import (
    CheckOp,
    CreateOp,
    DeleteOp,
    Op,
    SetOp,
    WatchEvent,
    WatchKind,
    ZkStore,
    Znode,
    multi_size,
)

logger = safe_logger(__name__)


class Ownership:
    """The owner znodes of one member of one group. Used by the coordinator's thread alone."""

    def __init__(self, store: ZkStore, group: str, consumer_id: str, goes_along: Sequence[str] = ()) -> None:
        """goes_along: the paths of other ephemeral znodes that a member deletes with its registration."""
        self._store = store
        self._group = group
        self._consumer_id = consumer_id
        self._id_path = ConsumerIdPath(group, consumer_id).path
        self._registered = (self._id_path, *goes_along)
        self._owned: dict[TopicPartition, ConsumerThreadId] = {}
        self._doubtful: dict[TopicPartition, ConsumerThreadId] = {}
        self._written_at: dict[TopicPartition, int] = {}
        """The transaction (zxid) that wrote the owner znode."""
        self._watched: set[str] = set()
        """The paths of the owner znodes that are watched since that transaction."""
        self._session_id = 0
        self._on_free: Callable[[], None] = lambda: None
        self._on_gone: Callable[[], None] = lambda: None

    @property
    def owned(self) -> Mapping[TopicPartition, ConsumerThreadId]:
        """The partitions that this session has claimed and not released."""
        return self._owned

    @property
    def session_id(self) -> int:
        """The session in which everything is claimed; 0 before the first."""
        return self._session_id

    def begin_session(self, session_id: int) -> None:
        """Claim in this session from now on, and own nothing of an earlier one. The same session twice is harmless."""
        if session_id != self._session_id:
            self._session_id = session_id
            self.forget()

    def forget(self) -> None:
        """Own nothing, without touching ZooKeeper: the session that owned it is gone."""
        self._owned = {}
        self._doubtful = {}
        self._written_at.clear()
        self._watched.clear()

    def claim(self, wanted: Mapping[TopicPartition, ConsumerThreadId], on_free: Callable[[], None]) -> None:
        """Create the owner znodes of all wanted partitions, or of none.

        on_free is called, on a thread of the store, once an owner znode that was in the way may be gone.
        Raises: PartitionOwnedError with an owner in the way; any other error of the store, after which
        resolve_doubts must find out what was done.
        Source: design of the Scala consumer, ZookeeperConsumerConnector.reflectPartitionOwnershipDecision, which tries
        every partition for itself and undoes what it created.
        """
        self._on_free = on_free
        claimed: dict[TopicPartition, ConsumerThreadId] = {}
        try:
            for _ in range(4):
                todo = {tp: thread for tp, thread in wanted.items() if tp not in claimed}
                if not todo:
                    break
                try:
                    in_the_way = self._create_all(todo, claimed)
                except NoNodeError:
                    # once in the life of a group: later claims find the folder
                    self._make_folders({tp.topic for tp in todo})
                    continue
                if in_the_way is not None and self._is_mine(in_the_way):
                    claimed.update(self._adopt(todo))
        except Exception as error:
            # noted before the deletion below, which may fail as well
            self._doubtful.update(wanted)
            if not isinstance(error, ConnectionLostError):
                self._delete_owners(claimed)
            if isinstance(error, PartitionOwnedError):
                for tp in wanted:
                    del self._doubtful[tp]
            raise
        self._owned.update(claimed)
        if left := wanted.keys() - claimed.keys():
            # each read found the znode gone, each claim found it there: another client creates and deletes it
            on_free()
            raise PartitionOwnedError(dict.fromkeys(left, "(changing)"))

    def release(self, partitions: Iterable[TopicPartition], *, just_asked: bool = False) -> None:
        """Delete the owner znodes of these partitions, as far as they are still this member's.

        just_asked: ZooKeeper has answered a request since the caller began, so the watches that fired before are known.
        A JVM member deletes owner znodes by path alone, so another member may own one of these znodes by now.
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

    def leave(self) -> NotPermittedError | None:
        """Delete every owner znode of mine, my registration and what goes along with it, in one request if it fits.

        Returns: None if all are gone, or the reason; the session's end removes what is left. After an error call it
        again.
        """
        self.resolve_doubts()
        self._watched.clear()
        refusal: NotPermittedError | None = None
        *before, last = list(self._chunks(self._delete_ops(self._owned))) or [[]]
        try:
            for chunk in before:
                self._delete_chunk(chunk)
            self._delete_chunk(last, and_registration=True)
        except NotPermittedError as error:
            refusal = error
        except Exception:
            # a part of them may be gone
            self._doubtful.update(self._owned)
            self._owned = {}
            raise
        self.forget()
        return refusal

    def resolve_doubts(self) -> None:
        """Read the owner znodes of claims and releases whose outcome is not known."""
        if not self._doubtful:
            return
        self._owned.update(self._adopt(dict(self._doubtful)))
        self._doubtful = {}

    def lost(self) -> set[TopicPartition]:
        """Return the partitions that I believed to own and whose owner znodes are not mine; they are owned no more."""
        mine = self._mine_among(self._owned)
        self._correct(mine, self._owned)
        gone = self._owned.keys() - mine.keys()
        for tp in gone:
            del self._owned[tp]
        return gone

    def watch_owned(self, on_gone: Callable[[], None]) -> bool:
        """Watch the owner znodes that are mine and not watched yet, each since it was written; False if there are none.

        on_gone: called on a thread of the store, at once for a znode that changed already, never for my own release.
        """
        self._on_gone = on_gone
        fresh: dict[int, list[str]] = {}
        for tp in self._owned:
            if (path := self._owner_path(tp)) not in self._watched:
                fresh.setdefault(self._written_at[tp], []).append(path)
        for since, paths in fresh.items():
            self._watched.update(paths)
            try:
                self._store.watch_data_many(paths, self._note_change, since)
            except Exception:
                # whatever the error: a release trusts a watch that it believes to stand
                self._watched.difference_update(paths)
                raise
        return bool(fresh)

    def _note_change(self, event: WatchEvent) -> None:
        if event.path in self._watched:
            self._watched.discard(event.path)
            # after a lost connection the member reads all its owner znodes again
            if event.kind is not WatchKind.LOST:
                self._on_gone()

    def _owner_path(self, tp: TopicPartition) -> str:
        return OwnerPath(self._group, tp.topic, tp.partition).path

    def _make_folders(self, topics: set[str]) -> None:
        for topic in sorted(topics):
            self._store.ensure_path(TopicOwnersPath(self._group, topic).path)

    def _create_all(
        self, todo: Mapping[TopicPartition, ConsumerThreadId], claimed: dict[TopicPartition, ConsumerThreadId]
    ) -> TopicPartition | None:
        """Create in as few requests as possible; note in claimed what was created.

        The last partition is first: a JVM member releases one by one, and deletes the reported znode among its last.
        Returns: a partition whose owner znode is in the way; None if there is none.
        Raises: NoNodeError if a topic's directory is missing; SessionExpiredError; the store's other errors.
        """
        ops = [
            (tp, CreateOp(self._owner_path(tp), encode_owner(todo[tp]), ephemeral=True))
            for tp in sorted(todo, reverse=True)
        ]
        for chunk in self._chunks(ops):
            try:
                zxid = self._multi([CheckOp(self._id_path), *(op for _, op in chunk)])
            except MultiFailedError as error:
                if error.index == 0:
                    msg = f"{self._id_path} is gone"
                    raise SessionExpiredError(msg) from error
                if isinstance(error.cause, NodeExistsError):
                    return chunk[error.index - 1][0]
                raise error.cause from error
            for tp, _ in chunk:
                claimed[tp] = todo[tp]
                self._written_at[tp] = zxid
        return None

    def _may_be_free(self, _event: WatchEvent) -> None:
        # one watcher: a claim that is tried again for hours sets the same watch, not one more
        self._on_free()

    def _is_mine(self, tp: TopicPartition) -> bool:
        """Return whether the owner znode in the way is my session's; False if it is gone.

        Raises: PartitionOwnedError if it is another session's; it is watched then.
        """
        try:
            znode = self._store.get_data(self._owner_path(tp), self._may_be_free)
        except NoNodeError:
            return False
        # compared by session, not by text: a claim of my own dead session looks like mine and then vanishes
        if znode.stat.ephemeral_owner == self._session_id:
            return True
        owner = (znode.data or b"").decode("utf-8", "replace")
        raise PartitionOwnedError({tp: owner})

    def _adopt(self, todo: Mapping[TopicPartition, ConsumerThreadId]) -> dict[TopicPartition, ConsumerThreadId]:
        """Return the partitions whose owner znodes are my session's already."""
        mine = self._mine_among(todo)
        self._correct(mine, todo)
        return {tp: todo[tp] for tp in mine}

    def _correct(self, mine: Mapping[TopicPartition, Znode], right: Mapping[TopicPartition, ConsumerThreadId]) -> None:
        """Write the right text into owner znodes of mine that another client overwrote, or that name another stream."""
        ops = [
            (tp, SetOp(self._owner_path(tp), encode_owner(right[tp]), znode.stat.version))
            for tp, znode in mine.items()
            if znode.data != encode_owner(right[tp])
        ]
        for chunk in self._chunks(ops):
            names = ", ".join(str(tp) for tp, _ in chunk[:5])
            try:
                zxid = self._multi([op for _, op in chunk])
            except MultiFailedError as error:
                if not isinstance(error.cause, NotPermittedError):
                    raise error.cause from error
                # my session owns them, whatever their text
                logger.warning("%s: owner znodes of mine hold another text: %s: %s", self._consumer_id, names, error)
                continue
            self._written_at.update((tp, zxid) for tp, _ in chunk)
            logger.warning(
                "%s: owner znodes of mine held another text, I wrote mine again: %s", self._consumer_id, names
            )

    def _delete_owners(self, partitions: Collection[TopicPartition], *, trust_watches: bool = False) -> None:
        for chunk in self._chunks(self._delete_ops(partitions)):
            self._delete_chunk(chunk, trust_watches=trust_watches)

    def _delete_chunk(
        self, chunk: Sequence[tuple[TopicPartition, Op]], *, trust_watches: bool = False, and_registration: bool = False
    ) -> None:
        """Delete what is still mine of a chunk; check just before the request, as earlier requests took time."""
        more = self._registered if and_registration else ()
        for attempt in range(3):
            deletes = self._deletes_of_mine(chunk, more, trust_watches=trust_watches and attempt == 0)
            try:
                self._multi(deletes)
            except MultiFailedError as error:
                if attempt == 2 or not isinstance(error.cause, NoNodeError):
                    raise error.cause from error
                # another client deleted one between the read and the request: read again
            else:
                return

    def _delete_ops(self, partitions: Iterable[TopicPartition]) -> list[tuple[TopicPartition, Op]]:
        return [(tp, DeleteOp(self._owner_path(tp))) for tp in partitions]

    def _deletes_of_mine(
        self, chunk: Sequence[tuple[TopicPartition, Op]], more: Sequence[str], *, trust_watches: bool
    ) -> list[Op]:
        """Return the deletes of what is still mine: the owner znodes of a chunk, and the znodes at more paths."""
        owners = {self._owner_path(tp): tp for tp, _ in chunk}
        # if one is not watched, all are read: a watch that fires during the read removes its path from _watched
        all_watched = trust_watches and owners.keys() <= self._watched
        mine = owners.keys() if all_watched else self._mine_at([*owners, *more]).keys()
        for path, tp in owners.items():
            if path not in mine:
                logger.warning("%s: the owner znode of %s is not mine any more", self._consumer_id, tp)
        # on_gone must not be called for znodes that I delete myself
        self._watched.difference_update(mine)
        return [DeleteOp(path) for path in (*owners, *more) if path in mine]

    def _mine_among(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Znode]:
        """Return {partition: owner znode} of the partitions whose owner znode belongs to my session."""
        at = self._mine_at([self._owner_path(tp) for tp in partitions])
        mine = {tp: at[path] for tp in partitions if (path := self._owner_path(tp)) in at}
        self._written_at.update((tp, znode.stat.mzxid) for tp, znode in mine.items())
        return mine

    def _mine_at(self, paths: Sequence[str]) -> dict[str, Znode]:
        """Return {path: znode} of the znodes that exist and belong to my session.

        Another member with the same consumer.id has another session.
        """
        if not paths:
            return {}
        # the Stat of a znode that an ACL forbids to read names its session, too
        znodes, closed = read_or_stat(self._store, paths)
        mine: dict[str, Znode] = {}
        for path, znode in zip(paths, znodes, strict=True):
            if znode is None and path in closed:
                raise closed[path]
            if znode is not None and znode.stat.ephemeral_owner == self._session_id:
                mine[path] = znode
        return mine

    def _chunks(self, ops: Sequence[tuple[TopicPartition, Op]]) -> Iterator[list[tuple[TopicPartition, Op]]]:
        # leaves room to delete the registration with the last chunk; the check of it in a claim takes no more
        limit = self._store.max_multi_bytes - sum(multi_size(DeleteOp(path)) for path in self._registered)
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

    def _multi(self, ops: Sequence[Op]) -> int:
        return self._store.multi(ops, session_id=self._session_id) if ops else 0
