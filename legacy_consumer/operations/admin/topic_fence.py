"""Writes offsets only for the topics that the plan was made for, never for later topics of the same names.

A topic that is deleted and created again has another czxid, but its znode has version 0 again, and a multi can check
only versions. So the topics are read right before the multi, the multi checks their versions, and right after it
they are read once more: offsets that were written for a topic created in between are deleted again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import TypeAlias

from legacy_consumer.operations.admin.errors import TopicMadeAnewError
from zk_layout.codecs import encode_offset
from zk_layout.errors import BadVersionError, NoNodeError
from zk_layout.model import TopicPartition
from zk_layout.paths import OffsetPath, TopicPath
from zk_layout.store import CheckOp, Op, Stat, ZkStore

TopicCreations: TypeAlias = Mapping[str, int | None]
"""{topic: the zxid of its creation}; None if there was no such topic."""


def topic_checks(store: ZkStore, group: str, seen: TopicCreations, topics: Collection[str]) -> list[Op]:
    """Return the checks for the multi that writes offsets of these topics.

    Raises: TopicMadeAnewError, ZooKeeperError.
    """
    stats = _read(store, topics & seen.keys())
    for topic in sorted(_others(stats, seen)):
        raise TopicMadeAnewError(group, topic)
    return [CheckOp(TopicPath(topic).path, stat.version) for topic, stat in stats.items() if stat is not None]


def check_written(store: ZkStore, group: str, seen: TopicCreations, written: Mapping[TopicPartition, int]) -> set[str]:
    """After the multi, delete the offsets of topics that were deleted or created since. Returns: these topics."""
    others = _others(_read(store, {tp.topic for tp in written} & seen.keys()), seen)
    there = [tp for tp in sorted(written) if tp.topic in others]
    paths = [OffsetPath(group, *tp).path for tp in there]
    for tp, path, znode in zip(there, paths, store.get_data_many(paths), strict=True):
        if znode is not None and znode.data == encode_offset(written[tp]):
            # a member that consumes the new topic may commit at this moment
            with contextlib.suppress(BadVersionError, NoNodeError):
                store.delete(path, znode.stat.version)
    return others


def _read(store: ZkStore, topics: Collection[str]) -> dict[str, Stat | None]:
    names = sorted(topics)
    return dict(zip(names, store.exists_many([TopicPath(topic).path for topic in names]), strict=True))


def _others(stats: Mapping[str, Stat | None], seen: TopicCreations) -> set[str]:
    return {topic for topic, stat in stats.items() if (None if stat is None else stat.czxid) != seen[topic]}
