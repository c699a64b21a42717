"""Deletes znodes that should be ephemeral and are not: they belong to no session.

Only a client that is no member writes such a znode, for instance in place of the leader's. Without the deletion the
group would never have a leader again.
"""

from __future__ import annotations

from collections.abc import Iterator

from zk_layout.store import ZkStore, Znode

_AT_ONCE = 1000
"""Deletions, which take a second or less."""


def is_permanent(znode: Znode | None) -> bool:
    """Return whether something stands there that no session ends."""
    return znode is not None and not znode.stat.ephemeral_owner


def delete_below(store: ZkStore, path: str) -> bool:
    """Delete what stands below a znode, some of it: one member does this, which has other things to do, too.

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
