"""The names of groups. A file of its own, because whoever lists them has no use for what describes them."""

from __future__ import annotations

from zk_layout.errors import NoNodeError
from zk_layout.paths import ConsumersPath
from zk_layout.store import ZkStore


def list_groups(store: ZkStore) -> tuple[str, ...]:
    """All groups that ever were, sorted; whether somebody is in them, `ids` says."""
    try:
        return store.get_children(ConsumersPath().path)
    except NoNodeError:
        return ()
