"""The names of groups. A file of its own: a command that only lists names need not import what describes groups."""

from __future__ import annotations

from zk_layout.errors import NoNodeError
from zk_layout.paths import ConsumersPath
from zk_layout.store import ZkStore


def list_groups(store: ZkStore) -> tuple[str, ...]:
    """Return all groups that have a folder, sorted. Whether a group has members stands in its `ids`."""
    try:
        return store.get_children(ConsumersPath().path)
    except NoNodeError:
        return ()
