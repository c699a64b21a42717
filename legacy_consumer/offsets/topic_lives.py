"""Reads the origins of topics, which judgement.py compares with committed offsets."""

from __future__ import annotations

from collections.abc import Iterable

from legacy_consumer.offsets.judgement import TopicOrigin
from zk_layout.closed_znodes import read_or_stat
from zk_layout.codecs import decode_topic
from zk_layout.errors import MalformedZnodeError
from zk_layout.paths import TopicPath, TopicsPath
from zk_layout.store import ZkStore, Znode


def origin_paths(topics: Iterable[str]) -> list[str]:
    """Return the paths of the znodes that origins_in needs, for a caller that reads more in the same request."""
    return [TopicsPath().path, *(TopicPath(topic).path for topic in topics)]


def origins_in(topics: Iterable[str], znodes: Iterable[Znode | None]) -> dict[str, TopicOrigin]:
    """Return {topic: its origin} of existing topics. topics: the input of origin_paths. znodes: at its paths."""
    topic_list, *found = znodes
    return {
        topic: TopicOrigin.of(znode.stat, _topic_id(topic, znode), topic_list.stat)
        for topic, znode in zip(topics, found, strict=True)
        if znode is not None and topic_list is not None
    }


def read_topic_origins(store: ZkStore, topics: Iterable[str]) -> dict[str, TopicOrigin]:
    """Return {topic: its origin} of existing topics, in one request; without the id if an ACL forbids to read it.

    Raises: ZooKeeperError.
    """
    names = sorted(set(topics))
    return origins_in(names, read_or_stat(store, origin_paths(names))[0])


def _topic_id(topic: str, znode: Znode) -> str | None:
    try:
        return decode_topic(TopicPath(topic).path, znode.data).topic_id
    except MalformedZnodeError:
        # the czxid still tells the topic from an earlier one
        return None
