"""The write of zk_offsets: rows (group, topic, partition, offset) become committed offsets.

Tasks only check and collect rows; Spark sends them to the driver as commit messages. When every task has succeeded,
the driver reads all groups, checks all offsets, saves the present ones, and writes each group in one multi at the
versions that it read (a group of some thousand partitions in several). If a group cannot be written, the driver
restores the offsets that it has written, of this group and of others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.backups import write_backups
from legacy_consumer.operations.admin.errors import BackupError, OffsetsHalfWrittenError, TopicMadeAnewError
from legacy_consumer.operations.admin.group_members import RegisteredMember, read_members
from legacy_consumer.operations.admin.group_table import read_group_partitions
from legacy_consumer.operations.admin.group_writes import write_plans
from legacy_consumer.operations.admin.offset_plans import OffsetChange, OffsetPlan, Standing, make_plan, standing_of
from legacy_consumer.operations.admin.offset_writes import write_plan
from spark_source.errors import OffsetWriteError
from spark_source.offset_rows import GroupOffsets, check_batch, merge
from spark_source.options import LiveGroups, NullOffsets, OutsideLog, WriteOptions
from spark_source.zookeeper import connected
from zk_layout.errors import LegacyConsumerError, ZooKeeperError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import GroupPath
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_ANSWER_S = 10.0
_SHOWN = 5


@dataclass
class CollectedRows(WriterCommitMessage):
    """The rows of one task: (group, topic, partition, offset) each."""

    rows: tuple[tuple[str, str, int, int | None], ...]


class ZkOffsetsWriter(DataSourceArrowWriter):
    """Writes committed offsets. Pickled to the executors for write; commit runs on the driver in one process."""

    def __init__(self, options: WriteOptions, names: tuple[str, str, str, str]) -> None:
        self._options = options
        self._names = names

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Check and return the rows of one task. Runs on an executor. Raises: OffsetWriteError."""
        may_delete = self._options.null_offsets is NullOffsets.DELETE
        rows = [row for batch in iterator for row in check_batch(batch, self._names, may_delete=may_delete)]
        return CollectedRows(tuple(rows))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write all rows of the tasks. Runs on the driver, once.

        Raises: OffsetWriteError with the reason; then nothing is written, except what it names.
        """
        rows = [row for message in messages if isinstance(message, CollectedRows) for row in message.rows]
        wanted = merge(rows)
        if not wanted:
            logger.info("no offsets to write")
            return
        try:
            with connected(self._options.cluster) as store:
                self._write(store, wanted)
        except OffsetWriteError:
            raise
        except BackupError as error:
            reason = f"no backup can be written to {error.file}: {error.reason}; see backupFolder"
            raise OffsetWriteError(reason) from error
        except LegacyConsumerError as error:
            raise OffsetWriteError(str(error)) from error

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log failed tasks. Spark calls this also after an error of commit, which has reported the reason itself.

        There is nothing to undo: tasks write nothing.
        """
        failed = sum(message is None for message in messages)
        if failed:
            logger.warning("no offset was written: %d of %d tasks failed", failed, len(messages))

    def _write(self, store: ZkStore, wanted: GroupOffsets) -> None:
        options = self._options
        plans = make_plans(store, wanted)
        if options.live_groups is LiveGroups.FAIL:
            for plan in plans:
                if plan.members:
                    raise ActiveGroupError(plan.group, tuple(member.consumer_id for member in plan.members))
        if options.outside_log is OutsideLog.FAIL:
            self._refuse_outside(store, wanted)
        changes = sum(len(plan.to_write) for plan in plans)
        if options.dry_run:
            if options.backup_folder is not None:
                _check_folder(options.backup_folder)
            logger.warning("dry run: %d offsets of %d groups would change", changes, len(plans))
            return
        if options.backup_folder is not None:
            file = write_backups(
                Path(options.backup_folder),
                "spark",
                {plan.group: plan.backup for plan in plans},
                {plan.group: plan.unreadable for plan in plans},
                topics={topic: mark for plan in plans for topic, mark in plan.marks.items()},
            )
            logger.warning("the previous offsets are in %s", file)
        write_all(store, plans, force=options.live_groups is LiveGroups.ALLOW)
        logger.info("%d offsets of %d groups were written", changes, len(plans))

    def _refuse_outside(self, store: ZkStore, wanted: GroupOffsets) -> None:
        """Raise OffsetWriteError for offsets outside their logs, or for logs of which no broker tells the ends."""
        from legacy_consumer.fetching.librdkafka import open_log_offsets  # takes a moment to load

        offsets = [(tp, offset) for own in wanted.values() for tp, offset in own.items() if offset is not None]
        partitions = {tp for tp, _ in offsets}
        logs = open_log_offsets(self._options.cluster, store, timeout_s=_ANSWER_S)
        try:
            earliest = logs.earliest(partitions)
            latest = logs.latest(partitions)
        finally:
            logs.close()
        unknown = sorted(partitions - (earliest.keys() & latest.keys()))
        if unknown:
            raise OffsetWriteError(
                f"no broker says where the logs of {_some(unknown)} begin and end: check the names, or set "
                "outsideLog=allow"
            )
        outside = [
            f"{offset} of {tp} (its log holds {earliest[tp]} to {latest[tp]})"
            for tp, offset in sorted(set(offsets))
            if not earliest[tp] <= offset <= latest[tp]
        ]
        if outside:
            raise OffsetWriteError(f"offsets lie outside their logs: {_some(outside)}; outsideLog=allow writes them")


def _check_folder(folder: str) -> None:
    """Raises: BackupError if no file can be created in the folder."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BackupError(folder, error.strerror or str(error)) from error


def make_plans(store: ZkStore, wanted: GroupOffsets) -> list[OffsetPlan]:
    """Return the plan of each group, from its present offsets. All groups are read together."""
    groups = sorted(wanted)
    topics = {tp.topic for own in wanted.values() for tp in own}
    once = TopicsOnce(store)
    once.lives(topics)
    there = store.exists_many([GroupPath(group).path for group in groups])
    is_new = {group for group, stat in zip(groups, there, strict=True) if stat is None}
    standings: dict[str, dict[TopicPartition, Standing]] = {group: {} for group in groups}
    for row in read_group_partitions(store, groups, topics=topics.__contains__, cluster=once):
        standings[row.group][TopicPartition(row.topic, row.partition)] = standing_of(row)
    members: dict[str, list[RegisteredMember]] = {group: [] for group in groups}
    for member in read_members(store, groups):
        members[member.group].append(member)
    return [
        make_plan(
            store,
            group,
            None if group in is_new else standings[group],
            wanted[group],
            topics=once,
            members=members[group],
        )
        for group in groups
    ]


def write_all(store: ZkStore, plans: Sequence[OffsetPlan], *, force: bool) -> None:
    """Write all plans, or none: offsets written before a failure are restored.

    Raises: OffsetWriteError; it names offsets that could not be restored or may have been written.
    """
    written: list[OffsetPlan] = []
    try:
        for plan in write_plans(store, plans, force=force):
            written.append(plan)  # noqa: PERF402 - a failure keeps the plans before it
    except LegacyConsumerError as error:
        left: list[str] = []
        done = {plan.group for plan in written}
        for plan in plans:
            part = _standing_part(plan, error, is_written=plan.group in done)
            if not part.changes:
                continue
            try:
                write_plan(store, undoing(part), force=True)
            except LegacyConsumerError as problem:
                logger.error("the offsets of group %s could not be restored: %s", plan.group, problem)  # noqa: TRY400
                left.append(f"those of {plan.group}")
            left += [
                f"{change.partition} of {plan.group}" for change in part.to_write if change.before.problem is not None
            ]
        if _may_be_carried_out(error):
            left += [f"those of {plan.group}" for plan in plans if plan.to_write and plan.group not in done]
        raise OffsetWriteError(_reason(error), tuple(dict.fromkeys(left))) from error


def _standing_part(plan: OffsetPlan, error: LegacyConsumerError, *, is_written: bool) -> OffsetPlan:
    """Return the part of a plan that is known to be in ZooKeeper after the error of this plan or of another one."""
    changes = plan.to_write if is_written else ()
    if isinstance(error, OffsetsHalfWrittenError) and error.group == plan.group:
        half = set(error.done)
        changes = tuple(change for change in plan.to_write if change.partition in half)
    if isinstance(error, TopicMadeAnewError) and error.kept is not None:
        if error.group == plan.group:
            kept = set(error.kept)
            changes = tuple(change for change in plan.to_write if change.partition in kept)
        else:
            changes = tuple(change for change in changes if change.partition.topic != error.topic)
    return OffsetPlan(plan.group, changes)


def _may_be_carried_out(error: LegacyConsumerError) -> bool:
    """Return whether the last multi had no answer."""
    if isinstance(error, OffsetsHalfWrittenError):
        return error.unknown > 0
    return isinstance(error, ZooKeeperError) and error.retriable


def _reason(error: LegacyConsumerError) -> str:
    """Return the reason of an error, without its text about the written part, which is restored."""
    if isinstance(error, OffsetsHalfWrittenError):
        return error.reason
    if isinstance(error, TopicMadeAnewError):
        return str(TopicMadeAnewError(error.group, error.topic))
    return str(error)


def undoing(plan: OffsetPlan) -> OffsetPlan:
    """Return the plan that restores the offsets before this plan, as far as they could be read."""
    return OffsetPlan(
        plan.group,
        tuple(
            OffsetChange(change.partition, _written(change), change.before.offset)
            for change in plan.to_write
            if change.before.problem is None
        ),
    )


def _written(change: OffsetChange) -> Standing:
    """Return the offset and version of a partition after its change."""
    if change.after is None:
        return Standing()
    version = 0 if change.before.version is None else change.before.version + 1
    return Standing(change.after, version, change.before.owner)


def _some(things: Sequence[object]) -> str:
    shown = ", ".join(map(str, things[:_SHOWN]))
    return shown if len(things) <= _SHOWN else f"{shown} and {len(things) - _SHOWN} more"
