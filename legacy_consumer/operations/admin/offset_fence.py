"""Refuses to overwrite an offset znode that another client deleted and created again since the plan.

Such a znode has version 0 again, and a multi can check only versions. The zxid of a znode's last write never comes
again, so it is read right before the multi. Only a deletion and a creation between that read and the multi go
unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping

from zk_layout.store import ZkStore


def written_since(store: ZkStore, seen: Mapping[str, int | None]) -> set[str]:
    """Return the paths whose znode was written, created again or deleted since. Raises: ZooKeeperError.

    seen: {path: the zxid of the znode's last write}; None if there was no znode, which a multi can check.
    """
    known = {path: zxid for path, zxid in seen.items() if zxid is not None}
    stats = store.exists_many(list(known)) if known else []
    return {path for (path, zxid), stat in zip(known.items(), stats, strict=True) if stat is None or stat.mzxid != zxid}
