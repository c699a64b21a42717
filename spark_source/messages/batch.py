"""The batch read of zk_messages: planned on the driver, carried out on the executors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_source.broker_access import check_access
from spark_source.errors import DataLossError, Lost, LostLog
from spark_source.messages.cluster import Cluster
from spark_source.messages.columns import WantedColumn
from spark_source.messages.options import MessageOptions
from spark_source.messages.planned_znodes import Znodes, by_partition, read_znodes
from spark_source.messages.positions import resolve, to_ranges
from spark_source.messages.ranges import OffsetRange, split_ranges
from spark_source.messages.reader import open_reader

logger = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """What one task reads, and from whom; None = nothing at all."""

    def __init__(self, wanted: OffsetRange | None, znodes: Znodes | None = None) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.znodes = znodes or {}


def plan_tasks(options: MessageOptions, ranges: Sequence[OffsetRange], znodes: Znodes) -> list[RangePartition]:
    """A task for each range or piece of one."""
    pieces = split_ranges(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
    needed = by_partition(znodes, (piece.partition for piece in pieces))
    return [RangePartition(piece, own) for piece, own in zip(pieces, needed, strict=True)]


def report_loss(options: MessageOptions, lost: Sequence[Lost | LostLog]) -> None:
    """Raises: DataLossError unless failOnDataLoss=false, which makes warnings of it."""
    if lost and options.fail_on_data_loss:
        raise DataLossError(tuple(lost))
    for each in lost:
        logger.warning("lost: %s", each)


def log_notes(options: MessageOptions) -> None:
    """Say what an operator should look at in the configuration."""
    for warning in options.config.warnings:
        logger.warning("%s", warning)
    for note in options.config.notes:
        logger.info("%s", note)


class ZkMessagesReader(DataSourceReader):
    """Reads the messages between two offsets of each partition.

    Made on the driver in a Python worker of its own, asked for its partitions once, then pickled to the executors,
    where read runs once for each partition. So it holds options and nothing that is open. Executors speak to the
    brokers alone: who these are the plan tells them, ZooKeeper is not asked again.
    """

    def __init__(self, options: MessageOptions, columns: tuple[WantedColumn, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Find out where to begin and to end, and divide it among tasks. Runs on the driver, once for each query.

        Raises: ZooKeeperError, NoSuchTopicError, BrokersUnavailableError, BrokerRefusedError, MissingListenerError,
        DataLossError, ConfigError; Spark makes them an AnalysisException.
        """
        options = self._options
        log_notes(options)
        with closing(Cluster(options)) as cluster:
            cluster.open()
            check_access(options.config, cluster.brokers())
            partitions = cluster.partitions()
            logs = cluster.logs(partitions)
            starts, ends = (
                resolve(option, spec, partitions, logs, cluster.stand(spec, partitions))
                for option, spec in (("startingOffsets", options.starting), ("endingOffsets", options.ending))
            )
            ranges, lost = to_ranges(starts, ends, logs)
            report_loss(options, lost)
            znodes = read_znodes(cluster.store, [each.partition for each in ranges])
        tasks = plan_tasks(options, ranges, znodes)
        logger.debug("%d partitions are read in %d tasks", len(ranges), len(tasks))
        # without any partition Spark would call read once with one of its own
        return [*tasks] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range. Runs on an executor. Raises: RangeReadError and the like; Spark then tries the task again."""
        return read_range(self._options, self._columns, partition)


def read_range(
    options: MessageOptions, columns: tuple[WantedColumn, ...], partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The batches of one task."""
    assert isinstance(partition, RangePartition)
    if partition.wanted is not None:
        yield from open_reader(options, partition.znodes, partition.wanted, columns)
