"""The shortest possible join and leave: python -m benchmarks.change_floor [--partitions N] [--members N] [--rounds N]

Two bare clients of ZooKeeper carry out the requests of a change that wait for each other, and nothing else: no
assignment, no streams, no offsets to read. One of them gives up the share of a joining member and takes it back when
that leaves. The time is the server's, from znode to znode, as in `join_*` and `leave_*`.
"""

from __future__ import annotations

import argparse
import statistics
import time

from benchmarks.grouping import DURABLE
from legacy_consumer.embedded import EmbeddedZooKeeper
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath, OffsetPath, OwnerPath, TopicOffsetsPath, TopicOwnersPath
from zk_layout.settings import ZkSettings
from zk_layout.signals import Flag
from zk_layout.store import CheckOp, CreateOp, DeleteOp, SetOp, WatchEvent

_GROUP, _TOPIC = "floor", "benchmark"
_IDS = ConsumerIdsPath(_GROUP).path
_WARM_UP = 5


class Client:
    """A ZooKeeper client without a member's code. fired: set when a watch has fired."""

    def __init__(self, zookeeper: str, name: str) -> None:
        self.store = KazooStore(ZkSettings(zookeeper))
        self.store.start()
        self.path = ConsumerIdPath(_GROUP, name).path
        self.fired = Flag()

    def note(self, _event: WatchEvent) -> None:
        """Take the event of a watch."""
        self.fired.set()

    def wait(self) -> None:
        """Wait until a watch fires."""
        self.fired.wait()
        self.fired.clear()


class Changes:
    """The two clients, and the znodes of the partitions that move between them."""

    def __init__(self, zookeeper: str, moved: int) -> None:
        self._stays, self._comes = Client(zookeeper, "a"), Client(zookeeper, "b")
        self._owners = [OwnerPath(_GROUP, _TOPIC, number).path for number in range(moved)]
        self._offsets = [OffsetPath(_GROUP, _TOPIC, number).path for number in range(moved)]
        store = self._stays.store
        for folder in (_IDS, TopicOwnersPath(_GROUP, _TOPIC).path, TopicOffsetsPath(_GROUP, _TOPIC).path):
            store.ensure_path(folder)
        store.create(self._stays.path, b"{}", ephemeral=True)
        store.multi([CreateOp(path, b"0") for path in self._offsets])
        self._claim(self._stays)

    def join(self) -> float:
        """Move the partitions to a joining client. Returns: seconds from its registration to its claim."""
        stays, comes = self._stays.store, self._comes.store
        stays.get_children(_IDS, self._stays.note)
        comes.get_data(self._owners[0], self._comes.note)
        comes.create(self._comes.path, b"{}", ephemeral=True)
        self._stays.wait()
        stays.get_children(_IDS)
        began_ms = stays.get_data(self._comes.path).stat.ctime_ms
        self._commit(self._stays)
        stays.multi([DeleteOp(path) for path in self._owners])
        self._comes.wait()
        return (self._claim(self._comes) - began_ms) / 1000

    def leave(self) -> float:
        """Move the partitions back as that client leaves. Returns: seconds from the order to the claim."""
        stays, comes = self._stays.store, self._comes.store
        stays.get_children(_IDS, self._stays.note)
        began_ms = time.time_ns() // 1_000_000
        self._commit(self._comes)
        comes.multi([*(DeleteOp(path) for path in self._owners), DeleteOp(self._comes.path)])
        self._stays.wait()
        stays.get_children(_IDS)
        return (self._claim(self._stays) - began_ms) / 1000

    def _commit(self, client: Client) -> None:
        checks = [CheckOp(client.path), *map(CheckOp, self._owners)]
        client.store.multi([*checks, *(SetOp(path, b"1234567") for path in self._offsets)])

    def _claim(self, client: Client) -> int:
        client.store.multi([CheckOp(client.path), *(CreateOp(path, b"m-0", ephemeral=True) for path in self._owners)])
        return client.store.get_data(self._owners[-1]).stat.ctime_ms

    def close(self) -> None:
        """End both sessions."""
        self._comes.store.close()
        self._stays.store.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--members", type=int, default=16, help="before the join")
    parser.add_argument("--rounds", type=int, default=50)
    args = parser.parse_args()
    moved = args.partitions // (args.members + 1)
    with EmbeddedZooKeeper("3.9", properties=DURABLE) as zookeeper:
        changes = Changes(zookeeper.connect, moved)
        rounds = [(changes.join(), changes.leave()) for _ in range(_WARM_UP + args.rounds)][_WARM_UP:]
        changes.close()
    for name, values in zip(("join", "leave"), zip(*rounds, strict=True), strict=True):
        print(
            f"{name} of {moved} partitions: {statistics.median(values) * 1000:.1f} ms, at most {max(values) * 1000:.0f}"
        )


if __name__ == "__main__":
    main()
