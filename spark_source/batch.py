"""The batch read of zk_offsets: the driver plans it, the executors carry it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_source.offsets import BROKER_NEEDS, RequestedColumn, needed_facts
from spark_source.options import ReadOptions
from spark_source.ranges import GroupRange, split_groups
from spark_source.reused_worker import spare_modules_from_collection
from spark_source.snapshot import as_batch, read_snapshot, wanted_groups
from spark_source.zookeeper import connected
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)


class GroupsPartition(InputPartition):
    """The groups that one task reads."""

    def __init__(self, groups: GroupRange) -> None:
        super().__init__(groups)
        self.groups = groups


class ZkOffsetsReader(DataSourceReader):
    """Reads the committed offsets and owners of groups.

    Spark makes it on the driver, in a Python worker of its own, asks for its partitions, and pickles it to the
    executors, where read runs for each partition. So it holds options and nothing that is open.

    Spark does this once for each load(), and keeps the result for all queries on that DataFrame or view. So read must
    find everything that a later query is to see anew. For the same reason there is no pushFilters: the filters of one
    query would stay in force for the next.
    """

    def __init__(self, options: ReadOptions, columns: tuple[RequestedColumn, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the groups among tasks by name. Runs on the driver, once for each load().

        Raises: ZooKeeperError, MissingGroupsError, MissingListenerError, ConfigError; Spark turns them into an
        AnalysisException.
        """
        log_notes(self._options)
        return [*plan_groups(self._options, self._columns)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the groups of one partition; each batch has some of the groups. Runs on an executor.

        Raises: ZooKeeperError, after which Spark retries the task; MissingGroupsError.
        """
        assert isinstance(partition, GroupsPartition)
        for rows, facts in read_snapshot(self._options, self._columns, partition.groups):
            yield as_batch(self._columns, rows, facts)
        spare_modules_from_collection()


def log_notes(options: ReadOptions) -> None:
    """Log the warnings and notes of the configuration."""
    for warning in options.cluster.warnings:
        logger.warning("%s", warning)
    for note in options.cluster.notes:
        logger.info("%s", note)


def plan_groups(options: ReadOptions, columns: Sequence[RequestedColumn]) -> Sequence[GroupsPartition]:
    """Divide the present groups among tasks by name; at least one task.

    Raises: ZooKeeperError, MissingGroupsError, MissingListenerError, ConfigError.
    """
    with connected(options.cluster) as store:
        groups = wanted_groups(options, store)
        if needed_facts(columns) & BROKER_NEEDS:
            from spark_source.log_ends import check_brokers

            check_brokers(options.cluster, store)
    ranges = split_groups(groups, options.num_partitions)
    logger.debug("%d groups are read in %d tasks", len(groups), len(ranges))
    return [GroupsPartition(each) for each in ranges]
