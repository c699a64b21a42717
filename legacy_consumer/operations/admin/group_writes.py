"""Writes the plans of many groups: as many plans in one multi as fit into one request of ZooKeeper.

One plan takes about six requests (offset_writes), and hundreds of plans in one multi take as many, since each read
covers all groups. If such a multi fails, ZooKeeper has written nothing of it. The groups are then written one by
one, so the error names the group that cannot be written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from legacy_consumer.operations.admin.errors import GroupDeletedError, TopicMadeAnewError
from legacy_consumer.operations.admin.member_fence import ids_back_op, no_members_ops
from legacy_consumer.operations.admin.offset_fence import written_since
from legacy_consumer.operations.admin.offset_plans import OffsetPlan
from legacy_consumer.operations.admin.offset_writes import (
    changes_in_multi,
    folders_of,
    missing_folders,
    op_of,
    stands,
    write_plan,
    zxids_seen,
)
from legacy_consumer.operations.admin.topic_fence import check_written, topic_checks
from zk_layout.errors import ConnectionLostError, MultiFailedError
from zk_layout.loggers import safe_logger
from zk_layout.paths import ConsumerIdsPath, TopicPath
from zk_layout.store import CheckOp, Op, ZkStore, multi_size

logger = safe_logger(__name__)


def write_plans(store: ZkStore, plans: Sequence[OffsetPlan], *, force: bool = False) -> Iterator[OffsetPlan]:
    """Write the plans, each all or none, and yield each one as soon as it is written.

    plans: of different groups, made from one reading of the topics. force: write also while groups have members.
    Raises: as write_plan, for the first group that cannot be written. The plans yielded before stay written.
    """
    for some in _batches(store, plans):
        if len(some) > 1 and _write_together(store, some, force=force):
            yield from some
            _check_topics(store, some)
        else:
            for plan in some:
                write_plan(store, plan, force=force)
                yield plan


def _batches(store: ZkStore, plans: Sequence[OffsetPlan]) -> Iterator[list[OffsetPlan]]:
    """Yield the plans in batches that fit into one multi.

    A plan that is larger than a multi, or that sets the ACL of its group, is alone in its batch.
    """
    batch: list[OffsetPlan] = []
    size = 0
    for plan in plans:
        if not plan.to_write:
            continue
        more = store.max_multi_bytes if plan.acls is not None else _size(plan)
        if batch and size + more > store.max_multi_bytes:
            yield batch
            batch, size = [], 0
        batch.append(plan)
        size += more
    if batch:
        yield batch


def _size(plan: OffsetPlan) -> int:
    """Return an upper bound of the bytes that a plan adds to a multi."""
    checks = [CheckOp(TopicPath(topic).path) for topic in plan.creations]
    fence = [*no_members_ops(plan.group, ids_exist=False), ids_back_op(plan.group)]
    return sum(map(multi_size, [*folders_of(plan, plan.to_write), *fence, *_ops(plan), *checks]))


def _ops(plan: OffsetPlan) -> list[Op]:
    return [op_of(plan.group, change) for change in changes_in_multi(plan)]


def _write_together(store: ZkStore, plans: Sequence[OffsetPlan], *, force: bool) -> bool:
    """Carry out all plans in one multi; False if nothing was written. Raises: ZooKeeperError."""
    try:
        ops = missing_folders(store, [(plan, plan.to_write) for plan in plans])
    except GroupDeletedError:
        return False
    ids_back: list[Op] = []
    if not force:
        groups = [plan.group for plan in plans]
        ids = store.get_children_many([ConsumerIdsPath(group).path for group in groups])
        if any(ids):
            return False
        for group, own in zip(groups, ids, strict=True):
            ops += no_members_ops(group, ids_exist=own is not None)
            if own is not None:
                ids_back.append(ids_back_op(group))
    creations = {topic: created for plan in plans for topic, created in plan.creations.items()}
    seen = {path: zxid for plan in plans for path, zxid in zxids_seen(plan.group, changes_in_multi(plan)).items()}
    if written_since(store, seen):
        return False
    try:
        checks = topic_checks(store, plans[0].group, creations, creations.keys())
        store.multi([*ops, *(op for plan in plans for op in _ops(plan)), *ids_back, *checks])
    except (MultiFailedError, TopicMadeAnewError) as error:
        logger.info("%d groups are written one by one: %s", len(plans), error)
        return False
    except ConnectionLostError:
        if not all(stands(store, plan.group, plan.to_write) for plan in plans):
            raise
        logger.info("the connection was lost, but the offsets of %d groups were written", len(plans))
    return True


def _check_topics(store: ZkStore, plans: Sequence[OffsetPlan]) -> None:
    """Delete offsets that were written for another topic of the same name. Raises: TopicMadeAnewError."""
    written = [{c.partition: c.after for c in plan.to_write if c.after is not None} for plan in plans]
    creations = {topic: created for plan in plans for topic, created in plan.creations.items()}
    with contextlib.suppress(TopicMadeAnewError):
        topic_checks(store, plans[0].group, creations, {tp.topic for own in written for tp in own})
        return
    problem: TopicMadeAnewError | None = None
    for plan, own in zip(plans, written, strict=True):
        anew = check_written(store, plan.group, plan.creations, own)
        if anew:
            kept = tuple(change.partition for change in plan.to_write if change.partition.topic not in anew)
            problem = TopicMadeAnewError(plan.group, min(anew), kept, len(plan.to_write))
    if problem is not None:
        raise problem
