"""Judges whether a committed offset fits its topic as it is now; members, the operator's tools and Spark use it.

Deleting a topic leaves the groups' offsets behind, and a topic created again under the same name begins at 0. A member
that starts it at the old offset, as the JVM does, silently skips its first messages. So an offset of an earlier topic
counts as none, and the new topic is read from its beginning, independent of auto.offset.reset. A consumer can recognise
a repeated message, but not a skipped one.

The zxid orders all writes of one ensemble: an offset znode that was last written (mzxid) before its topic's znode was
created (czxid) belongs to an earlier topic. But zxids say nothing across ensembles. When znodes were copied or restored
with /consumers first, every offset is older than its topic, and none is of an earlier one. Three facts tell the two
apart, in this order:

- the topic's id, from Kafka 2.8 on, where the commit names it (commits to Kafka do, in their metadata): equal or not;
- the offset is older than /brokers/topics itself: it came from another ensemble, or was imported before the first
  broker started;
- no topic was ever deleted from /brokers/topics of this ensemble: so there is no earlier topic.

If none of them holds, the offset counts as an earlier topic's. That is wrong for one kind of offset: an operator
imported it before its topic was created, and some topic was deleted before a client committed the offset once more. So
if an offset counts by the third fact alone, a member writes it again with its next commit. For stopped groups doctor
reports it.

How to call it:

    topics = read_topic_origins(store, names)                       # topic_lives.py; one request for all topics
    written = written_in_zookeeper(path, znode)                     # or written_in_kafka(offset, metadata)
    judgement = judge(written, topics.get(name), (earliest, latest))  # log=None if it is not known
    judgement.verdict      # a Verdict
    judgement.position     # where a member goes on; None if nothing counts
    judgement.reason       # why, in words for an operator; also for a valid offset that looks like an earlier topic's
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from zk_layout.codecs import decode_offset
from zk_layout.errors import MalformedZnodeError
from zk_layout.store import Stat, Znode

_MARK = re.compile(r"topic-(?:id=(?P<id>[A-Za-z0-9_-]{1,64})|czxid=0x(?P<czxid>[0-9a-f]{1,16}))")


class Verdict(Enum):
    """The validity of a committed offset for the topic as it is now."""

    VALID = "valid"
    EARLIER_TOPIC = "of an earlier topic"
    BEYOND_LOG = "beyond the log"
    BEFORE_LOG = "before the log"
    UNREADABLE = "unreadable"
    NONE = "none"
    UNKNOWN = "unknown"
    """It may be valid, but the topic does not exist, or the range of its log is not known."""


_COUNTING = frozenset({Verdict.VALID, Verdict.BEYOND_LOG, Verdict.BEFORE_LOG, Verdict.UNKNOWN})


@dataclass(frozen=True, slots=True)
class TopicOrigin:
    """The origin of a topic's znode.

    czxid: the zxid at which /brokers/topics/T was created. topic_id: None before Kafka 2.8. list_czxid: the same of
    /brokers/topics. deletions: how many topics were ever deleted from /brokers/topics.
    """

    czxid: int
    topic_id: str | None = None
    list_czxid: int = 0
    deletions: int = 1

    @classmethod
    def of(cls, topic: Stat, topic_id: str | None, topic_list: Stat) -> TopicOrigin:
        """Return the origin that the Stats of /brokers/topics/T and /brokers/topics show."""
        # child_changes counts creations and deletions
        deletions = (topic_list.child_changes - topic_list.num_children) // 2
        return cls(topic.czxid, topic_id, topic_list.czxid, deletions)


@dataclass(frozen=True, slots=True)
class WrittenOffset:
    """A committed offset as its store returns it.

    offset: None if there is none. problem: why it cannot be read. zxid: the zxid of the
    znode's last write; for a commit to Kafka, of the creation of the topic that the commit names. topic_id: the id of
    the topic that the commit names. Both are None if the store does not have them.
    """

    offset: int | None
    problem: str | None = None
    zxid: int | None = None
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a stored offset. reason: for an operator; "" if there is nothing to say."""

    verdict: Verdict
    offset: int | None = None
    reason: str = ""
    is_fragile: bool = False
    """Whether it counts only until any topic is deleted, because it is older than its topic: commit it once more."""

    @property
    def position(self) -> int | None:
        """The offset at which a member continues; None if none is valid. Outside the log, auto.offset.reset decides."""
        return self.offset if self.verdict in _COUNTING else None

    @property
    def outlived(self) -> int | None:
        """The offset of an earlier topic; None if it is not one."""
        return self.offset if self.verdict is Verdict.EARLIER_TOPIC else None


def judge(written: WrittenOffset, topic: TopicOrigin | None, log: tuple[int, int] | None = None) -> Judgement:
    """Judge one offset. Pure.

    topic: None if the topic does not exist. log: (first offset, end), None if it is not known.
    """
    offset = written.offset
    if written.problem is not None:
        return Judgement(Verdict.UNREADABLE, None, written.problem)
    if offset is None:
        return Judgement(Verdict.NONE)
    if topic is None:
        return Judgement(Verdict.UNKNOWN, offset, "the topic does not exist")
    is_earlier, is_fragile, reason = _compare_lives(written, topic)
    if is_earlier:
        return Judgement(Verdict.EARLIER_TOPIC, offset, reason)
    if log is None:
        return Judgement(Verdict.UNKNOWN, offset, reason, is_fragile)
    earliest, latest = log
    if offset > latest:
        return Judgement(Verdict.BEYOND_LOG, offset, _join(f"the log ends at {latest}", reason), is_fragile)
    if offset < earliest:
        return Judgement(Verdict.BEFORE_LOG, offset, _join(f"the log begins at {earliest}", reason), is_fragile)
    return Judgement(Verdict.VALID, offset, reason, is_fragile)


def _compare_lives(written: WrittenOffset, topic: TopicOrigin) -> tuple[bool, bool, str]:
    """Return whether the offset is of an earlier topic, whether it is fragile, and why."""
    if written.topic_id is not None and topic.topic_id is not None:
        if written.topic_id == topic.topic_id:
            return False, False, ""
        return True, False, f"it was committed for topic id {written.topic_id}, the topic has {topic.topic_id}"
    if written.zxid is None or written.zxid >= topic.czxid:
        return False, False, ""
    if written.zxid < topic.list_czxid:
        return False, False, "it is older than /brokers/topics: it was copied from another ensemble, or imported"
    if topic.deletions == 0:
        return False, True, "it is older than its topic, but no topic was ever deleted here: it was copied or imported"
    return (
        True,
        False,
        (
            f"it was written (zxid 0x{written.zxid:x}) before the topic was created (0x{topic.czxid:x}); "
            "if it was imported for this topic, commit it once more"
        ),
    )


def _join(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def written_elsewhere(offset: int | None, outlived: int | None) -> int | None:
    """Return the offset to write into a file or another group's znode, so that it has the same meaning there.

    An offset of an earlier topic would count once it is written again, but the group begins its topic at 0: so 0.
    """
    return offset if outlived is None else 0


def written_in_zookeeper(path: str, znode: Znode | None) -> WrittenOffset:
    """Return the offset in a znode; znode: None if it does not exist. As for the JVM's readers, -1 is no offset."""
    if znode is None:
        return WrittenOffset(None)
    try:
        offset = decode_offset(path, znode.data)
    except MalformedZnodeError as error:
        return WrittenOffset(None, str(error), znode.stat.mzxid)
    return WrittenOffset(offset if offset >= 0 else None, None, znode.stat.mzxid)


def written_in_kafka(offset: int | None, metadata: str) -> WrittenOffset:
    """Return an offset in Kafka, with the topic that its metadata name; the JVM leaves them empty."""
    match = _MARK.fullmatch(metadata)
    if match is None:
        return WrittenOffset(offset)
    czxid = match["czxid"]
    return WrittenOffset(offset, None, None if czxid is None else int(czxid, 16), match["id"])


def metadata_of(topic: TopicOrigin | None) -> str:
    """Return the metadata of a commit to Kafka: the topic's id, which a copied ensemble keeps, or its czxid."""
    if topic is None:
        return ""
    return f"topic-czxid=0x{topic.czxid:x}" if topic.topic_id is None else f"topic-id={topic.topic_id}"
