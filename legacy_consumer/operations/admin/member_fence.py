"""Operations that let a multi succeed only while the group has no members.

ZooKeeper checks versions, and a znode's version does not change when its children do. But ZooKeeper does not delete
an `ids` folder with a child. So a multi that deletes the empty folder fails as a whole once a member has registered.
The next member creates the folder again, as it does in a new group.
"""

from __future__ import annotations

from legacy_consumer.errors import ActiveGroupError
from zk_layout.errors import NodeExistsError, NoNodeError, NotEmptyError, ZooKeeperError
from zk_layout.paths import ConsumerIdsPath
from zk_layout.store import Acl, CreateOp, DeleteOp, Op, ZkStore

FENCE_FAILURES: tuple[type[ZooKeeperError], ...] = (NodeExistsError, NoNodeError, NotEmptyError)
"""The folder or a member appeared, or the folder went, since the caller looked: look again."""


def no_members_ops(group: str, *, ids_exist: bool) -> list[Op]:
    """Return the operations for the front of the multi, for a moment without members.

    Without the folder, the multi creates and deletes it, which fails if another client has created it since.
    """
    path = ConsumerIdsPath(group).path
    return [DeleteOp(path)] if ids_exist else [CreateOp(path, None, acl=Acl.OPEN), DeleteOp(path)]


def ids_back_op(group: str) -> Op:
    """Return the operation for the end of a multi that keeps the group: create the folder, open to members."""
    return CreateOp(ConsumerIdsPath(group).path, None, acl=Acl.OPEN)


def no_members(store: ZkStore, group: str) -> tuple[list[Op], list[Op]]:
    """Return the operations for the front and for the end of a multi that keeps the group.

    Raises: ActiveGroupError, ZooKeeperError.
    """
    ids = read_ids(store, group)
    if ids:
        raise ActiveGroupError(group, ids)
    return no_members_ops(group, ids_exist=ids is not None), [] if ids is None else [ids_back_op(group)]


def read_ids(store: ZkStore, group: str) -> tuple[str, ...] | None:
    """Return the ids of the registered members; None if there is no folder. Raises: ZooKeeperError."""
    [ids] = store.get_children_many([ConsumerIdsPath(group).path])
    return ids
