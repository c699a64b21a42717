"""Divides a batch read among tasks, for this query and for later ones on the same plan. No I/O.

Spark plans once for each load(). So the plan gives each task a share of a partition's offsets, and the shares of a
partition together hold all offsets that can ever exist. When a task runs, it computes which part of its share the
query wants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legacy_consumer.fetching.fetcher import EARLIEST
from spark_source.errors import Lost
from spark_source.messages.offset_spec import OffsetKind, OffsetSpec
from spark_source.messages.positions import Logs, to_ranges
from spark_source.messages.ranges import OffsetRange
from zk_layout.model import TopicPartition

NO_END = 2**63 - 1


def open_ends(pieces: Sequence[OffsetRange]) -> list[OffsetRange]:
    """Return the pieces of each partition, in order; the first one starts at 0, and the last one has no end."""
    opened = []
    for before, piece, after in zip([None, *pieces], pieces, [*pieces[1:], None], strict=False):
        is_first = before is None or before.partition != piece.partition
        is_last = after is None or after.partition != piece.partition
        opened.append(OffsetRange(piece.partition, 0 if is_first else piece.start, NO_END if is_last else piece.end))
    return opened


def ranges_in(
    share: OffsetRange,
    starting: OffsetSpec,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    logs: Logs,
) -> tuple[list[OffsetRange], list[Lost]]:
    """Return the ranges of a share that can be read, and the parts of it that the log does not hold.

    If a share does not start at 0, another task may have read the share before it already. So if messages at its
    beginning are gone, they are lost even to a query from the earliest offset.
    """
    tp = share.partition
    start, end, begin, latest = starts[tp], ends[tp], logs.earliest[tp], logs.latest[tp]
    whole, lost = to_ranges({tp: start}, {tp: end}, logs)
    inside = [OffsetRange(tp, max(each.start, share.start), min(each.end, share.end)) for each in whole]
    ranges = [each for each in inside if each.size > 0]
    if start > latest:  # another log, which is read from its begin
        return ranges, lost if share.start == 0 else []
    earliest = starting.kind is OffsetKind.EARLIEST or dict(starting.given).get(tp) == EARLIEST
    first = share.start if earliest and share.start > 0 else max(start, share.start)
    before = min(end, share.end)
    is_gone = first < before and (first < begin or before > latest)
    return ranges, [Lost(tp, first, before, begin, latest)] if is_gone else []
