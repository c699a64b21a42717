"""The batch read of zk_messages: the driver plans it, the executors carry it out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_source.broker_access import check_access
from spark_source.errors import DataLossError, Lost, LostLog, UndecidedError
from spark_source.messages.cluster import Cluster
from spark_source.messages.columns import WantedColumn
from spark_source.messages.lower_ends import look_until_reached
from spark_source.messages.offset_spec import OffsetKind
from spark_source.messages.options import MessageOptions
from spark_source.messages.planned_znodes import PlannedStore, Znodes, by_task, read_znodes
from spark_source.messages.positions import Logs, Offsets, resolve, to_ranges
from spark_source.messages.ranges import OffsetRange, split_ranges
from spark_source.messages.reader import open_reader
from spark_source.messages.shares import NO_END, open_ends, ranges_in
from spark_source.reused_worker import spare_modules_from_collection
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)

_NOTHING: Offsets = {}

Bounds: TypeAlias = "tuple[dict[TopicPartition, int], dict[TopicPartition, int], Logs]"
"""({partition: start}, {partition: end}, their logs)."""


class RangePartition(InputPartition):
    """The range that one task of a stream reads, and the brokers to read it from."""

    def __init__(self, wanted: OffsetRange, znodes: Znodes) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.znodes = znodes


class SharePartition(InputPartition):
    """The share of one task of a batch read: ranges of partitions, which no other task reads.

    Each time the task runs, it computes which part of the share the query wants. known_ends: the ends of the logs when
    the plan was made.
    """

    def __init__(self, shares: tuple[OffsetRange, ...], znodes: Znodes, known_ends: Offsets) -> None:
        super().__init__(shares)
        self.shares = shares
        self.znodes = znodes
        self.known_ends = known_ends


def plan_tasks(options: MessageOptions, ranges: Sequence[OffsetRange], znodes: Znodes) -> list[RangePartition]:
    """Return a task for each range, or for each piece of a large range."""
    pieces = _pieces(options, ranges)
    needed = by_task(znodes, ([piece.partition] for piece in pieces))
    return [RangePartition(piece, own) for piece, own in zip(pieces, needed, strict=True)]


def plan_shares(
    options: MessageOptions, ranges: Sequence[OffsetRange], znodes: Znodes, known_ends: Offsets
) -> list[SharePartition]:
    """Return tasks for the ranges that are also open to offsets that a later query may read.

    One task has all partitions with nothing to read now, unless start and end are fixed offsets. There is at least one
    task: Spark would make up one otherwise. known_ends: the end of each partition's log.
    """
    shares: list[tuple[OffsetRange, ...]] = [(each,) for each in open_ends(_pieces(options, ranges))]
    full = {each.partition for each in ranges}
    is_fixed = options.starting.is_fixed and options.ending.is_fixed
    empty = () if is_fixed else tuple(OffsetRange(tp, 0, NO_END) for tp in sorted(known_ends) if tp not in full)
    if empty or not shares:
        shares.append(empty)
    needed = by_task(znodes, ([each.partition for each in own] for own in shares))
    return [
        SharePartition(own, znodes, {each.partition: known_ends[each.partition] for each in own})
        for own, znodes in zip(shares, needed, strict=True)
    ]


def _pieces(options: MessageOptions, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    return split_ranges(ranges, min_partitions=options.min_partitions, max_records=options.max_records)


def find_bounds(
    options: MessageOptions,
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    known_ends: Offsets = _NOTHING,
    needed_to: Offsets = _NOTHING,
) -> Bounds:
    """Return the query's start and end in each partition at this moment, even if the logs do not hold them.

    If a log ends before the query's start or end, brokers are asked again for its end, for fetchTimeoutMs. known_ends:
    earlier ends of the logs; a query that reads to the ends must read at least up to these. needed_to: offsets after it
    are not waited for.
    Raises: MissingOffsetsError, NoMessageAtTimeError, NoSuchTopicError, UndecidedError, BrokersUnavailableError,
    ZooKeeperError.
    """

    def look() -> tuple[Bounds, Offsets, Offsets]:
        logs = cluster.logs(partitions)
        known = Logs(logs.earliest, {tp: max(end, known_ends.get(tp, end)) for tp, end in logs.latest.items()})
        starts, ends = (
            resolve(option, spec, partitions, known, cluster.stand(spec, partitions, is_end=is_end))
            for option, spec, is_end in (
                ("startingOffsets", options.starting, False),
                ("endingOffsets", options.ending, True),
            )
        )
        reached = {tp: max(starts[tp], min(end, needed_to.get(tp, end))) for tp, end in ends.items()}
        logs = Logs(logs.earliest, {**logs.latest, **cluster.undecided(starts, logs.latest)})
        return (starts, ends, logs), logs.latest, reached

    bounds, lowest = look_until_reached(look, options.fetch_timeout_ms / 1000, cluster.clock)
    undecided = cluster.undecided({tp: bounds[1][tp] for tp in lowest}, bounds[2].latest)
    if undecided:
        raise UndecidedError(tuple((tp, end, bounds[2].latest[tp]) for tp, end in sorted(undecided.items())))
    return bounds


def report_loss(options: MessageOptions, lost: Sequence[Lost | LostLog]) -> None:
    """Report lost ranges. Raises: DataLossError unless failOnDataLoss=false, which logs warnings instead."""
    if lost and options.fail_on_data_loss:
        raise DataLossError(tuple(lost))
    for each in lost:
        logger.warning("lost: %s", each)


def log_notes(options: MessageOptions) -> None:
    """Log the warnings and notes of the configuration."""
    for warning in options.config.warnings:
        logger.warning("%s", warning)
    for note in options.config.notes:
        logger.info("%s", note)


class ZkMessagesReader(DataSourceReader):
    """Reads the messages between two offsets of each partition.

    Spark makes it on the driver, in a Python worker of its own, asks for its partitions, and pickles it to the
    executors, where read runs for each partition. So it holds options and nothing that is open. Executors connect only
    to brokers, whose addresses are in the plan. They ask ZooKeeper only for committed offsets.

    Spark does this once for each load(), and keeps the result for all queries on that DataFrame or view. So read finds
    the start and the end of a query. The plan finds only the partitions.
    """

    def __init__(self, options: MessageOptions, columns: tuple[WantedColumn, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Find the partitions, and divide them among tasks by what the query would read of them now.

        Runs on the driver, once for each load(). Raises: ZooKeeperError, NoSuchTopicError, BrokersUnavailableError,
        BrokerRefusedError, MissingListenerError, DataLossError, ConfigError; Spark turns them into an
        AnalysisException.
        """
        options = self._options
        log_notes(options)
        with closing(Cluster(options)) as cluster:
            cluster.open()
            check_access(options.config, cluster.brokers())
            partitions = cluster.partitions()
            starts, ends, logs = find_bounds(options, cluster, partitions)
            ranges, lost = to_ranges(starts, ends, logs)
            report_loss(options, lost)
            znodes = read_znodes(cluster.store, partitions)
        tasks = plan_shares(options, ranges, znodes, logs.latest)
        if not ranges:
            logger.warning("nothing is to be read now, in none of %d partitions", len(partitions))
        logger.debug("%d partitions are read in %d tasks", len(ranges), len(tasks))
        return [*tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the task's share of the present messages. Runs on an executor.

        Raises: RangeReadError and others, and the errors of partitions(); Spark then retries the task.
        """
        assert isinstance(partition, SharePartition)
        for wanted in self._ranges_now(partition):
            yield from open_reader(self._options, partition.znodes, wanted, self._columns)
        spare_modules_from_collection()

    def _ranges_now(self, partition: SharePartition) -> list[OffsetRange]:
        options = self._options
        shares = [each.partition for each in partition.shares]
        if not shares:
            return []
        own = replace(options, starting=options.starting.only(shares), ending=options.ending.only(shares))
        asks_zookeeper = OffsetKind.COMMITTED in {options.starting.kind, options.ending.kind}
        store = None if asks_zookeeper else PlannedStore(partition.znodes, shares).as_store()
        with closing(Cluster(own, store, answer_s=options.fetch_timeout_ms / 1000)) as cluster:
            if asks_zookeeper:
                cluster.open()
            needed_to = {each.partition: each.end for each in partition.shares}
            bounds = find_bounds(own, cluster, shares, partition.known_ends, needed_to)
        found = [ranges_in(share, own.starting, *bounds) for share in partition.shares]
        report_loss(options, [each for _, lost in found for each in lost])
        return [each for ranges, _ in found for each in ranges]


def read_range(
    options: MessageOptions, columns: tuple[WantedColumn, ...], partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one task of a stream."""
    assert isinstance(partition, RangePartition)
    yield from open_reader(options, partition.znodes, partition.wanted, columns, must_reach_end=True)
    spare_modules_from_collection()
