"""Reads many znodes of which an ACL may close some."""

from __future__ import annotations

from collections.abc import Sequence

from zk_layout.errors import NotPermittedError
from zk_layout.store import Watcher, ZkStore, Znode


def read_each(
    store: ZkStore, paths: Sequence[str], watcher: Watcher | None = None
) -> list[Znode | NotPermittedError | None]:
    """As get_data_many, but a znode that may not be read is its own error, and the others are read all the same."""
    if not paths:
        return []
    try:
        return [*store.get_data_many(paths, watcher)]
    except NotPermittedError as error:
        if len(paths) == 1:
            return [error]
    half = len(paths) // 2
    return read_each(store, paths[:half], watcher) + read_each(store, paths[half:], watcher)


def exist_each(store: ZkStore, paths: Sequence[str]) -> list[bool]:
    """Return whether each znode exists. ZooKeeper 3.9 refuses the Stat of one that may not be read: it exists."""
    if not paths:
        return []
    try:
        return [stat is not None for stat in store.exists_many(paths)]
    except NotPermittedError:
        if len(paths) == 1:
            return [True]
    half = len(paths) // 2
    return exist_each(store, paths[:half]) + exist_each(store, paths[half:])


def read_or_stat(store: ZkStore, paths: Sequence[str]) -> tuple[list[Znode | None], dict[str, NotPermittedError]]:
    """As get_data_many; for a znode that an ACL forbids to read, the Stat and the reason.

    Raises: NotPermittedError if such a Stat may not be read either, as with ZooKeeper 3.9.
    """
    found = read_each(store, paths)
    closed = {path: one for path, one in zip(paths, found, strict=True) if isinstance(one, NotPermittedError)}
    stats = dict(zip(closed, store.exists_many(list(closed)), strict=True)) if closed else {}
    znodes: list[Znode | None] = []
    for path, one in zip(paths, found, strict=True):
        if isinstance(one, NotPermittedError):
            stat = stats[path]
            znodes.append(None if stat is None else Znode(None, stat))
        else:
            znodes.append(one)
    return znodes, closed
