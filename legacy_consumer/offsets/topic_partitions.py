"""Reads the existing topics and their partitions."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from legacy_consumer.offsets.judgement import TopicOrigin
from legacy_consumer.offsets.topic_lives import origin_paths, origins_in
from zk_layout.closed_znodes import read_or_stat
from zk_layout.codecs import decode_topic
from zk_layout.errors import MalformedZnodeError, NoNodeError, NotPermittedError
from zk_layout.model import TopicPartition
from zk_layout.paths import TopicPath, TopicsPath
from zk_layout.store import ZkStore, Znode

_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class TopicLife:
    """A topic as it is now; a topic that was deleted and created again has another czxid."""

    partitions: tuple[int, ...]
    czxid: int


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have this name: registrations and folders may hold anything."""
    return _TOPIC.fullmatch(name) is not None


class TopicsOnce:
    """The topics for one reading of many groups: each topic is read once.

    problems: {topic: why it cannot be read}. Such a topic is among the results, without partitions. If an ACL forbids
    to read it, ZooKeeper 3.9 hides its czxid, too: it is 0 then.
    """

    def __init__(self, store: ZkStore) -> None:
        self._store = store
        self._asked: set[str] = set()
        self._lives: dict[str, TopicLife] = {}
        self._existing: set[TopicPartition] = set()
        self._origins: dict[str, TopicOrigin] = {}
        self._names: tuple[str, ...] | None = None
        self.problems: dict[str, MalformedZnodeError | NotPermittedError] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names of all topics, sorted."""
        if self._names is None:
            self._names = list_topic_names(self._store)
        return self._names

    def lives(self, topics: Collection[str]) -> dict[str, TopicLife]:
        """Return {topic: its partitions} of existing topics."""
        self._read(topics)
        return {topic: self._lives[topic] for topic in topics if topic in self._lives}

    def existing(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return which of these partitions exist. Each partition of an unreadable topic counts: it may exist."""
        self._read({tp.topic for tp in partitions})
        return frozenset(tp for tp in partitions if tp in self._existing or tp.topic in self.problems)

    def refuse_unreadable(self, topics: Collection[str]) -> None:
        """Raise the reason why one of these topics cannot be read: no offset of such a topic may be moved."""
        self._read(topics)
        for topic in sorted(self.problems.keys() & set(topics)):
            raise self.problems[topic]

    def origins(self, topics: Collection[str]) -> dict[str, TopicOrigin]:
        """Return the origins of these topics, as read_topic_origins."""
        self._read(topics)
        return {topic: self._origins[topic] for topic in topics if topic in self._origins}

    def _read(self, topics: Collection[str]) -> None:
        missing = sorted(set(topics) - self._asked)
        if missing:
            znodes, closed = read_or_stat(self._store, origin_paths(missing))
            self._asked.update(missing)
            self._origins.update(origins_in(missing, znodes))
            for topic, znode in zip(missing, znodes[1:], strict=True):
                reason = closed.get(TopicPath(topic).path)
                if reason is not None:
                    self.problems[topic] = reason
                    self._lives[topic] = TopicLife((), 0 if znode is None else znode.stat.czxid)
                elif znode is not None:
                    life = self._lives[topic] = TopicLife(self._partitions(topic, znode), znode.stat.czxid)
                    self._existing.update(TopicPartition(topic, number) for number in life.partitions)

    def _partitions(self, topic: str, znode: Znode) -> tuple[int, ...]:
        try:
            return tuple(decode_topic(TopicPath(topic).path, znode.data).partitions)
        except MalformedZnodeError as error:
            self.problems[topic] = error
            return ()


def list_topic_names(store: ZkStore) -> tuple[str, ...]:
    """Return the names of all topics, sorted; none before the first broker."""
    try:
        return store.get_children(TopicsPath().path)
    except NoNodeError:
        return ()
