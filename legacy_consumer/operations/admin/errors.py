"""Errors of the changes that an operator asks for. Each text says what was done, and what to do now.

LegacyConsumerError (zk_layout.errors)
  ChangeError
    BadOffsetFileError              a file of offsets has bad lines; nothing of it is used
    OffsetsOutsideLogError          offsets that are not in the logs
    NoOffsetToShiftError            a shift of partitions without a committed offset that counts
    UnknownLogEndsError             retriable; no broker answers for some partitions
    UnreadableOffsetsError          offset znodes that hold no offset
    GroupDeletedError               retriable; another client deleted the group between the plan and the write
    OffsetsChangedError             retriable; another client wrote offsets after the plan: nothing was written
    TopicMadeAnewError              retriable; a topic was deleted or created between the plan and the write
    OffsetsHalfWrittenError         a plan too large for one request was written only in part
    ResetRequestError               running members did not follow, so nothing was written
    BackupError                     no backup could be written, so a group was not changed
    GroupChangedError               retriable; another client wrote into a group that was to be deleted
    GroupHeldError                  retriable; a session holds a znode of a group that was to be deleted
    DamagedRecordError              the record of a migration cannot be read
    OpenMigrationError              the way back of a migration would be deleted with the group
    NothingOfTopicError             there is nothing to delete of a topic
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from legacy_consumer.operations.admin.findings import shell_command
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition

_SHOWN = 3
_BACK_FIRST = "with --shift-by import the backup first, or the written offsets move once more"


class ChangeError(LegacyConsumerError):
    """A change was refused, or stopped."""


class BadOffsetFileError(ChangeError):
    """A file of offsets has bad lines. lines: ((line number, what is wrong with it), ...)."""

    def __init__(self, file: str, lines: tuple[tuple[int, str], ...]) -> None:
        super().__init__(file, lines)
        self.file = file
        self.lines = lines

    def _text(self) -> str:
        some = "; ".join(f"line {number}: {reason}" for number, reason in self.lines[:_SHOWN])
        more = f"; and {len(self.lines) - _SHOWN} more lines" if len(self.lines) > _SHOWN else ""
        return f"nothing was changed, {self.file} cannot be used: {some}{more}"


class OffsetsOutsideLogError(ChangeError):
    """Offsets are not in the logs. offsets: ((partition, offset, first offset of its log, end of its log), ...)."""

    def __init__(self, offsets: tuple[tuple[TopicPartition, int, int, int], ...]) -> None:
        super().__init__(offsets)
        self.offsets = offsets

    def _text(self) -> str:
        some = "; ".join(f"{tp}: {o} is not in {begin} to {end}" for tp, o, begin, end in self.offsets[:_SHOWN])
        more = f"; and {len(self.offsets) - _SHOWN} more" if len(self.offsets) > _SHOWN else ""
        return (
            f"nothing was changed, offsets lie outside the log: {some}{more}; --clamp takes the nearest offset inside"
        )


class NoOffsetToShiftError(ChangeError):
    """Partitions without a committed offset cannot be shifted."""

    def __init__(self, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__(partitions)
        self.partitions = partitions

    def _text(self) -> str:
        return (
            f"nothing was changed, {_some(self.partitions)} cannot be shifted without a committed offset that can be "
            "read: choose the other partitions with --topic TOPIC:PARTITION,..., and give these an offset, with "
            "--to-earliest for example"
        )


class UnknownLogEndsError(ChangeError):
    """Partitions have no leader, or their leaders do not answer."""

    retriable: ClassVar[bool] = True

    def __init__(self, partitions: tuple[TopicPartition, ...], reason: str = "") -> None:
        super().__init__(partitions, reason)
        self.partitions = partitions
        self.reason = reason

    def _text(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return (
            f"nothing was changed, no broker answers for {_some(self.partitions)}{why}: try again when their leaders "
            "are back (see `legacy-consumer brokers`), or choose other partitions with --topic TOPIC:PARTITION,..."
        )


class UnreadableOffsetsError(ChangeError):
    """Offset znodes hold no offset. problems: what is wrong with each znode."""

    def __init__(self, group: str, problems: tuple[str, ...]) -> None:
        super().__init__(group, problems)
        self.group = group
        self.problems = problems

    def _text(self) -> str:
        return (
            f"offsets of group {self.group!r} cannot be read: {'; '.join(self.problems[:_SHOWN])}; "
            "`offsets reset` with --topic writes good ones, `groups delete` with --topic removes those of a topic that "
            "is gone"
        )


class GroupDeletedError(ChangeError):
    """Another client deleted the group after the plan was made."""

    retriable: ClassVar[bool] = True

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def _text(self) -> str:
        return (
            f"{_nothing_of(self.group)}it was deleted since the plan was made; to create it again, run the command "
            "again for a new plan"
        )


class OffsetsChangedError(ChangeError):
    """An offset is not the one that the plan was made from."""

    retriable: ClassVar[bool] = True

    def __init__(self, group: str, partition: TopicPartition) -> None:
        super().__init__(group, partition)
        self.group = group
        self.partition = partition

    def _text(self) -> str:
        return (
            f"{_nothing_of(self.group)}another client wrote the offset of {self.partition} since the plan was made; "
            "stop that client, and run the command again for a new plan"
        )


class TopicMadeAnewError(ChangeError):
    """A topic is not the one that the plan was made from.

    kept: None if nothing was written. Otherwise the command wrote the topic's offsets and removed them again; kept are
    the partitions of other topics whose offsets stay written. total: the number of offsets in the plan.
    """

    retriable: ClassVar[bool] = True

    def __init__(self, group: str, topic: str, kept: tuple[TopicPartition, ...] | None = None, total: int = 0) -> None:
        super().__init__(group, topic, kept, total)
        self.group = group
        self.topic = topic
        self.kept = kept
        self.total = total

    def _text(self) -> str:
        done, again = _nothing_of(self.group), ""
        if self.kept is not None:
            written = f"{len(self.kept)} of {self.total} offsets are written"
            done = f"group {self.group!r}: the command removed its offsets again, and {written}: "
        if self.kept:
            again = f"; {_BACK_FIRST}"
        return (
            f"{done}topic {self.topic!r} was deleted or created since the plan was made, and the plan has offsets of "
            f"the earlier topic; run the command again for a new plan{again}"
        )


class OffsetsHalfWrittenError(ChangeError):
    """ZooKeeper wrote a part of the plan.

    done: the partitions that ZooKeeper wrote. unknown: the number of partitions in a request that ZooKeeper did not
    answer; they follow the written ones in the plan. ZooKeeper did not write the others.
    """

    def __init__(self, group: str, done: tuple[TopicPartition, ...], unknown: int, total: int, reason: str) -> None:
        super().__init__(group, done, unknown, total, reason)
        self.group = group
        self.done = done
        self.unknown = unknown
        self.total = total
        self.reason = reason

    def _text(self) -> str:
        unknown = f"ZooKeeper did not say whether it wrote the next {self.unknown}, " if self.unknown else ""
        reason = cause_of(self.reason, self.group)
        return (
            f"group {self.group!r}: {len(self.done)} of {self.total} offsets are written, those up to {self.done[-1]} "
            f"in the order of the plan, {unknown}and the others are not written: {reason}; run the same command "
            f"again to write the rest, or import the backup to take back what was written; {_BACK_FIRST}"
        )


class ResetRequestError(ChangeError):
    """The command asked running members to follow a reset, and they did not follow, so nothing was written."""

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(group, reason)
        self.group = group
        self.reason = reason

    def _text(self) -> str:
        return f"nothing was written, group {self.group!r} goes on as before: {self.reason}"


class BackupError(ChangeError):
    """The backup cannot be written. group: the one of several that is therefore not changed; None if none is."""

    def __init__(self, file: str, reason: str, group: str | None = None) -> None:
        super().__init__(file, reason, group)
        self.file = file
        self.reason = reason
        self.group = group

    def _text(self) -> str:
        what = "nothing" if self.group is None else f"nothing of group {self.group!r}"
        return f"{what} was changed, no backup can be written to {self.file}: {self.reason}; see --backup-dir"


class GroupChangedError(ChangeError):
    """Another client wrote the znode `path`. This command had deleted `gone` of `total` znodes before that."""

    retriable: ClassVar[bool] = True

    def __init__(self, group: str, path: str, gone: int, total: int) -> None:
        super().__init__(group, path, gone, total)
        self.group = group
        self.path = path
        self.gone = gone
        self.total = total

    def _text(self) -> str:
        done = f"{self.gone} of {self.total} znodes are deleted" if self.gone else "this command deleted nothing of it"
        back = "; import the backup to put its offsets back" if self.gone else ""
        return (
            f"group {self.group!r} is in use: a client wrote {self.path} after this command had read it, {done}{back}"
        )


class GroupHeldError(ChangeError):
    """A living session holds znodes that were to be deleted. paths: these ephemeral znodes."""

    retriable: ClassVar[bool] = True

    def __init__(self, group: str, paths: tuple[str, ...]) -> None:
        super().__init__(group, paths)
        self.group = group
        self.paths = paths

    def _text(self) -> str:
        return (
            f"nothing of group {self.group!r} was deleted: a living session holds {self.paths[0]}; stop the process of "
            "that session, or wait for zookeeper.session.timeout.ms, and try again"
        )


class DamagedRecordError(ChangeError):
    """The record of a group's migration cannot be read. problem: its path, what it holds, and why."""

    def __init__(self, group: str, problem: str) -> None:
        super().__init__(group, problem)
        self.group = group
        self.problem = problem

    def _text(self) -> str:
        return f"{self.problem}; {shell_command(self.group, 'migrate', 'forget')} deletes the record, with --execute"


class OpenMigrationError(ChangeError):
    """The group's migration is open. phase: the phase of the migration."""

    def __init__(self, group: str, phase: str) -> None:
        super().__init__(group, phase)
        self.group = group
        self.phase = phase

    def _text(self) -> str:
        finish, rollback = (shell_command(self.group, "migrate", verb) for verb in ("finish", "rollback"))
        return (
            f"nothing was deleted: the migration of group {self.group!r} is open ({self.phase}), and its way back "
            f"would go too; {finish} (with --delete) or {rollback} closes it"
        )


class NothingOfTopicError(ChangeError):
    """None of the groups has an owner or an offset of the topic."""

    def __init__(self, topic: str, groups: tuple[str, ...]) -> None:
        super().__init__(topic, groups)
        self.topic = topic
        self.groups = groups

    def _text(self) -> str:
        return (
            f"nothing was deleted: {', '.join(map(repr, self.groups[:_SHOWN]))} has no znode of topic {self.topic!r}; "
            "`legacy-consumer groups describe` shows the topics of a group"
        )


def cause_of(reason: str, group: str) -> str:
    """Return the reason without its beginning "nothing was written", for an error about several requests."""
    return reason.removeprefix(_nothing_of(group))


def _nothing_of(group: str) -> str:
    return f"nothing was written for group {group!r}: "


def _some(partitions: Sequence[TopicPartition]) -> str:
    more = f" and {len(partitions) - _SHOWN} more" if len(partitions) > _SHOWN else ""
    return ", ".join(map(str, partitions[:_SHOWN])) + more
