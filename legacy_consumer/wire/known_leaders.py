"""Who leads which partition, as far as the fetchers of one process have found out: hints for one another.

A partition that moves between the members of a process was fetched there before. Looking its leader up anew takes a
thread and two requests to ZooKeeper for each member that got some, in the midst of a rebalance.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from legacy_consumer.wire.connection import BrokerAddress
from zk_layout.model import TopicPartition


class KnownLeaders:
    """Of one cluster. Any thread may call; what it says may have changed since, of which the broker tells."""

    def __init__(self) -> None:
        self._addresses: dict[TopicPartition, BrokerAddress] = {}

    def get(self, tp: TopicPartition) -> BrokerAddress | None:
        """The leader that somebody found last."""
        return self._addresses.get(tp)

    def note(self, tp: TopicPartition, address: BrokerAddress) -> None:
        """This one was found."""
        self._addresses[tp] = address

    def forget(self, tp: TopicPartition) -> None:
        """It leads no more, or cannot be reached."""
        self._addresses.pop(tp, None)


_lock = threading.Lock()
_of: WeakValueDictionary[tuple[str, str], KnownLeaders] = WeakValueDictionary()
"""Gone with the last fetcher of a cluster: another one may come up at its address."""


def known_leaders(zookeeper_connect: str, security_protocol: str) -> KnownLeaders:
    """Those of this cluster; keep what you got for as long as you fetch there."""
    with _lock:
        return _of.setdefault((zookeeper_connect, security_protocol), KnownLeaders())
