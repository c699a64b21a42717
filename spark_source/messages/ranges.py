"""Ranges of offsets: their division into tasks, and the part of them that one trigger reads. No I/O."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The messages of a partition from start, included, to end, excluded."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets; a compacted topic has fewer messages."""
        return self.end - self.start


def split_ranges(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Split ranges into tasks, none empty, in the order of the ranges.

    max_records: no task has more offsets. min_partitions: the least number of tasks, if there are as many offsets;
    larger ranges get more of them: sizes 90 and 10 in ten tasks get nine and one.
    Source: Spark's KafkaOffsetRangeCalculator, which divides in the same proportion.
    """
    wanted = [each for each in ranges if each.size > 0]
    pieces = [_parts_for_records(each.size, max_records) for each in wanted]
    missing = (min_partitions or 0) - sum(pieces)
    if missing > 0:
        pieces = _at_least(min_partitions or 0, wanted, pieces)
    return [piece for each, count in zip(wanted, pieces, strict=True) for piece in _cut(each, count)]


def _parts_for_records(size: int, max_records: int | None) -> int:
    return -(-size // max_records) if max_records else 1


def _at_least(tasks: int, ranges: Sequence[OffsetRange], pieces: Sequence[int]) -> list[int]:
    total = sum(each.size for each in ranges)
    counts = [
        min(each.size, max(count, each.size * tasks // total)) for each, count in zip(ranges, pieces, strict=True)
    ]
    # one more task for the range with the largest pieces
    largest = [(-each.size / count, index) for index, (each, count) in enumerate(zip(ranges, counts, strict=True))]
    heapq.heapify(largest)
    for _ in range(min(tasks, total) - sum(counts)):
        _, index = heapq.heappop(largest)
        counts[index] += 1
        if counts[index] < ranges[index].size:
            heapq.heappush(largest, (-ranges[index].size / counts[index], index))
    return counts


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(bounds) if end > start]


def limit_ends(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_records: int
) -> dict[TopicPartition, int]:
    """Return ends so that at most max_records offsets lie between starts and ends, shared in proportion to the sizes.

    So partitions that are behind catch up together. A partition whose end lies before its start keeps its start.
    """
    sizes = {tp: max(0, end - starts[tp]) for tp, end in ends.items()}
    total = sum(sizes.values())
    if total <= max_records:
        return {tp: starts[tp] + size for tp, size in sizes.items()}
    shares = {tp: size * max_records // total for tp, size in sizes.items()}
    left = max_records - sum(shares.values())
    # partitions that would get nothing come first: beside partitions that keep growing they would never be read
    for tp in sorted((tp for tp in sizes if sizes[tp]), key=lambda tp: (shares[tp] > 0, -sizes[tp], tp))[:left]:
        shares[tp] += 1
    return {tp: starts[tp] + share for tp, share in shares.items()}
