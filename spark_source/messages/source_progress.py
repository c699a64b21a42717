"""The progress of a zk_messages source in the form of Spark's own Kafka source. No I/O.

Spark names a Python source after one of its own classes, and takes no metrics from it. Both can be computed from the
progress of a query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

from spark_source.messages.stream_offsets import StreamOffsets, by_partition, from_json
from spark_source.option_names import MESSAGES_FORMAT


class SourceProgress(Protocol):
    """`query.lastProgress.sources[0]`."""

    def __getitem__(self, key: str) -> str | None:
        """Return startOffset, endOffset or latestOffset, as JSON; None or "null" without one."""
        ...


def source_progress(source: SourceProgress) -> dict[str, object]:
    """Return name, offsets as {"topic": {"0": 5}}, and metrics for `query.lastProgress.sources[0]`.

    The metrics have the names of Spark's Kafka source: avgOffsetsBehindLatest, maxOffsetsBehindLatest and
    minOffsetsBehindLatest, over the partitions of the last batch; there are none before the first batch.
    """
    start, end = (_reached(source[name]) for name in ("startOffset", "endOffset"))
    latest: Mapping[str, Mapping[str, int]] = json.loads(source["latestOffset"] or "null") or {}
    ends = by_partition(end.offsets)
    behind = [
        max(0, offset - ends[topic][partition])
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
        if partition in ends.get(topic, {})
    ]
    metrics: dict[str, float] = {}
    if behind:
        metrics = {
            "avgOffsetsBehindLatest": sum(behind) / len(behind),
            "maxOffsetsBehindLatest": max(behind),
            "minOffsetsBehindLatest": min(behind),
        }
    return {
        "description": f"{MESSAGES_FORMAT}[{', '.join(sorted(latest))}]",
        "startOffset": by_partition(start.offsets),
        "endOffset": ends,
        "latestOffset": latest,
        "metrics": metrics,
    }


def _reached(text: str | None) -> StreamOffsets:
    document = json.loads(text or "null")
    return StreamOffsets() if document is None else from_json(document)
