"""Deletes the znodes of a group without members, if each still has the version that the caller read.

One multi deletes all of them; only a group that is too large for one multi takes several. If another client writes
into the group meanwhile, or a member registers, the multi fails and nothing more is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.errors import GroupChangedError, GroupHeldError
from legacy_consumer.operations.admin.group_trees import GroupTree, read_trees
from legacy_consumer.operations.admin.member_fence import ids_back_op, no_members_ops, read_ids
from zk_layout.errors import (
    BadVersionError,
    ConnectionLostError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from zk_layout.paths import ConsumerIdsPath
from zk_layout.store import DeleteOp, Op, Stat, ZkStore, multi_size

_TRIES = 3


def delete_group(store: ZkStore, group: str) -> bool:
    """Delete /consumers/G as it stands now; False if it is not there. Raises: as delete_tree."""
    trees = read_trees(store, [group])
    if trees:
        delete_tree(store, trees[0])
    return bool(trees)


def delete_tree(
    store: ZkStore, seen: GroupTree, *, topic: str | None = None, progress: ChangeProgress | None = None
) -> None:
    """Delete the znodes in `seen`, or only the owners and offsets of a topic. Znodes that are gone by now are skipped.

    progress: what ZooKeeper has carried out, also if this raises.

    Raises:
    - ActiveGroupError: the group has a registration, readable or not. Nothing is deleted.
    - GroupHeldError: a session holds one of the znodes. Nothing is deleted.
    - GroupChangedError: another client wrote after the caller had read `seen`. It has the number of deleted znodes.
    - ZooKeeperError.
    """
    refuse_held(store, seen, topic)
    progress = progress or ChangeProgress()
    wanted, rest = seen.below(topic), seen
    left, done = wanted, list[Op]()
    for _ in range(_TRIES):
        try:
            _delete(store, rest, topic, done, progress)
        except (MultiFailedError, ConnectionLostError) as error:
            now = read_trees(store, [seen.group])
            left = now[0].below(topic) if now else {}
            if not left:
                return
            if isinstance(error, ConnectionLostError) or not isinstance(error.cause, _OVERTAKEN):
                raise error.cause if isinstance(error, MultiFailedError) else error from error
            ids = read_ids(store, seen.group) or ()
            if ids and not done:
                raise ActiveGroupError(seen.group, ids) from error
            changed = [f"{ConsumerIdsPath(seen.group).path}/{name}" for name in ids]
            changed += [path for path, stat in left.items() if not _is_same(wanted.get(path), stat)]
            if changed:
                raise GroupChangedError(seen.group, changed[0], len(done), len(wanted)) from error
            rest = now[0]
        else:
            return
    raise GroupChangedError(seen.group, next(iter(left)), len(done), len(wanted))


_OVERTAKEN = (BadVersionError, NoNodeError, NotEmptyError, NodeExistsError)


def refuse_held(store: ZkStore, tree: GroupTree, topic: str | None) -> None:
    """Refuse a group with members, or with znodes that a session holds. Raises: ActiveGroupError, GroupHeldError."""
    ids = read_ids(store, tree.group) if tree.members else ()
    if ids:
        raise ActiveGroupError(tree.group, ids)
    held = tree.held(topic)
    if held:
        raise GroupHeldError(tree.group, held)


def _is_same(seen: Stat | None, now: Stat) -> bool:
    return seen is not None and (seen.czxid, seen.version) == (now.czxid, now.version)


def _delete(store: ZkStore, tree: GroupTree, topic: str | None, done: list[Op], progress: ChangeProgress) -> None:
    """Delete children before parents; add deleted znodes to `done`. Raises: MultiFailedError, ConnectionLostError."""
    ops = [DeleteOp(path, stat.version) for path, stat in reversed(tree.below(topic).items())]
    ids_exist = ConsumerIdsPath(tree.group).path in tree.stats
    # if only a topic is deleted, the group keeps its `ids` folder
    back = [ids_back_op(tree.group)] if ids_exist and topic is not None else []
    fence = [*no_members_ops(tree.group, ids_exist=False), *back]
    for chunk in _chunks(ops, store.max_multi_bytes - sum(map(multi_size, fence))):
        progress.multi(store, [*no_members_ops(tree.group, ids_exist=ids_exist), *chunk, *back])
        done += chunk
        ids_exist = bool(back)


def _chunks(ops: Sequence[Op], limit: int) -> Iterator[list[Op]]:
    chunk: list[Op] = []
    size = 0
    for op in ops:
        cost = multi_size(op)
        if chunk and size + cost > limit:
            yield chunk
            chunk, size = [], 0
        chunk.append(op)
        size += cost
    if chunk:
        yield chunk
