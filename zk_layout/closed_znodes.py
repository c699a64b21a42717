"""Reads many znodes, some of which an ACL may forbid to read.

Up to 3.8 ZooKeeper returns the Stat of such a znode; 3.9 refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from zk_layout.errors import NotPermittedError
from zk_layout.store import Stat, Watcher, ZkStore, Znode

Found = TypeVar("Found")

FoundStat: TypeAlias = "Stat | NotPermittedError | None"
"""A znode's Stat, the error if the client may not see it, or None if there is no znode."""


def read_each(
    store: ZkStore, paths: Sequence[str], watcher: Watcher | None = None
) -> list[Znode | NotPermittedError | None]:
    """As get_data_many, but a znode that the client may not read yields the error, and the others are read."""
    return _ask_each(lambda some: store.get_data_many(some, watcher), paths)


def stat_each(store: ZkStore, paths: Sequence[str]) -> list[FoundStat]:
    """As exists_many, but a znode whose Stat the client may not see yields the error."""
    return _ask_each(store.exists_many, paths)


def exist_each(store: ZkStore, paths: Sequence[str]) -> list[bool]:
    """Return whether each znode exists. A znode that the client may not read counts as existing."""
    return [found is not None for found in stat_each(store, paths)]


def read_or_stat(store: ZkStore, paths: Sequence[str]) -> tuple[list[Znode | None], dict[str, NotPermittedError]]:
    """As get_data_many; for a znode that an ACL forbids to read, the Stat and the reason.

    If ZooKeeper refuses the Stat, too, the znode is None, and the reason is there.
    """
    found = read_each(store, paths)
    closed = {path: one for path, one in zip(paths, found, strict=True) if isinstance(one, NotPermittedError)}
    stats = dict(zip(closed, stat_each(store, list(closed)), strict=True))
    znodes: list[Znode | None] = []
    for path, one in zip(paths, found, strict=True):
        if isinstance(one, NotPermittedError):
            stat = stats[path]
            if stat is None:
                del closed[path]
            znodes.append(None if stat is None or isinstance(stat, NotPermittedError) else Znode(None, stat))
        else:
            znodes.append(one)
    return znodes, closed


def _ask_each(ask: Callable[[Sequence[str]], Sequence[Found]], paths: Sequence[str]) -> list[Found | NotPermittedError]:
    if not paths:
        return []
    try:
        return [*ask(paths)]
    except NotPermittedError as error:
        if len(paths) == 1:
            return [error]
    half = len(paths) // 2
    return _ask_each(ask, paths[:half]) + _ask_each(ask, paths[half:])
