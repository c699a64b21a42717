"""The progress of a stream, as Spark keeps it in the checkpoint of a query. No I/O.

    {"version": 2, "offsets": {"flights": {"0": 120, "1": 118}}, "topics": {"flights": "topic-czxid=0x2f"}}

offsets: the next one to read. topics: which topic of its name each one is, said as a commit to Kafka says it, so that a
topic made anew is recognised. begins, shaped as offsets, is there if the batch that ends here does not begin where the
one before ended: in partitions that are new, or whose log has lost what was to be read next. So the offsets before and
after a batch say all of what it reads, and a batch that Spark repeats reads the same. Before the first batch there is
{"version": 2, "begun": false}; where it begins stands in its end.

Version 1, which had no version, was {"flights": {"0": 120}}; it is read, and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from spark_source.errors import CheckpointError
from spark_source.messages.ranges import OffsetRange
from spark_source.option_names import whole_number
from zk_layout.model import TopicPartition

VERSION = 2
_MOST_OFFSET = 2**63 - 1
_MOST_PARTITION = 2**31 - 1

JsonOffsets: TypeAlias = "dict[str, object]"
ByPartition: TypeAlias = "dict[str, dict[str, int]]"


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The next offset of each partition; see the module for the rest. begun: whether a batch was ever planned."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    begun: bool = True


NOT_BEGUN = StreamOffsets(begun=False)


def ranges_between(start: StreamOffsets, end: StreamOffsets) -> list[OffsetRange]:
    """Return the ranges of the batch between these offsets, sorted, without empty ones."""
    found = (
        OffsetRange(tp, end.begins.get(tp, start.offsets.get(tp, 0)), stop) for tp, stop in sorted(end.offsets.items())
    )
    return [each for each in found if each.size > 0]


def to_json(reached: StreamOffsets) -> JsonOffsets:
    """Return the document for Spark; sorted, so that equal progress has equal text."""
    if not reached.begun:
        return {"version": VERSION, "begun": False}
    document: JsonOffsets = {
        "version": VERSION,
        "offsets": by_partition(reached.offsets),
        "topics": dict(sorted(reached.topics.items())),
    }
    if reached.begins:
        document["begins"] = by_partition(reached.begins)
    return document


def by_partition(offsets: Mapping[TopicPartition, int]) -> ByPartition:
    """Return {topic: {partition: offset}}, sorted, as Spark's own Kafka source writes offsets."""
    found: ByPartition = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def from_json(document: object) -> StreamOffsets:
    """Read a document of to_json. Raises: CheckpointError if this version cannot have written it."""
    if not isinstance(document, dict):
        raise CheckpointError(f"holds {document!r} where offsets should be")
    version = document.get("version")
    if version is None or isinstance(version, dict):  # a topic may be named so
        return StreamOffsets(_offsets(document))
    if type(version) is not int or version != VERSION:
        raise CheckpointError(f"holds offsets of version {version!r}; this release reads versions 1 and {VERSION}")
    if document.get("begun") is False:
        return NOT_BEGUN
    topics = document.get("topics")
    if not isinstance(topics, dict) or not all(isinstance(mark, str) for mark in topics.values()):
        raise CheckpointError(f"holds {topics!r} where topics should be")
    return StreamOffsets(_offsets(document.get("offsets")), topics, _offsets(document.get("begins", {})))


def _offsets(document: object) -> dict[TopicPartition, int]:
    if not isinstance(document, dict):
        raise CheckpointError(f"holds {document!r} where offsets should be")
    found: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise CheckpointError(f"holds {partitions!r} for topic {topic}, which is no offset of a partition")
        for partition, offset in partitions.items():
            number = whole_number(partition, most=_MOST_PARTITION)
            if number is None:
                raise CheckpointError(f"names {partition!r} of topic {topic}, which is no partition")
            if type(offset) is not int or not 0 <= offset <= _MOST_OFFSET:
                raise CheckpointError(f"holds {offset!r} for {topic}/{partition}, which is no offset")
            found[TopicPartition(topic, number)] = offset
    return found
