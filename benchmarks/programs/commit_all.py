"""Commits every partition of every group repeatedly: commit_all.py ZOOKEEPER GROUPS TOPIC PARTITIONS SECONDS

It sends one multi for each group, spread over SECONDS, then begins again with offsets that are one higher. It ends when
its standard input ends.
"""

from __future__ import annotations

import itertools
import sys
import threading

from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import OffsetPath
from zk_layout.settings import ZkSettings
from zk_layout.store import SetOp

zookeeper, groups, topic, partitions, seconds = sys.argv[1:]
ended = threading.Event()


def await_end() -> None:
    """Set `ended` when standard input is closed."""
    sys.stdin.read()
    ended.set()


threading.Thread(target=await_end, daemon=True).start()
store = KazooStore(ZkSettings(zookeeper))
store.start()
for offset in itertools.count(1):
    for number in range(int(groups)):
        paths = [OffsetPath(f"group-{number:05d}", topic, p).path for p in range(int(partitions))]
        store.multi([SetOp(path, str(offset).encode()) for path in paths])
        if ended.wait(float(seconds) / int(groups)):
            store.close()
            sys.exit()
