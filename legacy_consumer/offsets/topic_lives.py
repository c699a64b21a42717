"""Which topic an offset belongs to: a topic that was deleted and created again is another one of the same name.

Deleting a topic leaves the group's offsets behind, and the new topic begins at 0. Whoever starts it at the old offset,
as the JVM does, skips its first messages without a word, or, when the offset lies behind its end, goes to where
auto.offset.reset points. Here such an offset counts as none, and the new topic is read from its beginning whatever
auto.offset.reset says: the group has read the topic of this name before, so what came into the new one meanwhile is
news to it. A message read twice can be recognised, one that was skipped cannot.

The zxid at which /brokers/topics/T was created (czxid) tells one life of a topic from the next: it orders all writes of
the ensemble. So an offset znode that was last written (mzxid) before the topic was created belongs to an earlier life.
Kafka keeps no zxid with an offset, so a commit to Kafka carries the topic's in its metadata, which the JVM leaves empty
and does not look at.

The margin that is left: a commit by whoever has not heard yet that the topic is a new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from zk_layout.paths import TopicPath
from zk_layout.store import ZkStore, Znode

_MARK = re.compile(r"topic-czxid=0x([0-9a-f]{1,16})")


def read_topic_czxids(store: ZkStore, topics: Iterable[str]) -> dict[str, int]:
    """{topic: czxid of its znode} of those that exist."""
    names = sorted(set(topics))
    znodes = store.get_data_many([TopicPath(name).path for name in names])
    return {name: znode.stat.czxid for name, znode in zip(names, znodes, strict=True) if znode is not None}


def is_outlived(znode: Znode, topic_czxid: int | None) -> bool:
    """Whether an offset znode was written for a topic that was deleted since. Without a topic nothing is known."""
    return topic_czxid is not None and znode.stat.mzxid < topic_czxid


def metadata_of(topic_czxid: int | None) -> str:
    """What a commit to Kafka says of the topic it is for."""
    return "" if topic_czxid is None else f"topic-czxid=0x{topic_czxid:x}"


def czxid_in(metadata: str) -> int | None:
    """The topic that a commit was for; None if it does not say, as those of the JVM."""
    match = _MARK.fullmatch(metadata)
    return int(match[1], 16) if match else None
