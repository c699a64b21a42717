"""Offsets in Kafka and in ZooKeeper: offsets.storage=kafka with dual.commit.enabled, for the move between them.

The greater of both counts, as for the JVM. So a rewind in only one of them is silently undone: an operator must set
both, or better stop the group first.

The JVM commits to Kafka first, then commits to ZooKeeper the offsets that Kafka accepted. Here ZooKeeper comes first,
and Kafka gets only the offsets that ZooKeeper accepted: the multi there is fenced, so a member that lost its session or
a partition moves no offset in either store. If no coordinator answers, at least ZooKeeper has the offset, and every
member that reads both sees it. Between the two writes ZooKeeper is ahead; a member that reads Kafka alone then repeats
messages, and loses none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from legacy_consumer.offsets.judgement import written_in_kafka
from legacy_consumer.offsets.kafka import UNTOLD, KafkaOffset, KafkaOffsetStore, committed_in_kafka
from legacy_consumer.offsets.progress import Commit, Committed
from legacy_consumer.offsets.store import CommitResult
from legacy_consumer.offsets.zookeeper import ZooKeeperOffsetStore
from zk_layout.errors import SessionExpiredError
from zk_layout.model import TopicPartition


class DualOffsetStore:
    """Implements OffsetStore over both."""

    def __init__(self, zookeeper: ZooKeeperOffsetStore, kafka: KafkaOffsetStore) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._behind: set[TopicPartition] = set()
        """Partitions whose greater offset only Kafka has: the next commit writes it to ZooKeeper, as the JVM does."""

    def wants_unchanged(self, _tp: TopicPartition, _seen: Committed) -> bool:
        """Return True: in Kafka offsets would expire. The commit does not write unchanged znodes."""
        return True

    def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the greater of both offsets, with the znode's version. Raises: GroupOffsetsUnavailableError."""
        # in this order: if an operator writes both in between, the znode's version is the old one, and no commit passes
        in_zookeeper = self._zookeeper.read(partitions)
        in_kafka = self._kafka.fetch(partitions)
        found = {tp: greater(in_zookeeper[tp], in_kafka.get(tp, UNTOLD)) for tp in partitions}
        self._behind.difference_update(partitions)
        self._behind.update(tp for tp, seen in found.items() if seen.offset != in_zookeeper[tp].offset)
        return found

    def commit(
        self,
        commits: Mapping[TopicPartition, Commit],
        *,
        consumer_id: str | None,
        session_id: int | None,
        timeout_s: float | None = None,
        unfenced: bool = False,
    ) -> CommitResult:
        """Write changed offsets to ZooKeeper, and to Kafka all offsets that ZooKeeper did not refuse."""
        same = {
            tp
            for tp, commit in commits.items()
            if commit.offset == commit.seen.offset
            and tp not in self._behind
            and not self._zookeeper.wants_unchanged(tp, commit.seen)
        }
        result = self._zookeeper.commit(
            commits, consumer_id=consumer_id, session_id=session_id, unfenced=unfenced, unchanged=same
        )
        self._behind.difference_update(result.committed)
        passed = set(result.committed)
        if isinstance(result.failure, SessionExpiredError):
            # the session ended during the commit: the next owner may have begun already, from the offsets in ZooKeeper
            passed = set()
        in_kafka = CommitResult()
        going = {tp: commits[tp] for tp in sorted(passed)}
        self._kafka.put(going, session_id=session_id, timeout_s=timeout_s, result=in_kafka)
        result.refused.update(in_kafka.refused)
        result.failure = result.failure or in_kafka.failure
        return result

    def wrote(self, tp: TopicPartition, stored: Committed) -> bool:
        """As OffsetStore, for either store: read returns the greater offset."""
        return self._zookeeper.wrote(tp, stored) or self._kafka.wrote(tp, stored)

    def close(self) -> None:
        """Close both."""
        self._kafka.close()
        self._zookeeper.close()


def greater(in_zookeeper: Committed, in_kafka: KafkaOffset) -> Committed:
    """Merge the offsets of both stores. An offset in Kafka without a topic id is judged like its znode.

    A JVM member writes both and marks neither: if the znode is of an earlier topic, so is an offset in Kafka that
    is not greater.
    """
    kafka = committed_in_kafka(in_kafka, in_zookeeper.topic)
    problem = in_zookeeper.problem or kafka.problem
    if problem is not None:
        return replace(in_zookeeper, offset=None, outlived=None, problem=problem)
    offset, outlived = kafka.offset, kafka.outlived
    written = written_in_kafka(in_kafka.offset, in_kafka.metadata)
    unmarked = written.zxid is None and written.topic_id is None
    if offset is not None and unmarked and in_zookeeper.outlived is not None and offset <= in_zookeeper.outlived:
        offset, outlived = None, offset
    found = max((o for o in (in_zookeeper.offset, offset) if o is not None), default=None)
    old = max((o for o in (in_zookeeper.outlived, outlived) if o is not None), default=None)
    outlived = old if found is None else None
    # no transaction of ZooKeeper wrote an offset that only Kafka has
    transaction = in_zookeeper.transaction if found == in_zookeeper.offset else 0
    return replace(in_zookeeper, offset=found, outlived=outlived, transaction=transaction)
