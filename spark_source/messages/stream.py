"""The streaming read of zk_messages, with the methods that Spark calls.

Spark runs one Python worker on the driver while a query runs. In it, one reader plans batch after batch and keeps its
connections. Spark makes another reader only to pickle it to the executors, which read as in a batch query. See
stream_driver for what is planned and committed, and when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spark_source.messages.batch import plan_tasks, read_range
from spark_source.messages.columns import WantedColumn
from spark_source.messages.options import MessageOptions
from spark_source.messages.stream_driver import StreamDriver
from spark_source.messages.stream_offsets import NOT_BEGUN, ByPartition, JsonOffsets, by_partition, from_json, to_json
from spark_source.messages.worker_exit import be_undisturbed, exit_in_order
from zk_layout.errors import ConfigError

_ALL = 2**63 - 1
"""No limit. Spark passes ReadAllAvailable, which this reader never returns, for Trigger.Once."""


class ZkMessagesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads messages batch by batch, from the group's offsets or the checkpoint's.

    Its methods run on the driver in one process, except read, which runs on the executors in a pickled copy.
    """

    def __init__(self, options: MessageOptions, columns: tuple[WantedColumn, ...]) -> None:
        self._options = options
        self._columns = columns
        self._driver: StreamDriver | None = None

    def _plan(self) -> StreamDriver:
        if self._driver is None:
            exit_in_order(self.stop)
            self._driver = StreamDriver(self._options)
            self._driver.open()
        return self._driver

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Return the offset before the first batch. It names no position: Spark asks again to repeat the batch.

        The end of the first batch says where that batch begins.
        """
        return to_json(NOT_BEGUN)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that maxOffsetsPerTrigger sets."""
        return ReadMaxRows(self._options.max_offsets_per_trigger or _ALL)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on, read no later messages."""
        self._plan().stop_at_present()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        """Return the end of the next batch. All before start was processed, so it is committed.

        Raises: as planning a batch read; LiveGroupError, OwnershipLostError, CheckpointError; ConfigError for
        Trigger.Once, which ends the query without saying whether its batch was processed.
        """
        if isinstance(limit, ReadAllAvailable) and self._options.commits:
            raise ConfigError(
                "commitOffsets",
                "true",
                "does not go with Trigger.Once, which would leave the group one run behind for ever: use "
                "Trigger.AvailableNow, or set commitOffsets=false",
            )
        most = limit.max_rows if isinstance(limit, ReadMaxRows) and limit.max_rows < _ALL else None
        return to_json(self._plan().advance(from_json(start), most))

    def reportLatestOffset(self) -> ByPartition:  # noqa: N802
        """Return the ends of the logs when the last batch was planned, for the progress of the query."""
        return by_partition(self._plan().log_ends())

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """Return the tasks of a batch. Raises: DataLossError, CheckpointError, ZooKeeperError."""
        if start == end:
            return []
        ranges, znodes = self._plan().tasks(from_json(start), from_json(end))
        return plan_tasks(self._options, ranges, znodes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range. Runs on an executor."""
        return read_range(self._options, self._columns, partition)

    def stop(self) -> None:
        """Release the claimed partitions, and close the connections; twice is harmless."""
        be_undisturbed()
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()
