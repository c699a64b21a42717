"""Watches a group from outside: when it has settled, and how many requests that took.

The observer does not talk to the members. Every owner znode and every registration carries the server's time of its
creation. A group counts as settled when each partition has the right owner and nothing has changed for two seconds; the
time is the creation of its newest owner znode. So the observer's own pace does not matter. To keep the load low it
lists owners ten times a second, which also counts their changes, and reads them once they are stable. Times are in ms,
the resolution of ZooKeeper.

Requests are counted by the server (zk_packets_received of mntr) less what the observer itself sent (cons). Heartbeats
are not among them: of each session the server tells how many packets it sent (recved) and the number of its last
request (lcxid), and heartbeats have no number.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from legacy_consumer.embedded import four_letter_word
from zk_layout.errors import NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath, OwnerPath, TopicOffsetsPath, TopicOwnersPath
from zk_layout.settings import ZkSettings
from zk_layout.store import Children

_LOOK_EVERY_S = 0.1
_STILL_FOR_S = 2.0
"""Longer than the time after which a settled member of ours watches its owner znodes, so that it is at rest then."""
_TIMEOUT_S = 120.0
_RECEIVED = re.compile(r"^zk_packets_received\s+(\d+)", re.MULTILINE)
_SESSION = re.compile(r"\brecved=(\d+),.*\bsid=(0x[0-9a-f]+),.*\blcxid=0x([0-9a-f]+),")
_NO_REQUEST_YET = 2**64 - 1


class NotSettledError(Exception):
    """The group has not settled in time, or ZooKeeper does not tell what is needed."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Packets that the server received, without the observer's own, and how many of them were heartbeats of a
    session."""

    received: int
    heartbeats: dict[str, int]

    def since(self, before: Requests) -> int:
        """Return how many requests came since then. Sessions that have ended meanwhile count with their heartbeats."""
        heartbeats = sum(count - before.heartbeats.get(session, 0) for session, count in self.heartbeats.items())
        return self.received - before.received - heartbeats


def heartbeats_of(connections: str) -> dict[str, int]:
    """Return {session: number of its heartbeats} from the server's answer to cons.

    Heartbeats are the packets without a request number, except the one with which the session began.
    """
    found = {}
    for received, session, last in _SESSION.findall(connections):
        requests = int(last, 16)
        found[session] = int(received) - 1 - (0 if requests == _NO_REQUEST_YET else requests)
    return found


@dataclass(frozen=True, slots=True)
class Settled:
    """The moment when a group has settled.

    at_ms: when the last owner znode was created, by the server's clock. requests: the server's count when nothing had
    changed for two seconds, so that it has all requests of the change.
    """

    at_ms: int
    requests: Requests


class Observer:
    """Observes groups that subscribe to one topic, each member with one stream."""

    def __init__(self, zookeeper_connect: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions
        self._port = int(zookeeper_connect.partition("/")[0].rpartition(":")[2])
        self._store = KazooStore(ZkSettings(zookeeper_connect))
        self._own_session = ""
        self._four_letter_words = 0
        self._listed: Children | None = None
        self._made: list[tuple[int, int]] | None = None

    def start(self) -> None:
        """Connect."""
        self._store.start()
        self._own_session = f"0x{self._store.session_id:x}"

    def close(self) -> None:
        """Disconnect."""
        self._store.close()

    def prepare(self, group: str) -> None:
        """Create the folder of a group's offsets, which every group that has ever committed has."""
        self._store.ensure_path(TopicOffsetsPath(group, self._topic).path)

    def registered_ms(self, group: str, member: int) -> int:
        """Return the time when a member wrote its registration, in ms. Raises: NotSettledError."""
        stat = self._store.exists(ConsumerIdPath(group, member_id(group, member)).path)
        if stat is None:
            raise NotSettledError(f"member {member} of {group} is not registered")
        return stat.ctime_ms

    def requests(self) -> Requests:
        """Return how many requests the server has received until now, and how many of them were heartbeats."""
        found = _RECEIVED.search(self._ask("mntr"))
        connections = self._ask("cons")
        own = re.search(rf"\brecved=(\d+),.*\bsid={self._own_session},", connections)
        if found is None or own is None:
            raise NotSettledError("the server does not say how many requests it had")
        heartbeats = heartbeats_of(connections)
        del heartbeats[self._own_session]
        # a four-letter word counts as a packet too
        return Requests(int(found.group(1)) - int(own.group(1)) - self._four_letter_words, heartbeats)

    def _ask(self, word: str) -> str:
        self._four_letter_words += 1
        return four_letter_word(self._port, word)

    def wait_until_settled(self, group: str, members: int) -> Settled:
        """Wait until the group has this many members and has been right and still for a while. Raises:
        NotSettledError."""
        deadline = time.monotonic() + _TIMEOUT_S
        still_since = time.monotonic()
        self._listed = None
        seen: list[int] = []
        while time.monotonic() < deadline:
            made = self._owners_made(group, members)
            now = time.monotonic()
            if made is None or [stat for stat, _ in made] != seen:
                seen = [] if made is None else [czxid for czxid, _ in made]
                still_since = now
            if made is not None and now - still_since >= _STILL_FOR_S:
                return Settled(max(ctime for _, ctime in made), self.requests())
            time.sleep(_LOOK_EVERY_S)
        raise NotSettledError(f"{group} with {members} members has not settled after {_TIMEOUT_S:g} s")

    def _owners_made(self, group: str, members: int) -> list[tuple[int, int]] | None:
        """Return (czxid, ctime) of each owner znode if the right members are registered and own equal shares, or None.

        None also while the list of owners changes.
        """
        ids = self._store.get_children_many([ConsumerIdsPath(group).path])[0]
        if ids is None or set(ids) != {member_id(group, number) for number in range(members)}:
            return None
        try:
            listed = self._store.list_children(TopicOwnersPath(group, self._topic).path)
        except NoNodeError:
            return None
        before, self._listed = self._listed, listed
        if len(listed.names) != self._partitions or before != listed:
            # the list still changes: do not read the owners yet
            self._made = None
            return None
        if self._made is None:
            self._made = self._read_owners(group, members)
        return self._made

    def _read_owners(self, group: str, members: int) -> list[tuple[int, int]] | None:
        """Read the owner znodes; None unless shares are equal: no member may have two partitions more than another."""
        paths = [OwnerPath(group, self._topic, number).path for number in range(self._partitions)]
        znodes = [znode for znode in self._store.get_data_many(paths) if znode is not None]
        threads = {f"{member_id(group, number)}-0".encode(): 0 for number in range(members)}
        for znode in znodes:
            if znode.data not in threads:
                return None
            threads[znode.data] += 1
        if len(znodes) < self._partitions or max(threads.values()) - min(threads.values()) > 1:
            return None
        return [(znode.stat.czxid, znode.stat.ctime_ms) for znode in znodes]


def member_id(group: str, number: int) -> str:
    """Return the consumer id of a member; members have numbers from 0 on in the order of joining."""
    return f"{group}_m-{number:03}"
