"""Every group commits every partition, again and again: commit_all.py ZOOKEEPER GROUPS TOPIC PARTITIONS SECONDS

One multi for each group, spread over so many seconds; then it begins anew with offsets that are one higher. Ends with
its standard input.
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
    """Until nobody holds our standard input any more."""
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
