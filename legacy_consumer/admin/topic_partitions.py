"""Which topics there are, and which partitions each has."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass

from zk_layout.codecs import decode_topic
from zk_layout.errors import MalformedZnodeError, NoNodeError
from zk_layout.paths import TopicPath, TopicsPath
from zk_layout.store import ZkStore

logger = logging.getLogger(__name__)

_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class TopicLife:
    """A topic as it is now; one that was deleted and made again has another czxid."""

    partitions: tuple[int, ...]
    czxid: int


def is_topic_name(name: str) -> bool:
    """Whether a topic can have this name: registrations and folders may hold anything."""
    return _TOPIC.fullmatch(name) is not None


def list_topic_names(store: ZkStore) -> tuple[str, ...]:
    """All topics, sorted; none before the first broker."""
    try:
        return store.get_children(TopicsPath().path)
    except NoNodeError:
        return ()


def read_topic_lives(store: ZkStore, topics: Collection[str]) -> dict[str, TopicLife]:
    """{topic: its partitions} of those that exist, in one request; one that cannot be read is named in the log."""
    names = sorted(topics)
    paths = [TopicPath(topic).path for topic in names]
    found: dict[str, TopicLife] = {}
    for topic, path, znode in zip(names, paths, store.get_data_many(paths), strict=True):
        if znode is None:
            continue
        try:
            found[topic] = TopicLife(tuple(decode_topic(path, znode.data).partitions), znode.stat.czxid)
        except MalformedZnodeError as error:
            logger.warning("partitions of topic %s may be missing: %s", topic, error)
    return found
