"""A group's offsets in Kafka's `__consumer_offsets`: written with offsets.storage=kafka or by a newer consumer.

The operator's commands change offsets in ZooKeeper. But Kafka's own tools show the offset in Kafka if there is one,
and a reset in ZooKeeper alone has no effect on members that read the offset in Kafka, or the greater of both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import replace

from legacy_consumer.offsets import GroupOffsets
from legacy_consumer.offsets.retries import coordinator_answer
from legacy_consumer.operations.admin.groups import GroupDescription, PartitionLag
from zk_layout.model import TopicPartition
from zk_layout.paths import TopicPath
from zk_layout.store import ZkStore

_ANSWER_WITHIN_S = 5.0
_BACKOFF_S = 0.2


def has_coordinators(store: ZkStore) -> bool:
    """Return whether some group ever had a coordinator; the first request for one makes the brokers create its topic.

    A command that only reads asks this before: without that topic no group has members or offsets in Kafka.
    """
    return store.exists(TopicPath("__consumer_offsets").path) is not None


def read_offsets_in_kafka(
    store: ZkStore, open_offsets: Callable[[], GroupOffsets], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return {partition: offset} for the partitions with an offset of the group in Kafka.

    open_offsets: opens the client of the group's coordinator.
    Raises: BrokersUnavailableError if the coordinator does not answer in time; MissingListenerError.
    """
    if not partitions or not has_coordinators(store):
        return {}
    with closing(open_offsets()) as offsets:
        found = coordinator_answer(_BACKOFF_S, _ANSWER_WITHIN_S)(offsets.read, partitions, _ANSWER_WITHIN_S)
    return {tp: one.offset for tp, one in found.items() if one.offset is not None}


def seen_from_kafka(found: GroupDescription, in_kafka: Mapping[TopicPartition, int]) -> GroupDescription:
    """Return the group as Kafka's own tools show it: the offset in Kafka if there is one, otherwise ZooKeeper's."""
    return replace(found, partitions=tuple(_with_offset(row, in_kafka) for row in found.partitions))


def _with_offset(row: PartitionLag, in_kafka: Mapping[TopicPartition, int]) -> PartitionLag:
    # Kafka's tools do not tell an earlier topic of that name from the present one
    offset = in_kafka.get(TopicPartition(row.topic, row.partition), row.judgement.outlived)
    if offset is None:
        return row if row.committed is not None else replace(row, lag=None)
    return replace(row, committed=offset, lag=None if row.log_end is None else row.log_end - offset)
