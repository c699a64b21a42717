"""The batch read of zk_offsets: planned on the driver, carried out on the executors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from legacy_consumer.admin.group_list import list_groups
from spark_source.errors import MissingGroupsError
from spark_source.filters import Pruning, prune
from spark_source.offsets import BROKER_NEEDS, RequestedColumn, needed_facts
from spark_source.options import MissingGroups, ReadOptions
from spark_source.ranges import split_groups
from spark_source.snapshot import as_batch, read_snapshot
from spark_source.zookeeper import connected

logger = logging.getLogger(__name__)


class GroupsPartition(InputPartition):
    """The groups that one task reads."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        super().__init__(groups)
        self.groups = groups


class ZkOffsetsReader(DataSourceReader):
    """Reads what groups have committed and own.

    Made on the driver in a Python worker of its own, told the filters, asked for its partitions once, then pickled to
    the executors, where read runs once for each partition. So it holds options and nothing that is open.
    """

    def __init__(self, options: ReadOptions, columns: tuple[RequestedColumn, ...]) -> None:
        self._options = options
        self._columns = columns
        self._pruning = Pruning()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what the filters say of group, topic and partition; all are given back for Spark to evaluate."""
        self._pruning = prune(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """List the groups and divide them among tasks. Runs on the driver, once for each query.

        Raises: ZooKeeperError, MissingGroupsError, MissingListenerError, ConfigError; Spark makes them an
        AnalysisException.
        """
        log_notes(self._options)
        return [*plan_groups(self._options, self._columns, self._pruning)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the groups of one partition, a batch for some groups at a time. Runs on an executor.

        A group that is gone by now has no rows. Raises: ZooKeeperError, upon which Spark tries the task again.
        """
        assert isinstance(partition, GroupsPartition)
        for rows, facts in read_snapshot(self._options, self._columns, self._pruning, partition.groups):
            yield as_batch(self._columns, rows, facts)


def log_notes(options: ReadOptions) -> None:
    """Say what an operator should look at in the configuration."""
    for warning in options.cluster.warnings:
        logger.warning("%s", warning)
    for note in options.cluster.notes:
        logger.info("%s", note)


def plan_groups(
    options: ReadOptions, columns: Sequence[RequestedColumn], pruning: Pruning
) -> Sequence[GroupsPartition]:
    """List the groups and divide those that are wanted among tasks; never none, for Spark would make up one.

    Raises: ZooKeeperError, MissingGroupsError, MissingListenerError, ConfigError.
    """
    with connected(options.cluster) as store:
        groups = list_groups(store)
        if needed_facts(columns) & BROKER_NEEDS:
            from spark_source.log_ends import check_brokers

            check_brokers(options.cluster, store)
    missing = options.groups.without_match(groups)
    if missing and options.missing_groups is MissingGroups.FAIL:
        raise MissingGroupsError(missing)
    wanted = [group for group in groups if options.groups.matches(group) and pruning.wants_group(group)]
    logger.debug("%d of %d groups are read", len(wanted), len(groups))
    return [GroupsPartition(run) for run in split_groups(wanted, options.num_partitions) or [()]]
