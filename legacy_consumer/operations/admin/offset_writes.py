"""Writes a plan of offsets in one multi, which fails as a whole if another client wrote meanwhile.

Each offset is written as a commit is: at the version that the plan saw. So if another client commits in between, or
creates an offset (offset_fence) or a topic (topic_fence) again, nothing is written. The same multi creates the
folders of new offsets, so a refused plan leaves none.

Only a plan that is larger than a request of ZooKeeper (some thousand partitions) takes several multis. If one of them
fails, the error tells what the others wrote.

The same multi checks that the group has no members (member_fence). With force the group may have members. Then they
are read just before and just after the write, and the result names the members that joined in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.errors import (
    GroupDeletedError,
    OffsetsChangedError,
    OffsetsHalfWrittenError,
    TopicMadeAnewError,
)
from legacy_consumer.operations.admin.member_fence import (
    FENCE_FAILURES,
    ids_back_op,
    no_members,
    no_members_ops,
    read_ids,
)
from legacy_consumer.operations.admin.offset_fence import written_since
from legacy_consumer.operations.admin.offset_plans import OffsetChange, OffsetPlan
from legacy_consumer.operations.admin.topic_fence import check_written, topic_checks
from zk_layout.codecs import encode_offset
from zk_layout.errors import (
    BadVersionError,
    ConnectionLostError,
    LegacyConsumerError,
    MultiFailedError,
    NoNodeError,
)
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumersPath, GroupPath, OffsetPath, OffsetsPath, OwnerPath, TopicOffsetsPath, TopicPath
from zk_layout.store import Acl, CheckOp, CreateOp, DeleteOp, Op, SetOp, ZkStore, Znode, multi_size

logger = safe_logger(__name__)

_TRIES = 3
"""Members that come and go, and topics that get partitions, may make the write fail this often."""
_OVERTAKEN = (*FENCE_FAILURES, BadVersionError)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write. joined: members that registered during the write and may have read the old offsets."""

    partitions: tuple[TopicPartition, ...]
    joined: tuple[str, ...] = ()


def write_plan(
    store: ZkStore,
    plan: OffsetPlan,
    *,
    force: bool = False,
    held_in: int | None = None,
    also: Sequence[Op] = (),
    on_progress: Callable[[int], None] = lambda _: None,
    progress: ChangeProgress | None = None,
) -> Written:
    """Write the plan's changes, all or none. Offsets that the plan does not change must be as the plan saw them, too.

    force: write also while the group has members, which will overwrite it with their commits. held_in: the session of
    the request for which the owners in the plan hold; the same multi checks that none of them has released its
    partition, and that the session is this store's. also: more operations for the end of that multi.
    on_progress: called with the number of partitions written so far. progress: what ZooKeeper has carried out, also if
    this raises.
    Raises: ActiveGroupError, GroupDeletedError; OffsetsChangedError if an offset, and TopicMadeAnewError if a topic, is
    not what the plan saw, with nothing written;
    OffsetsHalfWrittenError, only for a plan too large for one request; NotPermittedError, ConnectionLostError.
    """
    before = () if not force else read_ids(store, plan.group) or ()
    done: list[TopicPartition] = []
    progress = progress or ChangeProgress()
    _write_chunks(store, plan, done, also, progress, force=force, held_in=held_in, on_progress=on_progress)
    after = () if not force else read_ids(store, plan.group) or ()
    return Written(tuple(done), tuple(consumer_id for consumer_id in after if consumer_id not in before))


def _write_chunks(
    store: ZkStore,
    plan: OffsetPlan,
    done: list[TopicPartition],
    also: Sequence[Op],
    progress: ChangeProgress,
    *,
    force: bool,
    held_in: int | None,
    on_progress: Callable[[int], None],
) -> None:
    """Write the plan in multis; add written partitions to `done`. Raises: as write_plan."""
    chunks = list(_chunks(store, plan, also, held=held_in is not None)) or [((), tuple(also))]
    total = len(plan.to_write)
    for changes, ops in chunks:
        here = [change.partition for change in changes if change.changes]
        try:
            if ops:
                _carry_out(store, plan, changes, ops, progress, force=force, held_in=held_in)
            done += here
            written = {c.partition: c.after for c in changes if c.changes and c.after is not None}
            anew = check_written(store, plan.group, plan.creations, written)
        except LegacyConsumerError as error:
            if len(done) in {0, total}:
                raise
            unknown = len(here) if progress.is_unanswered else 0
            raise OffsetsHalfWrittenError(plan.group, tuple(done), unknown, total, str(error)) from error
        if anew:
            kept = tuple(tp for tp in done if tp not in here or tp.topic not in anew)
            raise TopicMadeAnewError(plan.group, min(anew), kept, total)
        on_progress(len(done))


def _carry_out(
    store: ZkStore,
    plan: OffsetPlan,
    changes: Sequence[OffsetChange],
    ops: Sequence[Op],
    progress: ChangeProgress,
    *,
    force: bool,
    held_in: int | None,
) -> None:
    """Read all that the changes depend on, then send one multi; start again if that has changed in between.

    Raises: as write_plan.
    """
    for attempt in range(_TRIES):
        folders = missing_folders(store, [(plan, changes)])
        _refuse_rewritten(store, plan, changes)
        checks = topic_checks(store, plan.group, plan.creations, {change.partition.topic for change in changes})
        owners = [op for change in changes for op in _owner_checks(plan.group, change, held=held_in is not None)]
        fence, back = ([], []) if force else no_members(store, plan.group)
        try:
            progress.multi(store, [*folders, *fence, *ops, *checks, *owners, *back], session_id=held_in)
        except MultiFailedError as error:
            if not isinstance(error.cause, _OVERTAKEN):
                raise error.cause from error
            # if an offset znode or its folder is gone, the next try reads it again
            is_gone = isinstance(error.cause, NoNodeError)
            place = OwnerPath.parse(error.path) or (None if is_gone else OffsetPath.parse(error.path))
            if place is not None:
                raise OffsetsChangedError(plan.group, TopicPartition(place.topic, place.partition)) from error
            if attempt == _TRIES - 1:
                raise error.cause from error
        except ConnectionLostError:
            if not stands(store, plan.group, changes):
                raise
            progress.found_done()
            logger.info("group %s: the connection was lost, but the offsets were written", plan.group)
            return
        else:
            return


def _refuse_rewritten(store: ZkStore, plan: OffsetPlan, changes: Sequence[OffsetChange]) -> None:
    """Raises: OffsetsChangedError if an offset is not the one that the plan saw; ZooKeeperError."""
    since = written_since(store, zxids_seen(plan.group, changes))
    for change in changes:
        if OffsetPath(plan.group, *change.partition).path in since:
            raise OffsetsChangedError(plan.group, change.partition)


def zxids_seen(group: str, changes: Sequence[OffsetChange]) -> dict[str, int | None]:
    """Return {path of an offset: the zxid of its last write}, for written_since."""
    return {OffsetPath(group, *change.partition).path: change.before.zxid for change in changes}


def _owner_checks(group: str, change: OffsetChange, *, held: bool) -> list[CheckOp]:
    return [CheckOp(OwnerPath(group, *change.partition).path)] if held and change.before.owner is not None else []


def _chunks(
    store: ZkStore, plan: OffsetPlan, also: Sequence[Op], *, held: bool
) -> Iterator[tuple[tuple[OffsetChange, ...], tuple[Op, ...]]]:
    changes: list[OffsetChange] = []
    ops: list[Op] = []
    group = plan.group
    fence = [*no_members_ops(group, ids_exist=False), ids_back_op(group)]
    reserved = sum(map(multi_size, [*folders_of(plan, ()), *fence, *also]))
    size = reserved
    for change in changes_in_multi(plan):
        op = op_of(group, change)
        # counts a check of its topic and a new folder for each offset, though offsets of one topic share them
        checks = [CheckOp(TopicPath(change.partition.topic).path), *_owner_checks(group, change, held=held)]
        cost = sum(map(multi_size, [op, *checks, *_topic_folders(group, [change])]))
        if ops and size + cost > store.max_multi_bytes:
            yield tuple(changes), tuple(ops)
            changes, ops, size = [], [], reserved
        changes.append(change)
        ops.append(op)
        size += cost
    if ops:
        yield tuple(changes), (*ops, *also)


def missing_folders(store: ZkStore, planned: Sequence[tuple[OffsetPlan, Sequence[OffsetChange]]]) -> list[Op]:
    """Return the operations that create the missing folders of these changes. They go to the front of the multi.

    Raises: GroupDeletedError if a group is gone since its plan was made; ZooKeeperError.
    """
    folders = {op.path: op for plan, changes in planned for op in folders_of(plan, changes)}
    stats = dict(zip(folders, store.exists_many(list(folders)), strict=True))
    for plan, _ in planned:
        if not plan.is_new and stats[GroupPath(plan.group).path] is None:
            raise GroupDeletedError(plan.group)
    return [op for path, op in folders.items() if stats[path] is None]


def folders_of(plan: OffsetPlan, changes: Sequence[OffsetChange]) -> list[CreateOp]:
    """Return the operations that create the folders of the group and of its new offsets, parents first."""
    folder, offsets = (Acl.SECURE, Acl.SECURE) if plan.acls is None else (plan.acls.folder, plan.acls.offsets)
    return [
        CreateOp(ConsumersPath().path, None),
        CreateOp(GroupPath(plan.group).path, None, acl=folder),
        CreateOp(OffsetsPath(plan.group).path, None, acl=offsets),
        *_topic_folders(plan.group, changes),
    ]


def _topic_folders(group: str, changes: Sequence[OffsetChange]) -> list[CreateOp]:
    topics = sorted({change.partition.topic for change in changes if change.changes and change.before.version is None})
    return [CreateOp(TopicOffsetsPath(group, topic).path, None) for topic in topics]


def changes_in_multi(plan: OffsetPlan) -> list[OffsetChange]:
    """Return the offsets to write, and the offsets to check in the same multi; none if there is nothing to write."""
    if not plan.to_write:
        return []
    return [change for change in plan.changes if change.changes or change.before.version is not None]


def op_of(group: str, change: OffsetChange) -> Op:
    """Return the operation that makes this change, or that checks an offset that stays."""
    path = OffsetPath(group, *change.partition).path
    version = change.before.version
    if not change.changes:
        assert version is not None, "only what is there is checked"
        return CheckOp(path, version)
    if change.after is None:
        assert version is not None, "only what is there is deleted"
        return DeleteOp(path, version)
    data = encode_offset(change.after)
    return CreateOp(path, data) if version is None else SetOp(path, data, version)


def stands(store: ZkStore, group: str, changes: Sequence[OffsetChange]) -> bool:
    """Return whether the offsets were written, after a write without an answer. Raises: ZooKeeperError.

    The text alone does not show that, since a plan may write an offset again as it was. So each znode must also have
    the version that follows the plan's.
    """
    changes = [change for change in changes if change.changes]
    znodes = store.get_data_many([OffsetPath(group, *change.partition).path for change in changes])
    return all(map(_is_written, changes, znodes))


def _is_written(change: OffsetChange, znode: Znode | None) -> bool:
    if znode is None or change.after is None:
        return znode is None and change.after is None
    version = 0 if change.before.version is None else change.before.version + 1
    return znode.data == encode_offset(change.after) and znode.stat.version == version
