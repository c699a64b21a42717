"""The streaming read of zk_messages, as Spark calls it.

Spark runs one Python worker on the driver for as long as a query runs, in which a reader plans batch after batch; it
keeps its connections. Another one is made only to be pickled to the executors, which read as in a batch query. What is
planned and committed, and when, see stream_driver.
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
"""As a limit: no limit of ours. ReadAllAvailable, where we never ask for it, is what Spark says for Trigger.Once."""


class ZkMessagesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads messages batch by batch, from where the group stands or the checkpoint says.

    Its methods run on the driver in one process, read on the executors from a pickled copy that never planned anything.
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
        """Before the first batch, whose end says where it begins: Spark asks for this anew when it repeats it."""
        return to_json(NOT_BEGUN)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that maxOffsetsPerTrigger sets."""
        return ReadMaxRows(self._options.max_offsets_per_trigger or _ALL)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on nothing that comes later is read."""
        self._plan().stop_at_present()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        """Return where the next batch ends. All before start was processed, so it is committed.

        Raises: what planning a batch read does; LiveGroupError, OwnershipLostError, CheckpointError; ConfigError for
        Trigger.Once, which ends the query without a word on whether its batch was processed.
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
        """For the progress of the query: where the logs ended when the last batch was planned."""
        return by_partition(self._plan().log_ends())

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """The tasks of a batch. Raises: DataLossError, CheckpointError, ZooKeeperError."""
        if start == end:
            return []
        ranges, znodes = self._plan().tasks(from_json(start), from_json(end))
        return plan_tasks(self._options, ranges, znodes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range. Runs on an executor."""
        return read_range(self._options, self._columns, partition)

    def stop(self) -> None:
        """Release what was claimed, and free the connections; twice is harmless."""
        be_undisturbed()
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()
