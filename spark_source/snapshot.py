"""Reads groups as rows, with the facts for their columns: the work of a task of zk_offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa

from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.admin.group_members import read_members
from legacy_consumer.operations.admin.group_table import GroupPartition, read_group_partitions
from spark_source.arrow import record_batch
from spark_source.errors import MissingGroupsError, UnreadableZnodeError
from spark_source.offsets import BROKER_NEEDS, Facts, Need, RequestedColumn, needed_facts
from spark_source.options import MissingGroups, ReadMode, ReadOptions
from spark_source.ranges import GROUPS_PER_TASK, GroupRange
from spark_source.zookeeper import connected
from zk_layout.codecs import decode_partition_state
from zk_layout.errors import MalformedZnodeError
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerRegistration, PartitionState, TopicPartition
from zk_layout.paths import PartitionStatePath
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

Rows = Sequence[GroupPartition]


def wanted_groups(options: ReadOptions, store: ZkStore) -> list[str]:
    """Return the existing groups that the options choose, sorted.

    Raises: ZooKeeperError; MissingGroupsError with missingGroups=fail.
    """
    groups = list_groups(store)
    missing = options.groups.without_match(groups)
    if missing and options.missing_groups is MissingGroups.FAIL:
        raise MissingGroupsError(missing)
    return [group for group in groups if options.groups.matches(group)]


def read_snapshot(
    options: ReadOptions, columns: Sequence[RequestedColumn], among: GroupRange
) -> Iterator[tuple[Rows, Facts]]:
    """Yield the rows of the groups of this range, some groups at a time; connected from the first to the last.

    Raises: ZooKeeperError; MissingGroupsError with missingGroups=fail; UnreadableZnodeError with mode=FAILFAST.
    """
    needed = needed_facts(columns)
    with ExitStack() as open_until_read:
        store = open_until_read.enter_context(connected(options.cluster))
        groups = [group for group in wanted_groups(options, store) if among.holds(group)]
        if not groups:
            return
        ask_brokers: Callable[[Collection[TopicPartition]], tuple[dict[TopicPartition, int], dict[TopicPartition, int]]]
        ask_brokers = _ask_nobody
        if needed & BROKER_NEEDS:
            from spark_source.log_ends import LogEndsReader  # librdkafka takes a moment to load

            logs = LogEndsReader(options.cluster, store, needed)
            open_until_read.callback(logs.close)
            ask_brokers = logs.read
        for start in range(0, len(groups), GROUPS_PER_TASK):
            some = groups[start : start + GROUPS_PER_TASK]
            rows = read_group_partitions(store, some, topics=options.topics.matches)
            partitions = {TopicPartition(row.topic, row.partition) for row in rows}
            members = _read_subscriptions(store, some) if Need.MEMBERS in needed else {}
            states = _read_states(store, partitions) if Need.STATES in needed else {}
            # log ends are read after the offsets: in the other order lag could be below 0
            starts, ends = ask_brokers(partitions)
            if options.mode is ReadMode.FAILFAST:
                _refuse_errors(rows)
            yield rows, Facts(starts, ends, members, states, time.time_ns() // 1_000_000)


def as_batch(columns: Sequence[RequestedColumn], rows: Rows, facts: Facts) -> pa.RecordBatch:
    """Return the columns of these rows."""
    return record_batch(
        [requested.arrow for requested in columns], [requested.column.values(rows, facts) for requested in columns]
    )


def _ask_nobody(_: Collection[TopicPartition]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    return {}, {}


def _refuse_errors(rows: Rows) -> None:
    for row in rows:
        if row.error is not None:
            raise UnreadableZnodeError(row.error)


def _read_subscriptions(store: ZkStore, groups: Sequence[str]) -> dict[tuple[str, str], str | None]:
    return {
        (member.group, member.consumer_id): None if member.registration is None else _as_text(member.registration)
        for member in read_members(store, groups)
    }


def _as_text(registration: ConsumerRegistration) -> str:
    wanted = ", ".join(f"{topic} ({streams})" for topic, streams in registration.subscription)
    return f"{registration.pattern.value}: {wanted}"


def _read_states(store: ZkStore, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionState]:
    wanted = sorted(partitions)
    paths = [PartitionStatePath(*tp).path for tp in wanted]
    found: dict[TopicPartition, PartitionState] = {}
    for tp, path, znode in zip(wanted, paths, store.get_data_many(paths), strict=True):
        if znode is None:
            continue
        try:
            found[tp] = decode_partition_state(path, znode.data)
        except MalformedZnodeError as error:
            logger.warning("the leader of %s is not known: %s", tp, error)
    return found
