"""The batch read of zk_offsets: planned on the driver, carried out on the executors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from legacy_consumer.admin.group_table import list_groups, read_group_partitions
from spark_source.arrow import record_batch
from spark_source.errors import MissingGroupsError
from spark_source.filters import Pruning, prune
from spark_source.offsets import LogEnds, RequestedColumn, needed_log_ends
from spark_source.options import MissingGroups, ReadOptions
from spark_source.ranges import GROUPS_PER_TASK, split_groups
from spark_source.zookeeper import connected
from zk_layout.model import TopicPartition

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
        options = self._options
        for warning in options.cluster.warnings:
            logger.warning("%s", warning)
        for note in options.cluster.notes:
            logger.info("%s", note)
        with connected(options.cluster) as store:
            groups = list_groups(store)
            if needed_log_ends(self._columns):
                from spark_source.log_ends import check_brokers

                check_brokers(options.cluster, store)
        missing = options.groups.without_match(groups)
        if missing and options.missing_groups is MissingGroups.FAIL:
            raise MissingGroupsError(missing)
        wanted = [group for group in groups if options.groups.matches(group) and self._pruning.wants_group(group)]
        logger.debug("%d of %d groups are read", len(wanted), len(groups))
        # without any partition Spark would call read once with one of its own
        return [GroupsPartition(run) for run in split_groups(wanted, options.num_partitions) or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the groups of one partition, a batch for some groups at a time. Runs on an executor.

        A group that is gone by now has no rows. Raises: ZooKeeperError, upon which Spark tries the task again.
        """
        assert isinstance(partition, GroupsPartition)
        needed = needed_log_ends(self._columns)
        with ExitStack() as open_until_read:
            if not partition.groups:
                return
            store = open_until_read.enter_context(connected(self._options.cluster))
            logs = None
            if needed:
                from spark_source.log_ends import LogEndsReader  # librdkafka takes a moment to load

                logs = LogEndsReader(self._options.cluster, store, needed)
                open_until_read.callback(logs.close)
            for start in range(0, len(partition.groups), GROUPS_PER_TASK):
                rows = read_group_partitions(
                    store,
                    partition.groups[start : start + GROUPS_PER_TASK],
                    topics=self._wants_topic,
                    partitions=self._pruning.wants_partition,
                )
                # the ends of the logs come after the offsets: the other way round lag could fall below 0
                ends = logs.read({TopicPartition(row.topic, row.partition) for row in rows}) if logs else LogEnds()
                yield record_batch(
                    [requested.arrow for requested in self._columns],
                    [requested.column.values(rows, ends) for requested in self._columns],
                )

    def _wants_topic(self, topic: str) -> bool:
        return self._options.topics.matches(topic) and self._pruning.wants_topic(topic)
