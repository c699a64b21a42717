"""The progress of a zk_messages source, as that of Spark's own Kafka source looks. No I/O.

Spark names a Python source after a class of its own, and takes no metrics from it. Both follow from what is in the
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
        """startOffset, endOffset and latestOffset, as JSON; None or "null" where there is none."""
        ...


def source_progress(source: SourceProgress) -> dict[str, object]:
    """Name, offsets as {"topic": {"0": 5}}, and metrics, out of `query.lastProgress.sources[0]`.

    The metrics have the names of Spark's Kafka source: avgOffsetsBehindLatest, maxOffsetsBehindLatest and
    minOffsetsBehindLatest, over the partitions of the last batch; none before the first.
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
