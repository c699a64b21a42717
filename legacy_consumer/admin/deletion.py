"""Takes away what a group left in ZooKeeper."""

from __future__ import annotations

from legacy_consumer.errors import ActiveGroupError
from zk_layout.errors import MultiFailedError, NoNodeError, NotEmptyError
from zk_layout.paths import ConsumerIdsPath, GroupPath, TopicOffsetsPath, TopicOwnersPath
from zk_layout.store import DeleteOp, ZkStore, multi_size

_TRIES = 3


def delete_group(store: ZkStore, group: str) -> bool:
    """Delete /consumers/G and everything below; False if it is not there.

    Raises: ActiveGroupError if the group has members, whether or not anybody can read their registrations;
    NotEmptyError if somebody writes into it at the same time, and what is gone by then stays so; ZooKeeperError.
    """
    [ids] = store.get_children_many([ConsumerIdsPath(group).path])
    if ids:
        raise ActiveGroupError(group, ids)
    return _delete_tree(store, GroupPath(group).path)


def delete_topic_of_group(store: ZkStore, group: str, topic: str) -> bool:
    """Delete what the group keeps of one topic, its owners and offsets; False if there is none.

    Raises: as delete_group.
    """
    [ids] = store.get_children_many([ConsumerIdsPath(group).path])
    if ids:
        raise ActiveGroupError(group, ids)
    # a list: both have to be done
    found = [
        _delete_tree(store, path) for path in (TopicOwnersPath(group, topic).path, TopicOffsetsPath(group, topic).path)
    ]
    return any(found)


def _delete_tree(store: ZkStore, root: str) -> bool:
    """Children before parents, in few requests. Another client may delete at the same time."""
    found = store.exists(root) is not None
    for attempt in range(_TRIES):
        paths = _tree(store, root)
        try:
            _delete_in_multis(store, paths)
        except MultiFailedError as error:
            if not isinstance(error.cause, (NoNodeError, NotEmptyError)) or attempt == _TRIES - 1:
                raise error.cause from error
        else:
            return found
    return found


def _tree(store: ZkStore, root: str) -> list[str]:
    """Every path from the root down, the deepest first. One batch of reads for each level."""
    levels: list[list[str]] = [[root]]
    while levels[-1]:
        children = store.get_children_many(levels[-1])
        if levels == [[root]] and children == [None]:
            return []
        levels.append(
            [f"{path}/{name}" for path, names in zip(levels[-1], children, strict=True) for name in names or ()]
        )
    return [path for level in reversed(levels) for path in level]


def _delete_in_multis(store: ZkStore, paths: list[str]) -> None:
    ops: list[DeleteOp] = []
    size = 0
    for op in map(DeleteOp, paths):
        cost = multi_size(op)
        if ops and size + cost > store.max_multi_bytes:
            store.multi(ops)
            ops, size = [], 0
        ops.append(op)
        size += cost
    if ops:
        store.multi(ops)
