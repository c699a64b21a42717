"""Deletes znodes that should be ephemeral and are not: they belong to no session.

Only a client that is no member writes such a znode, for instance in place of the leader's. Without the deletion the
group would never have a leader again.
"""

from __future__ import annotations

from collections.abc import Iterator

from zk_layout.store import ZkStore, Znode

_AT_ONCE = 1000
"""The most deletions in one call, which take a second or less."""


def is_permanent(znode: Znode | None) -> bool:
    """Return whether the znode exists and belongs to no session."""
    return znode is not None and not znode.stat.ephemeral_owner


def delete_below(store: ZkStore, path: str) -> bool:
    """Delete the znodes below a path, at most _AT_ONCE in one call, because the member has other work, too.

    Returns: whether nothing is left. Raises: ZooKeeper's errors.
    """
    left = _AT_ONCE
    ways: list[tuple[str, Iterator[str]]] = [(path, iter(store.get_children(path)))]
    while ways:
        at, names = ways[-1]
        name = next(names, None)
        if name is not None:
            ways.append((f"{at}/{name}", iter(store.get_children(f"{at}/{name}"))))
            continue
        ways.pop()
        if ways:
            if not left:
                return False
            store.delete(at)
            left -= 1
    return True
