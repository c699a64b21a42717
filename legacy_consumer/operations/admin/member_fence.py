"""A part of a multi that lets it through only while the group has no members.

ZooKeeper checks versions, and a parent's does not change with its children. But an `ids` folder with a child cannot be
deleted: so a multi that deletes the empty folder fails as a whole when a member has registered. The next member makes
the folder again, as it does in a new group.
"""

from __future__ import annotations

from legacy_consumer.errors import ActiveGroupError
from zk_layout.errors import NodeExistsError, NoNodeError, NotEmptyError, ZooKeeperError
from zk_layout.paths import ConsumerIdsPath
from zk_layout.store import Acl, CreateOp, DeleteOp, Op, ZkStore

FENCE_FAILURES: tuple[type[ZooKeeperError], ...] = (NodeExistsError, NoNodeError, NotEmptyError)
"""A member came or the folder did since it was looked at: look again."""


def no_members_ops(group: str, *, ids_exist: bool) -> list[Op]:
    """The operations for the front of the multi, at a moment when there were no members.

    Without the folder its absence is checked: it is made and deleted, which fails where there is one.
    """
    path = ConsumerIdsPath(group).path
    return [DeleteOp(path)] if ids_exist else [CreateOp(path, None, acl=Acl.OPEN), DeleteOp(path)]


def ids_back_op(group: str) -> Op:
    """For the end of a multi after which the group lives on: the folder again, open to members as they make it."""
    return CreateOp(ConsumerIdsPath(group).path, None, acl=Acl.OPEN)


def no_members(store: ZkStore, group: str) -> tuple[list[Op], list[Op]]:
    """The fence for the front of a multi after which the group lives on, and for its end.

    Raises: ActiveGroupError, ZooKeeperError.
    """
    ids = read_ids(store, group)
    if ids:
        raise ActiveGroupError(group, ids)
    return no_members_ops(group, ids_exist=ids is not None), [] if ids is None else [ids_back_op(group)]


def read_ids(store: ZkStore, group: str) -> tuple[str, ...] | None:
    """The registered ids; None if the folder is not there. Raises: ZooKeeperError."""
    [ids] = store.get_children_many([ConsumerIdsPath(group).path])
    return ids
