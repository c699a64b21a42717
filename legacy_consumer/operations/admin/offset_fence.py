"""Offsets are written over what the plan saw, never over a znode that was deleted and made again since.

Such a znode begins at version 0 again, and versions are all that a multi can check. The zxid of a znode's last write
never comes again, so it is looked at right before the multi: only a deletion and a creation in that moment go unseen.
"""

from __future__ import annotations

from collections.abc import Mapping

from zk_layout.store import ZkStore


def written_since(store: ZkStore, seen: Mapping[str, int | None]) -> set[str]:
    """The paths at which another znode stands, or none, or one that was written again. Raises: ZooKeeperError.

    seen: {path: the zxid of the znode's last write}; None where there was none, which a multi can check.
    """
    known = {path: zxid for path, zxid in seen.items() if zxid is not None}
    stats = store.exists_many(list(known)) if known else []
    return {path for (path, zxid), stat in zip(known.items(), stats, strict=True) if stat is None or stat.mzxid != zxid}
