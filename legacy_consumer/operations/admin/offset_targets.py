"""Targets of an offset reset, and the offset that each target means for each partition. The only I/O is in LogTimes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.operations.admin.errors import NoOffsetToShiftError, OffsetsOutsideLogError, UnknownLogEndsError
from zk_layout.model import TopicPartition


class LogTimes(Protocol):
    """Asks the brokers for the ends of logs and for the offsets of times; leaves out partitions without an answer."""

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first message of each log."""
        ...

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last message of each log."""
        ...

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time (ms since 1970), the log's end if all messages are older."""
        ...


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The first offset of each log."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """The end of each log."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """The same offset in every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """The committed offset plus a number of messages, which may be negative; kept within the log."""

    messages: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first message of this time (ms since 1970) or later; the end of the log if there is none."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class ToGiven:
    """An offset for each partition; None = no offset."""

    offsets: Mapping[TopicPartition, int | None]


Target: TypeAlias = ToEarliest | ToLatest | ToOffset | ShiftBy | ToTime | ToGiven


def resolve(
    target: Target,
    current: Mapping[TopicPartition, int | None],
    logs: LogTimes,
    *,
    clamp: bool = False,
    check: bool = True,
) -> dict[TopicPartition, int | None]:
    """Return the offset that the target means for each partition of current ({partition: committed offset}).

    clamp: move offsets outside the log to its nearest end instead of refusing them. check: whether to ask the brokers
    at all about offsets that were given.
    Raises: OffsetsOutsideLogError, NoOffsetToShiftError, UnknownLogEndsError if some partition has no answer,
    MissingListenerError, FetchError.
    """
    try:
        return _resolve(target, current, logs, clamp=clamp, check=check)
    except BrokersUnavailableError as error:
        raise UnknownLogEndsError(tuple(sorted(current)), str(error)) from error


def _resolve(
    target: Target, current: Mapping[TopicPartition, int | None], logs: LogTimes, *, clamp: bool, check: bool
) -> dict[TopicPartition, int | None]:
    partitions = sorted(current)
    match target:
        case ToEarliest():
            return _complete(partitions, logs.earliest(partitions))
        case ToLatest():
            return _complete(partitions, logs.latest(partitions))
        case ToTime(time_ms):
            return _complete(partitions, logs.at_times(dict.fromkeys(partitions, time_ms)))
        case ToOffset(offset):
            wanted: dict[TopicPartition, int | None] = dict.fromkeys(partitions, offset)
        case ShiftBy(messages):
            without = tuple(tp for tp in partitions if current[tp] is None)
            if without:
                raise NoOffsetToShiftError(without)
            wanted = {tp: offset + messages for tp, offset in current.items() if offset is not None}
            clamp = True
        case ToGiven(offsets):
            wanted = {tp: offsets[tp] for tp in partitions if tp in offsets}
    return _inside(wanted, logs, clamp=clamp) if check else wanted


def _complete(
    partitions: Collection[TopicPartition], found: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    missing = tuple(tp for tp in partitions if tp not in found)
    if missing:
        raise UnknownLogEndsError(missing)
    return {tp: found[tp] for tp in partitions}


def _inside(
    wanted: Mapping[TopicPartition, int | None], logs: LogTimes, *, clamp: bool
) -> dict[TopicPartition, int | None]:
    asked = [tp for tp, offset in wanted.items() if offset is not None]
    if not asked:
        return dict(wanted)
    begins = _complete(asked, logs.earliest(asked))
    ends = _complete(asked, logs.latest(asked))
    inside: dict[TopicPartition, int | None] = {}
    outside: list[tuple[TopicPartition, int, int, int]] = []
    for tp, offset in wanted.items():
        if offset is None:
            inside[tp] = None
            continue
        begin, end = begins[tp] or 0, ends[tp] or 0
        inside[tp] = min(max(offset, begin), end)
        if inside[tp] != offset and not clamp:
            outside.append((tp, offset, begin, end))
    if outside:
        raise OffsetsOutsideLogError(tuple(outside))
    return inside
