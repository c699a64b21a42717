"""Computes the ranges to read from the options and the cluster's answers. No I/O.

A range that the log does not hold is a loss: the messages were deleted before they were read, or the log is shorter
than the committed offset, for example because its topic was deleted and created again. The loss is reported with its
offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from spark_source.errors import Lost, MissingOffsetsError, NoMessageAtTimeError
from spark_source.messages.offset_spec import OffsetKind, OffsetSpec
from spark_source.messages.ranges import OffsetRange
from zk_layout.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Logs:
    """The first offsets and the ends of logs, for the same partitions."""

    earliest: Offsets
    latest: Offsets


@dataclass(frozen=True, slots=True)
class Stand:
    """The group's offsets, and the offset of a time in each log; both only as far as the spec needs them.

    committed: the group's. outlived: partitions whose committed offset is that of an earlier topic of this name.
    reset_to: EARLIEST or LATEST, for partitions without an offset.
    at_time: an offset for each; EARLIEST or LATEST without a message of the time.
    """

    committed: Offsets = field(default_factory=dict)
    outlived: Collection[TopicPartition] = ()
    reset_to: int = EARLIEST
    at_time: Offsets = field(default_factory=dict)


def resolve(
    option: str, spec: OffsetSpec, partitions: Collection[TopicPartition], logs: Logs, stand: Stand
) -> dict[TopicPartition, int]:
    """Return the offset of each partition, whether or not its log holds it. Sorted.

    Raises: MissingOffsetsError if offsets are given and some partition has none, or a partition does not exist;
    NoMessageAtTimeError by option.
    """
    found: dict[TopicPartition, int] = {}
    given = dict(spec.given)
    if spec.kind is OffsetKind.GIVEN:
        missing = sorted(set(partitions) - given.keys())
        unknown = sorted(given.keys() - set(partitions))
        if missing or unknown:
            raise MissingOffsetsError(option, tuple(missing), tuple(unknown))
    if spec.must_have_message:
        late = tuple(tp for tp in sorted(partitions) if stand.at_time[tp] == LATEST)
        if late:
            raise NoMessageAtTimeError(option, late)
    for tp in sorted(partitions):
        match spec.kind:
            case OffsetKind.EARLIEST:
                position = EARLIEST
            case OffsetKind.LATEST:
                position = LATEST
            case OffsetKind.TIME:
                position = stand.at_time[tp]
            case OffsetKind.GIVEN:
                position = given[tp]
            case OffsetKind.COMMITTED:
                # an offset of an earlier topic counts as none, and the group has read nothing of the new topic
                position = stand.committed.get(tp, EARLIEST if tp in stand.outlived else stand.reset_to)
        found[tp] = {EARLIEST: logs.earliest[tp], LATEST: logs.latest[tp]}.get(position, position)
    return found


def to_ranges(starts: Offsets, ends: Offsets, logs: Logs) -> tuple[list[OffsetRange], list[Lost]]:
    """Return the ranges that can be read, without empty ones, and the lost ranges."""
    ranges: list[OffsetRange] = []
    lost: list[Lost] = []
    for tp, wanted_end in sorted(ends.items()):
        wanted_start = starts[tp]
        earliest, latest = logs.earliest[tp], logs.latest[tp]
        # beyond the end of the log it is unknown what was read, so the read begins at the log's first offset
        start = earliest if wanted_start > latest else max(wanted_start, earliest)
        end = min(max(wanted_end, start), latest)
        if wanted_start > latest or wanted_start < min(earliest, wanted_end) or wanted_end > latest:
            lost.append(Lost(tp, wanted_start, wanted_end, earliest, latest))
        if end > start:
            ranges.append(OffsetRange(tp, start, end))
    return ranges, lost
