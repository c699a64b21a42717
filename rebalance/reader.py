"""Reads a group into a GroupSnapshot, and watches what it read in the same call.

It reads little. A registration never changes while its id lives, so each is read once. The list of ids, the list of
topics and the data of each topic are read again only after their watch fired. So a rebalance after one join reads the
children of `ids` and one registration, and one after nothing reads nothing and returns the very same snapshot.

The topics read are those that some member subscribes to: round-robin divides all of them together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rebalance.assignors.java_hash import java_sort_key
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import is_wildcard, subscribed_topics, unreadable_reason
from zk_layout.codecs import decode_registration, decode_topic
from zk_layout.errors import MalformedZnodeError, NoNodeError
from zk_layout.model import ConsumerRegistration
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath, TopicPath, TopicsPath
from zk_layout.store import WatchEvent, ZkStore

logger = logging.getLogger(__name__)

_TOPICS = TopicsPath().path


class GroupReader:
    """What one member knows of its group. Used by the coordinator's thread alone, but for the watch callbacks."""

    def __init__(
        self,
        store: ZkStore,
        group: str,
        *,
        exclude_internal_topics: bool,
        on_change: Callable[[WatchEvent], None],
    ) -> None:
        """on_change is called on a thread of the store and must only enqueue; give the event to notice() later."""
        self._store = store
        self._group = group
        self._exclude_internal_topics = exclude_internal_topics
        self._on_change = on_change
        self._ids_path = ConsumerIdsPath(group).path
        self._registrations: dict[str, ConsumerRegistration] = {}
        self._unreadable: dict[str, str] = {}
        self._ids: tuple[str, ...] | None = None
        self._cluster_topics: tuple[str, ...] | None = None
        self._partitions: dict[str, tuple[int, ...]] = {}
        self._snapshot: GroupSnapshot | None = None

    def forget(self) -> None:
        """Read everything again next time: watches may have been missed."""
        self._registrations = {}
        self._unreadable = {}
        self._ids = None
        self._cluster_topics = None
        self._partitions = {}
        self._snapshot = None

    def forget_members(self) -> None:
        """Read the list of members again next time: I have just joined it."""
        self._ids = None
        self._snapshot = None

    def notice(self, event: WatchEvent) -> str:
        """A watch fired: read again what it stood for. Returns what happened, in words."""
        self._snapshot = None
        if event.path == self._ids_path:
            self.forget_members()
            return "members changed"
        if event.path == _TOPICS:
            self._cluster_topics = None
            return "topics came or went"
        topic = event.path.rpartition("/")[2]
        self._partitions.pop(topic, None)
        return f"topic {topic} changed"

    def read(self) -> GroupSnapshot:
        """The group as it is now; the same object as before if nothing changed.

        Raises: ZooKeeperError.
        """
        if self._snapshot is None:
            self._read_members()
            topics = self._read_topics()
            self._read_partitions(topics)
            self._snapshot = GroupSnapshot(
                group=self._group,
                members={consumer_id: self._registrations[consumer_id] for consumer_id in self._readable()},
                # without those that do not exist, which no topic filter may match
                partitions={topic: self._partitions[topic] for topic in sorted(topics) if self._partitions[topic]},
                unreadable=dict(self._unreadable),
                exclude_internal_topics=self._exclude_internal_topics,
            )
        return self._snapshot

    def _readable(self) -> list[str]:
        return sorted(self._registrations, key=java_sort_key)

    def _read_members(self) -> None:
        if self._ids is not None:
            return
        try:
            ids = self._store.get_children(self._ids_path, self._on_change)
        except NoNodeError:
            # nobody has ever joined; the watch is set when I have
            ids = ()
        present = set(ids)
        for gone in [known for known in self._registrations if known not in present]:
            del self._registrations[gone]
        for gone in [known for known in self._unreadable if known not in present]:
            del self._unreadable[gone]
        fresh = [name for name in ids if name not in self._registrations and name not in self._unreadable]
        paths = [ConsumerIdPath(self._group, name).path for name in fresh]
        for name, path, znode in zip(fresh, paths, self._store.get_data_many(paths), strict=True):
            if znode is None:
                # left between the list and the read: the watch on the list fires
                continue
            self._note_registration(name, path, znode.data)
        self._ids = ids

    def _note_registration(self, name: str, path: str, data: bytes | None) -> None:
        reason: str | None
        try:
            registration = decode_registration(path, data)
            reason = unreadable_reason(registration)
        except MalformedZnodeError as error:
            reason = str(error)
        if reason is None:
            self._registrations[name] = registration
            return
        # a JVM member fails every rebalance of the group here
        self._unreadable[name] = reason
        logger.warning("group %s: leaves out member %s, which is unreadable: %s", self._group, name, reason)

    def _read_topics(self) -> set[str]:
        """The topics that some member subscribes to; a topic filter sees all topics of the cluster."""
        static = {
            topic
            for registration in self._registrations.values()
            if not is_wildcard(registration)
            for topic, _ in registration.subscription
            # no such topic can exist, and ZooKeeper would refuse to look for it
            if topic and "/" not in topic and topic not in {".", ".."}
        }
        wildcards = [r for r in self._registrations.values() if is_wildcard(r)]
        if not wildcards:
            return static
        if self._cluster_topics is None:
            self._cluster_topics = self._list_topics()
        matched = {
            topic
            for registration in wildcards
            for topic in subscribed_topics(
                registration, self._cluster_topics, exclude_internal_topics=self._exclude_internal_topics
            )
        }
        return static | matched

    def _list_topics(self) -> tuple[str, ...]:
        try:
            return self._store.get_children(_TOPICS, self._on_change)
        except NoNodeError:
            # no broker has ever started here; its creation is what we wait for
            self._store.exists(_TOPICS, self._on_change)
            return ()

    def _read_partitions(self, topics: set[str]) -> None:
        unread = sorted(topics - self._partitions.keys())
        paths = [TopicPath(topic).path for topic in unread]
        for topic, path, znode in zip(unread, paths, self._store.get_data_many(paths, self._on_change), strict=True):
            if znode is None:
                # a topic that does not exist has no partitions; the watch fires when it is created
                self._partitions[topic] = ()
                continue
            try:
                self._partitions[topic] = tuple(decode_topic(path, znode.data).partitions)
            except MalformedZnodeError as error:
                logger.warning("group %s: topic %s counts as empty: %s", self._group, topic, error)
                self._partitions[topic] = ()
