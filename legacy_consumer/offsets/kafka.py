"""Offsets in Kafka, in the group coordinator's __consumer_offsets: offsets.storage=kafka.

One request commits every partition that is owned, unchanged ones too, as the JVM does: a broker forgets an offset that
was not committed for offsets.retention.minutes (a day before Kafka 2.0), because for the broker this group has no
members, which would keep its offsets. A position that is not known yet is not sent; the JVM sends -1.

Protection and its limits: an offset in Kafka has no version, and the coordinator accepts any commit without a
generation. So before a commit one multi in ZooKeeper checks that the session, the registration and the owner znodes
exist. The offsets in Kafka are read and compared with the last seen ones; an offset of another client is reported, as
for ZooKeeper, unless another session owns the partition by now: then it is not committed. Nothing is written once the
store has learned that the session is over. Between these checks and the write another client may commit, or a session
may expire unnoticed; then the last one wins. If that matters, keep dual.commit.enabled: then the fenced offset znode is
written too, and the next owner starts at the greater of both.

Reading before writing serves another purpose too: it finds the coordinator. librdkafka queues a commit while it knows
none, for session.timeout.ms, carries it out when one comes, and closes no consumer meanwhile. So that time is set to
the channel's own, and the next commit waits for the end of a handle whose commit had no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tenacity import Retrying

from legacy_consumer.errors import (
    BrokersUnavailableError,
    CommitFailedError,
    GroupOffsetsUnavailableError,
    OffsetError,
    OffsetsNotCommittedError,
)
from legacy_consumer.offsets.judgement import TopicOrigin, judge, metadata_of, written_in_kafka
from legacy_consumer.offsets.owner_fence import OwnerFence
from legacy_consumer.offsets.progress import Commit, Committed
from legacy_consumer.offsets.store import CommitResult
from legacy_consumer.offsets.topic_lives import read_topic_origins
from zk_layout.errors import LegacyConsumerError, SessionExpiredError
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class KafkaOffset:
    """An offset as the coordinator keeps it; offset None = there is none."""

    offset: int | None
    metadata: str = ""


_UNTOLD = "the group coordinator does not tell this partition's offset: allow this client's principal Read on the topic"
UNTOLD = KafkaOffset(None, _UNTOLD)
"""Stands for an offset that the coordinator does not return."""


class GroupOffsets(Protocol):
    """The connection to one group's coordinator. Any thread may call; a call waits for the one before it."""

    def read(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, KafkaOffset]:
        """Read the committed offsets, without partitions that the coordinator refuses.

        Raises: BrokersUnavailableError if no coordinator answers, or it is not ready.
        """
        ...

    def write(self, offsets: Mapping[TopicPartition, KafkaOffset], timeout_s: float) -> str | None:
        """Commit in one request; return None, or the reason why the coordinator refused some partitions.

        No write begins while an earlier one, whose answer did not come in time, may still be carried out.
        Raises: BrokersUnavailableError without an answer in time.
        """
        ...

    def close(self) -> None:
        """Free the connections; twice is harmless."""
        ...


class KafkaOffsetStore:
    """Implements OffsetStore.

    timeout_s: bounds each call that asks the coordinator, offsets.channel.socket.timeout.ms.
    asking: returns the policy for repeated requests to the coordinator, within the given number of seconds.
    """

    def __init__(
        self,
        store: ZkStore,
        group: str,
        channel: GroupOffsets,
        *,
        timeout_s: float,
        asking: Callable[[float], Retrying],
    ) -> None:
        self._store = store
        self._group = group
        self._channel = channel
        self._fence = OwnerFence(store, group)
        self._timeout_s = timeout_s
        self._asking = asking
        self._unanswered: dict[TopicPartition, set[KafkaOffset]] = {}
        self._written: dict[TopicPartition, KafkaOffset] = {}
        """The offsets of the last answered commit; an exception may interrupt the caller before it notes them."""

    def wants_unchanged(self, _tp: TopicPartition, _seen: Committed) -> bool:
        """Return True: brokers delete offsets that are not committed again."""
        return True

    def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the committed offsets. Raises: GroupOffsetsUnavailableError when timeout_s is over."""
        origins = read_topic_origins(self._store, (tp.topic for tp in partitions))
        found = self.fetch(partitions)
        return {tp: committed_in_kafka(found.get(tp, UNTOLD), origins.get(tp.topic)) for tp in partitions}

    def commit(
        self,
        commits: Mapping[TopicPartition, Commit],
        *,
        consumer_id: str | None,
        session_id: int | None,
        timeout_s: float | None = None,
        unfenced: bool = False,
    ) -> CommitResult:
        """Commit the owned partitions whose offsets no other client wrote."""
        result = CommitResult()
        todo = dict(commits)
        try:
            if consumer_id is not None:
                result = self._fence.find_unowned(todo, consumer_id=consumer_id, session_id=session_id)
            elif not unfenced:
                result.unowned = todo.keys() - self._fence.without_owner(todo)
        except Exception as error:  # noqa: BLE001 - as of the ZooKeeper store
            result.failure = error
            return result
        _remove(todo, result.unowned | result.refused.keys())
        found = self._look(todo, timeout_s, result)
        for tp, now in found.items():
            seen = todo[tp].seen
            expected = {seen.offset, seen.outlived, todo[tp].offset}
            # an expired offset is no reset, and one of our own may have been written without an answer
            own = {*self._unanswered.get(tp, ()), self._written.get(tp)}
            if now.offset is not None and now.offset not in expected and now not in own:
                self._written.pop(tp, None)
                result.foreign[tp] = committed_in_kafka(now, seen.topic)
        if result.foreign and consumer_id is not None:
            try:
                fenced = self._fence.find_stolen(result.foreign, session_id)
            except Exception as error:  # noqa: BLE001 - as of the ZooKeeper store
                result.foreign.clear()
                result.failure = error
                return result
            result.unowned |= fenced.unowned
            result.refused.update(fenced.refused)
            _remove(result.foreign, fenced.unowned | fenced.refused.keys())
            _remove(found, fenced.unowned | fenced.refused.keys())
        self._put({tp: todo[tp] for tp in found if tp not in result.foreign}, session_id, timeout_s, result)
        return result

    def put(
        self,
        commits: Mapping[TopicPartition, Commit],
        *,
        session_id: int | None,
        timeout_s: float | None,
        result: CommitResult,
    ) -> None:
        """Write these offsets if the session lives; put the failure and the written offsets into result."""
        found = self._look(commits, timeout_s, result)
        self._put({tp: commits[tp] for tp in found}, session_id, timeout_s, result)

    def _look(
        self, commits: Mapping[TopicPartition, Commit], timeout_s: float | None, result: CommitResult
    ) -> dict[TopicPartition, KafkaOffset]:
        """Read the offsets that may be written; result gets the reasons for the others."""
        try:
            found = self.fetch(commits, timeout_s)
        except Exception as error:  # noqa: BLE001
            result.failure = self._failure(commits, error)
            return {}
        result.refused.update((tp, OffsetError(_UNTOLD)) for tp in commits if tp not in found)
        return found

    def fetch(
        self, partitions: Iterable[TopicPartition], within_s: float | None = None
    ) -> dict[TopicPartition, KafkaOffset]:
        """Ask the coordinator, again while it is not ready. Raises: GroupOffsetsUnavailableError."""
        within_s = self._timeout_s if within_s is None else min(within_s, self._timeout_s)
        wanted = list(partitions)
        if not wanted:
            return {}
        try:
            return self._asking(within_s)(self._channel.read, wanted, within_s)
        except BrokersUnavailableError as error:
            raise GroupOffsetsUnavailableError(self._group, error.reason) from error

    def _failure(self, partitions: Iterable[TopicPartition], error: Exception) -> Exception:
        """Return the error for the result, retriable only if waiting may help."""
        if not isinstance(error, LegacyConsumerError):
            return error
        cause = error.__cause__ if isinstance(error, GroupOffsetsUnavailableError) else error
        if isinstance(cause, LegacyConsumerError) and not cause.retriable:
            return OffsetsNotCommittedError(self._group, dict.fromkeys(sorted(partitions), str(cause)))
        return CommitFailedError(self._group, tuple(sorted(partitions)), str(cause))

    def wrote(self, tp: TopicPartition, stored: Committed) -> bool:
        """As OffsetStore; compares the offset alone, because Kafka's offsets have no versions."""
        return any(one.offset == stored.offset for one in self._unanswered.get(tp, ()))

    def close(self) -> None:
        """Close the connections to the coordinator."""
        self._channel.close()

    def _put(
        self,
        todo: Mapping[TopicPartition, Commit],
        session_id: int | None,
        timeout_s: float | None,
        result: CommitResult,
    ) -> None:
        if not todo:
            return
        try:
            # the request to the coordinator may have taken long
            self._fence.check_session(session_id)
        except SessionExpiredError as error:
            result.failure = error
            return
        within_s = self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s)
        wanted = {tp: KafkaOffset(c.offset, metadata_of(c.seen.topic)) for tp, c in todo.items()}
        refused: set[TopicPartition] = set()
        unwritten: set[TopicPartition] = set()
        for tp, offset in wanted.items():
            # before the request: the thread may be interrupted at any moment after it
            noted = self._unanswered.setdefault(tp, set())
            if offset not in noted:
                noted.add(offset)
                unwritten.add(tp)
        try:
            reason = self._channel.write(wanted, within_s)
            if reason is not None:
                # one reason stands for all partitions: read which offsets the coordinator has
                now = self._channel.read(wanted, within_s)
                refused = {tp for tp in wanted if now.get(tp) != wanted[tp]}
                # an offset may be written if an earlier request had it, or if the coordinator returns none: keep it
                unwritten &= refused & now.keys()
        except Exception as error:  # noqa: BLE001
            result.failure = self._failure(todo, error)
            return
        for tp, commit in todo.items():
            if tp in refused:
                if tp in unwritten:
                    self._unanswered[tp].discard(wanted[tp])
                continue
            self._written[tp] = wanted[tp]
            result.committed[tp] = Committed(commit.offset, None, commit.seen.topic)
            self._unanswered.pop(tp, None)
        if refused:
            result.failure = CommitFailedError(self._group, tuple(sorted(refused)), reason or "refused")


def committed_in_kafka(found: KafkaOffset, topic: TopicOrigin | None) -> Committed:
    """Return the meaning of an offset in Kafka for the topic as it is now."""
    if found is UNTOLD:
        return Committed(None, None, topic, problem=_UNTOLD)
    judgement = judge(written_in_kafka(found.offset, found.metadata), topic)
    return Committed(judgement.position, None, topic, judgement.outlived)


def is_marked(found: KafkaOffset) -> bool:
    """Return whether legacy-consumer wrote the offset: newer consumers and JVM members add no topic to theirs."""
    written = written_in_kafka(found.offset, found.metadata)
    return written.topic_id is not None or written.zxid is not None


def _remove(todo: dict[TopicPartition, Value], partitions: Iterable[TopicPartition]) -> None:
    for tp in partitions:
        todo.pop(tp, None)
