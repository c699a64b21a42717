"""The streaming read of zk_offsets: snapshot after snapshot, to show lag over time.

ZooKeeper keeps no history. So a batch that Spark repeats after a failure is a new snapshot, and read_at shows its
time. The executors read a snapshot. With changesOnly the driver reads it, compares it with the last one and returns
the rows that differ in a column other than read_at; the first snapshot of a query is complete.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from spark_source.arrow import record_batch
from spark_source.batch import GroupsPartition, log_notes, plan_groups
from spark_source.errors import CheckpointError
from spark_source.offsets import RequestedColumn
from spark_source.options import ReadOptions
from spark_source.ranges import ALL_GROUPS
from spark_source.snapshot import as_batch, read_snapshot
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

_POLL_S = 0.1
"""Without a trigger interval Spark asks every 10 ms for new offsets."""

SnapshotOffset: TypeAlias = "dict[str, int]"
Seen: TypeAlias = "tuple[object, ...]"


class ChangedRows(InputPartition):
    """Rows that the driver read."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        super().__init__(None)
        self.batch = batch


class ZkOffsetsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A snapshot for each trigger, at least snapshotIntervalMs apart. Its offsets are times: {"at_ms": ...}.

    All methods run on the driver in one process, except read, which runs on the executors in a pickled copy.
    """

    def __init__(self, options: ReadOptions, columns: tuple[RequestedColumn, ...]) -> None:
        self._options = options
        self._columns = columns
        self._target_ms: int | None = None
        self._before: dict[tuple[str, str, int], Seen] = {}
        self._changed: tuple[SnapshotOffset, Sequence[InputPartition]] = ({}, [])
        """The end of the last batch of changes, and its tasks."""

    def initialOffset(self) -> SnapshotOffset:  # noqa: N802 - Spark's name
        """Return the offset before the first snapshot."""
        log_notes(self._options)
        return {"at_ms": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read only one snapshot, of this moment."""
        self._target_ms = _now_ms()

    def latestOffset(self, start: SnapshotOffset, limit: ReadLimit) -> SnapshotOffset:  # noqa: N802, ARG002
        """Return the present time, or start while the last snapshot is too young. Raises: CheckpointError."""
        last_ms = start.get("at_ms")
        if type(last_ms) is not int:
            raise CheckpointError(f"holds {start!r} where the time of a snapshot should be")
        if self._target_ms is not None:
            return {"at_ms": self._target_ms}
        now_ms = _now_ms()
        # a clock that was set back must not stop the snapshots
        if 0 <= now_ms - last_ms < self._options.snapshot_interval_ms:
            time.sleep(_POLL_S)
            return start
        return {"at_ms": now_ms}

    def partitions(self, start: SnapshotOffset, end: SnapshotOffset) -> Sequence[InputPartition]:
        """Return the tasks of one snapshot. Raises: ZooKeeperError, MissingGroupsError, MissingListenerError.

        Spark asks again for the same batch if the query uses the stream several times, for example in a union.
        With changesOnly each of these scans gets the same rows: a second reading would find no changes.
        """
        if start == end:
            return []
        if self._options.changes_only and self._changed[0] == end:
            return self._changed[1]
        plan = plan_groups(self._options, self._columns)
        if not self._options.changes_only:
            return plan
        self._changed = end, self._changes()
        return self._changed[1]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task. Runs on an executor."""
        if isinstance(partition, ChangedRows):
            yield partition.batch
            return
        assert isinstance(partition, GroupsPartition)
        for rows, facts in read_snapshot(self._options, self._columns, partition.groups):
            yield as_batch(self._columns, rows, facts)

    def _changes(self) -> list[InputPartition]:
        found: list[InputPartition] = []
        now: dict[tuple[str, str, int], Seen] = {}
        for rows, facts in read_snapshot(self._options, self._columns, ALL_GROUPS):
            values = [requested.column.values(rows, facts) for requested in self._columns]
            compared = [own for column, own in zip(self._columns, values, strict=True) if column.source != "read_at"]
            keys = [(row.group, row.topic, row.partition) for row in rows]
            seen = dict(zip(keys, zip(keys, *compared, strict=True), strict=True))
            changed = [number for number, key in enumerate(keys) if self._before.get(key) != seen[key]]
            if changed:
                batch = record_batch([requested.arrow for requested in self._columns], values)
                found.append(ChangedRows(batch.take(pa.array(changed))))
            now.update(seen)
        self._before = now
        return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
