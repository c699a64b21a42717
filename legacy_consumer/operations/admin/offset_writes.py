"""Carries a plan of offsets out: one multi, which fails as a whole if anybody wrote meanwhile.

Offsets go in as a commit does: each at the version that was seen when the plan was made. So a commit that comes in
between is noticed, and so is an offset (offset_fence) or a topic (topic_fence) that was made anew: nothing is written.
Only a plan that is larger than a request of ZooKeeper may be (some thousand partitions) is cut; then what was written
before a failure is said.

That the group has no members is checked in the same multi (member_fence). With force they may live; then it is looked
at just before and just after, and whoever came in between is told.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.operations.admin.errors import (
    GroupDeletedError,
    OffsetsChangedError,
    OffsetsHalfWrittenError,
    TopicMadeAnewError,
)
from legacy_consumer.operations.admin.group_acls import make_group
from legacy_consumer.operations.admin.member_fence import FENCE_FAILURES, ids_back_op, no_members_ops, read_ids
from legacy_consumer.operations.admin.offset_fence import written_since
from legacy_consumer.operations.admin.offset_plans import OffsetChange, OffsetPlan
from legacy_consumer.operations.admin.topic_fence import check_written, topic_checks
from zk_layout.codecs import encode_offset
from zk_layout.errors import (
    BadVersionError,
    ConnectionLostError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    ZooKeeperError,
)
from zk_layout.model import TopicPartition
from zk_layout.paths import GroupPath, OffsetPath, OffsetsPath, OwnerPath, TopicOffsetsPath, TopicPath
from zk_layout.store import CheckOp, CreateOp, DeleteOp, Op, SetOp, ZkStore, multi_size

logger = logging.getLogger(__name__)

_TRIES = 3
"""Members that come and go at the same time may stop the write so often."""


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
    held: bool = False,
    also: Sequence[Op] = (),
    on_progress: Callable[[int], None] = lambda _: None,
) -> Written:
    """Write the plan's changes, all or none; what the plan leaves as it is has to be as the plan saw it, too.

    force: also while members live, who will commit over it. held: the owners that the plan saw hold still, and it is
    checked in the same multi that none has given its partition up. also: what is to be done in that multi, at its end.
    on_progress: told how many partitions are written so far.
    Raises: ActiveGroupError, GroupDeletedError; OffsetsChangedError if an offset, and TopicMadeAnewError if a topic, is
    not what the plan saw, with nothing written;
    OffsetsHalfWrittenError, only for a plan too large for one request; NotPermittedError, ConnectionLostError.
    """
    before = () if not force else read_ids(store, plan.group) or ()
    made = _make_folders(store, plan)
    done: list[TopicPartition] = []
    try:
        _write_chunks(store, plan, done, also, force=force, held=held, on_progress=on_progress)
    except BaseException:
        _remove_empty(store, made)
        raise
    after = () if not force else read_ids(store, plan.group) or ()
    return Written(tuple(done), tuple(consumer_id for consumer_id in after if consumer_id not in before))


def _make_folders(store: ZkStore, plan: OffsetPlan) -> list[str]:
    """Create the folders of new offsets. Returns: the folders that did not exist, parents first."""
    topics = sorted({change.partition.topic for change in plan.to_write if change.before.version is None})
    if not topics and (plan.acls is None or not plan.to_write):
        return []
    folders = [TopicOffsetsPath(plan.group, topic).path for topic in topics]
    wanted = [GroupPath(plan.group).path, OffsetsPath(plan.group).path, *folders]
    missing = [path for path, stat in zip(wanted, store.exists_many(wanted), strict=True) if stat is None]
    if plan.acls is not None:
        make_group(store, plan.group, plan.acls)
    for path in folders:
        store.ensure_path(path)
    return missing


def _remove_empty(store: ZkStore, folders: Sequence[str]) -> None:
    """Delete the folders that stayed empty. A folder with offsets, or in use by another client, is not empty."""
    for path in reversed(folders):
        with contextlib.suppress(ZooKeeperError):
            store.delete(path)


def _write_chunks(
    store: ZkStore,
    plan: OffsetPlan,
    done: list[TopicPartition],
    also: Sequence[Op],
    *,
    force: bool,
    held: bool,
    on_progress: Callable[[int], None],
) -> None:
    """done: grows with what is written. Raises: as write_plan."""
    todo = plan.to_write
    chunks = list(_chunks(store, plan.group, changes_in_multi(plan), also, held=held)) or [((), tuple(also))]
    for changes, ops in chunks:
        try:
            if ops:
                _refuse_rewritten(store, plan, changes)
                checks = topic_checks(store, plan.group, plan.creations, {change.partition.topic for change in changes})
                owners = [op for change in changes for op in _owner_checks(plan.group, change, held=held)]
                _carry_out(store, plan.group, [*ops, *checks, *owners], force=force)
        except (ActiveGroupError, GroupDeletedError, OffsetsChangedError, TopicMadeAnewError) as error:
            if done:
                raise OffsetsHalfWrittenError(plan.group, tuple(done), len(todo), str(error)) from error
            raise
        except MultiFailedError as error:
            cause = _explained(plan, changes, error)
            if done:
                raise OffsetsHalfWrittenError(plan.group, tuple(done), len(todo), str(cause)) from error
            raise cause from error
        except ConnectionLostError as error:
            if stands(store, plan.group, changes):
                logger.info("group %s: the connection was lost, but the offsets were written", plan.group)
            elif done:
                raise OffsetsHalfWrittenError(plan.group, tuple(done), len(todo), str(error)) from error
            else:
                raise
        written = {c.partition: c.after for c in changes if c.changes and c.after is not None}
        check_written(store, plan.group, plan.creations, written)
        done += [change.partition for change in changes if change.changes]
        on_progress(len(done))


def _refuse_rewritten(store: ZkStore, plan: OffsetPlan, changes: Sequence[OffsetChange]) -> None:
    """Raises: OffsetsChangedError if an offset is not the one that the plan saw; ZooKeeperError."""
    since = written_since(store, zxids_seen(plan.group, changes))
    for change in changes:
        if OffsetPath(plan.group, *change.partition).path in since:
            raise OffsetsChangedError(plan.group, change.partition)


def zxids_seen(group: str, changes: Sequence[OffsetChange]) -> dict[str, int | None]:
    """As written_since takes it."""
    return {OffsetPath(group, *change.partition).path: change.before.zxid for change in changes}


def _carry_out(store: ZkStore, group: str, ops: Sequence[Op], *, force: bool) -> None:
    """Raises: ActiveGroupError, GroupDeletedError; MultiFailedError, whose index is that of ops."""
    if force:
        store.multi(ops)
        return
    for attempt in range(_TRIES):
        ids = read_ids(store, group)
        if ids:
            raise ActiveGroupError(group, ids)
        fence = no_members_ops(group, ids_exist=ids is not None)
        try:
            store.multi([*fence, *ops, *([] if ids is None else [ids_back_op(group)])])
        except MultiFailedError as error:
            index = error.index - len(fence)
            if 0 <= index < len(ops):
                raise MultiFailedError(index, error.path, error.cause) from error
            if isinstance(error.cause, NoNodeError) and store.exists(GroupPath(group).path) is None:
                raise GroupDeletedError(group) from error
            if not isinstance(error.cause, FENCE_FAILURES) or attempt == _TRIES - 1:
                raise error.cause from error
        else:
            return


def _owner_checks(group: str, change: OffsetChange, *, held: bool) -> list[CheckOp]:
    return [CheckOp(OwnerPath(group, *change.partition).path)] if held and change.before.owner is not None else []


def _chunks(
    store: ZkStore, group: str, todo: Sequence[OffsetChange], also: Sequence[Op], *, held: bool
) -> Iterator[tuple[tuple[OffsetChange, ...], tuple[Op, ...]]]:
    changes: list[OffsetChange] = []
    ops: list[Op] = []
    fence = [*no_members_ops(group, ids_exist=False), ids_back_op(group)]
    reserved = sum(map(multi_size, [*fence, *also]))
    size = reserved
    for change in todo:
        op = op_of(group, change)
        # with the check of its topic, as if each had one of its own
        checks = [CheckOp(TopicPath(change.partition.topic).path), *_owner_checks(group, change, held=held)]
        cost = sum(map(multi_size, [op, *checks]))
        if ops and size + cost > store.max_multi_bytes:
            yield tuple(changes), tuple(ops)
            changes, ops, size = [], [], reserved
        changes.append(change)
        ops.append(op)
        size += cost
    if ops:
        yield tuple(changes), (*ops, *also)


def changes_in_multi(plan: OffsetPlan) -> list[OffsetChange]:
    """Return the offsets to write, and those to check in the same multi; none if there is nothing to write."""
    if not plan.to_write:
        return []
    return [change for change in plan.changes if change.changes or change.before.version is not None]


def op_of(group: str, change: OffsetChange) -> Op:
    """The part of a multi that makes this change, or checks that there is none."""
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


def _explained(plan: OffsetPlan, changes: Sequence[OffsetChange], error: MultiFailedError) -> Exception:
    if isinstance(error.cause, (BadVersionError, NodeExistsError, NoNodeError)):
        if error.index < len(changes):
            return OffsetsChangedError(plan.group, changes[error.index].partition)
        if (owner := OwnerPath.parse(error.path)) is not None:
            return OffsetsChangedError(plan.group, TopicPartition(owner.topic, owner.partition))
        if (topic := TopicPath.parse(error.path)) is not None:
            return TopicMadeAnewError(plan.group, topic.topic)
    return error.cause


def stands(store: ZkStore, group: str, changes: Sequence[OffsetChange]) -> bool:
    """Whether the offsets are as they were to become, after a write without an answer. Raises: ZooKeeperError."""
    changes = [change for change in changes if change.changes]
    znodes = store.get_data_many([OffsetPath(group, *change.partition).path for change in changes])
    return all(
        znode is None if change.after is None else znode is not None and znode.data == encode_offset(change.after)
        for change, znode in zip(changes, znodes, strict=True)
    )
