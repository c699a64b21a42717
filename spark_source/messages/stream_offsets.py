"""The offsets of a stream as Spark keeps them in its checkpoint. No I/O.

    {"flights": {"0": 120, "1": 118}}

This is what startingOffsets takes, too. The latest offsets that the progress of a query reports say for each partition
where its log ends and how far the batches up to now are behind: {"flights": {"0": {"end": 125, "lag": 5}}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from zk_layout.model import TopicPartition

JsonOffsets: TypeAlias = "dict[str, dict[str, int]]"
Reported: TypeAlias = "dict[str, dict[str, dict[str, int]]]"


def to_json(offsets: Mapping[TopicPartition, int]) -> JsonOffsets:
    """As Spark keeps them; sorted, so that equal offsets are equal text."""
    found: JsonOffsets = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Back again."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def report(ends: Mapping[TopicPartition, int], done: Mapping[TopicPartition, int]) -> Reported:
    """What the progress of a query shows: log ends, and the lag that is left behind `done`."""
    found: Reported = {}
    for tp, end in sorted(ends.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = {"end": end, "lag": max(0, end - done.get(tp, 0))}
    return found


def reported_lag(latest_offset: str) -> dict[TopicPartition, int]:
    """The lag of each partition, out of `query.lastProgress.sources[0].latestOffset`."""
    reported: Reported = json.loads(latest_offset)
    return {
        TopicPartition(topic, int(partition)): said["lag"]
        for topic, partitions in reported.items()
        for partition, said in partitions.items()
    }
