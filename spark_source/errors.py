"""Errors of the Spark sources.

LegacyConsumerError (zk_layout.errors)
  SparkSourceError
    SchemaMismatchError             a column that the format does not have, or not with this type
    MissingGroupsError              missingGroups=fail, and some of the groups do not exist
    MissingOffsetsError             the given offsets are for other partitions than the read ones
    NoTopicsError                   the option chooses no topic at all
    NoSuchPartitionsError           the option partitions names some that do not exist
    NoMessageAtTimeError            startingOffsetsByTimestampStrategy=error, and a log ends before the time
    DataLossError                   the logs do not hold all messages of the range
    UndecidedError                  retriable; a transaction is open before the wanted end
    CheckpointError                 the checkpoint of a query holds impossible offsets
    RangeReadError                  retriable; a task did not get all messages of its range
    LiveGroupError                  the group has members, and a stream would commit beside them
    OwnershipLostError              another member owns partitions of a stream with claimOwnership
    UnreadableZnodeError            mode=FAILFAST, and a znode holds data that no member can read
    OffsetWriteError                offsets cannot be written; none was, except those that it names
    DamagedSegmentError             damagedSegments=fail, and a file is damaged
    SparkReadError                  a local Spark could not read; the reason is the source's or Spark's

Wrong options raise ConfigError. Spark passes a Python error on as text; see reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition

_SHOWN = 20
"""The most partitions or members that a message names; seldom are there more."""


class SparkSourceError(LegacyConsumerError):
    """A DataFrame cannot be read or written as requested."""


class SchemaMismatchError(SparkSourceError):
    """The source cannot deliver a column of the user's schema."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason

    def _text(self) -> str:
        return f"column {self.column}: {self.reason}"


class MissingGroupsError(SparkSourceError):
    """Entries of the option groups match no group."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        super().__init__(groups)
        self.groups = groups

    def _text(self) -> str:
        return (
            f"no such group under /consumers: {', '.join(self.groups)}; "
            "check the option groups, or set missingGroups=ignore"
        )


class MissingOffsetsError(SparkSourceError):
    """JSON in startingOffsets or endingOffsets does not match the partitions that are read."""

    def __init__(self, option: str, missing: tuple[TopicPartition, ...], unknown: tuple[TopicPartition, ...]) -> None:
        super().__init__(option, missing, unknown)
        self.option = option
        self.missing = missing
        self.unknown = unknown

    def _text(self) -> str:
        parts = []
        if self.missing:
            parts.append(f"has no offset for {_some(self.missing)}: -2 is earliest, -1 latest")
        if self.unknown:
            parts.append(f"names {_some(self.unknown)}, which is not among the partitions that are read")
        return f"{self.option}: {'; '.join(parts)}"


class NoSuchPartitionsError(SparkSourceError):
    """The option partitions names partitions that their topics do not have."""

    def __init__(self, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__(partitions)
        self.partitions = partitions

    def _text(self) -> str:
        return f"partitions: there is no {_some(self.partitions)}"


class NoMessageAtTimeError(SparkSourceError):
    """Partitions have no message of the wanted time or later."""

    def __init__(self, option: str, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__(option, partitions)
        self.option = option
        self.partitions = partitions

    def _text(self) -> str:
        return (
            f"{self.option}: no message of this time or later is in {_some(self.partitions)}; "
            "startingOffsetsByTimestampStrategy=latest begins at their ends"
        )


class NoTopicsError(SparkSourceError):
    """A whitelist or blacklist matches no topic."""

    def __init__(self, choice: str, topics: int) -> None:
        super().__init__(choice, topics)
        self.choice = choice
        self.topics = topics

    def _text(self) -> str:
        return f"{self.choice} chooses none of the cluster's {self.topics} topics"


@dataclass(frozen=True, slots=True)
class Lost:
    """A wanted range, and its log, which holds only earliest to latest."""

    partition: TopicPartition
    start: int
    end: int
    earliest: int
    latest: int

    def __str__(self) -> str:
        log = f"the log holds {self.earliest} to {self.latest}"
        if self.start > self.latest:
            return f"{self.partition}: {self.start} lies beyond its end, {log}"
        parts = []
        if self.start < min(self.earliest, self.end):
            last = min(self.earliest, self.end)
            parts.append(f"{last - self.start} offsets from {self.start} on are gone")
        if self.end > self.latest:
            parts.append(f"{self.end - max(self.start, self.latest)} before {self.end} are not there")
        return f"{self.partition}: {' and '.join(parts)}, {log}"


@dataclass(frozen=True, slots=True)
class LostLog:
    """A log that is gone with its topic, and the offset up to which it was read.

    known_end: its last known end; None if this query never read one. again: a topic of this name was created since.
    """

    partition: TopicPartition
    start: int
    known_end: int | None
    again: bool = False

    def __str__(self) -> str:
        happened = "was deleted and created again" if self.again else "is gone"
        if self.known_end is None:
            rest = f"whatever it had from {self.start} on was not read"
        elif self.known_end > self.start:
            rest = f"{self.known_end - self.start} offsets from {self.start} on, and what came later, were not read"
        else:
            rest = f"all before {self.start} was read, and nothing that came later"
        # tasks ask for offsets by the topic's name, so they read whichever topic has that name then
        doubt = "; the batch before may hold messages of the new topic" if self.again else ""
        return f"{self.partition}: its topic {happened}: {rest}{doubt}"


class DataLossError(SparkSourceError):
    """failOnDataLoss=true, and the logs do not hold all messages of the range."""

    def __init__(self, lost: tuple[Lost | LostLog, ...]) -> None:
        super().__init__(lost)
        self.lost = lost

    def _text(self) -> str:
        return f"messages are lost: {_some(self.lost)}; set failOnDataLoss=false to read what is left"


class UndecidedError(SparkSourceError):
    """isolation.level=read_committed, and the wanted end lies after the beginning of an open transaction.

    logs: the partition, the wanted end, and the beginning of the first open transaction.
    """

    retriable: ClassVar[bool] = True

    def __init__(self, logs: tuple[tuple[TopicPartition, int, int], ...]) -> None:
        super().__init__(logs)
        self.logs = logs

    def _text(self) -> str:
        logs = _some([f"{tp} before {end} (from {begin} on)" for tp, end, begin in self.logs])
        return f"transactions are still open in {logs}: read again when they have ended, or with read_uncommitted"


class CheckpointError(SparkSourceError):
    """A stream of zk_messages cannot continue from the checkpoint of the query."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _text(self) -> str:
        return f"the query's checkpoint {self.reason}; nothing was read or committed: start with another checkpoint"


class RangeReadError(SparkSourceError):
    """A task did not get the rest of its range in time."""

    retriable: ClassVar[bool] = True

    def __init__(self, partition: TopicPartition, position: int, end: int, reason: str) -> None:
        super().__init__(partition, position, end, reason)
        self.partition = partition
        self.position = position
        self.end = end
        self.reason = reason

    def _text(self) -> str:
        return f"{self.partition}: got no further than {self.position} of {self.end}: {self.reason}"


class LiveGroupError(SparkSourceError):
    """A stream must not commit, because the group has members."""

    def __init__(self, group: str, members: tuple[str, ...]) -> None:
        super().__init__(group, members)
        self.group = group
        self.members = members

    def _text(self) -> str:
        return (
            f"group {self.group!r} has live members ({_some(self.members)}): stop them first, or set liveGroup=allow "
            "to read and commit beside them, or commitOffsets=false to leave their offsets alone; a query with "
            "claimOwnership=true must be the only member in any case"
        )


class OwnershipLostError(SparkSourceError):
    """Other members own partitions that a stream had claimed."""

    def __init__(self, group: str, owners: dict[TopicPartition, str]) -> None:
        super().__init__(group, owners)
        self.group = group
        self.owners = owners

    def _text(self) -> str:
        owned = _some([f"{tp} by {owner}" for tp, owner in sorted(self.owners.items())])
        return f"partitions of group {self.group!r} are owned by others: {owned}; stop them and start the query again"


class UnreadableZnodeError(SparkSourceError):
    """No member can read a znode; with mode=PERMISSIVE its row would have an error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _text(self) -> str:
        return f"{self.reason}; mode=PERMISSIVE reads on and makes this the error of its row"


class OffsetWriteError(SparkSourceError):
    """Offsets were not written.

    left: as text, the offsets that were written and could not be restored, or may have been written.
    """

    def __init__(self, reason: str, left: tuple[str, ...] = ()) -> None:
        super().__init__(reason, left)
        self.reason = reason
        self.left = left

    def _text(self) -> str:
        but = f" but these, which are or may be written, see the backup: {_some(self.left)}; why" if self.left else ""
        return f"no offset was written{but}: {self.reason}"


class DamagedSegmentError(SparkSourceError):
    """A stored segment is damaged, and the read wants all of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _text(self) -> str:
        return f"{self.reason}; set damagedSegments=stop to read what lies before"


class SparkReadError(SparkSourceError):
    """A read through a local Spark failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _text(self) -> str:
        return self.reason


def _some(things: Sequence[object]) -> str:
    """Return the first few things as text, and the number of the others."""
    shown = ", ".join(map(str, things[:_SHOWN]))
    return shown if len(things) <= _SHOWN else f"{shown} and {len(things) - _SHOWN} more"
