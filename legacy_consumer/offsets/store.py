"""The seam to the store of a group's offsets: ZooKeeper, Kafka, or both (offsets.storage, dual.commit.enabled)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from legacy_consumer.errors import OffsetError
from legacy_consumer.offsets.progress import Commit, Committed
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition


@dataclass(slots=True)
class CommitResult:
    """The result of a commit.

    committed: the stored offsets. foreign: offsets that another client wrote. unowned: not written, since the
    committing member does not own these. refused: the store does not accept these (an ACL, a quota), independent of the
    others. failure: why all other partitions were not committed, or may not be; also an unforeseen error, since the
    writes before it remain.
    """

    committed: dict[TopicPartition, Committed] = field(default_factory=dict)
    foreign: dict[TopicPartition, Committed] = field(default_factory=dict)
    unowned: set[TopicPartition] = field(default_factory=set)
    refused: dict[TopicPartition, LegacyConsumerError] = field(default_factory=dict)
    failure: Exception | None = None

    def raise_errors(self) -> None:
        """Raise the failure, or the reason why the store refuses a partition."""
        error = self.failure or next(iter(self.refused.values()), None)
        if error is not None:
            raise error


def refuse_unreadable(read: Mapping[TopicPartition, Committed]) -> None:
    """Raise OffsetError for the first unreadable offset, for a caller that needs all of them."""
    for tp, found in sorted(read.items()):
        if found.problem is not None:
            raise OffsetError(f"{tp}: {found.problem}")


class OffsetStore(Protocol):
    """The offsets of one group. Any thread may call; a caller serialises its own commits."""

    def wants_unchanged(self, tp: TopicPartition, seen: Committed) -> bool:
        """Return whether a commit should name the partition even if its offset is the one that was last seen."""
        ...

    def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the committed offset of each partition, and whether it is of an earlier topic of that name.

        An unreadable offset of one partition is its `problem`: a guessed offset would lose messages.
        Raises: GroupOffsetsUnavailableError; ZooKeeperError.
        """
        ...

    def commit(
        self,
        commits: Mapping[TopicPartition, Commit],
        *,
        consumer_id: str | None,
        session_id: int | None,
        timeout_s: float | None = None,
        unfenced: bool = False,
    ) -> CommitResult:
        """Try once to write these offsets.

        consumer_id: the member that owns the partitions, whose registration and owner znodes must exist; None commits
        only partitions without an owner. unfenced: without consumer_id, also owned ones. timeout_s: a limit for Kafka,
        if less than the configured one. Returns: the outcome of each partition, including errors of ZooKeeper and
        Kafka, since the writes before an error remain. The failure is a SessionExpiredError if the registration is gone
        or the session is another. After a retriable one the offsets may be written all the same; the store remembers
        that, and takes them for its own later.
        """
        ...

    def wrote(self, tp: TopicPartition, stored: Committed) -> bool:
        """Return whether a commit of this store without an answer may have written this offset."""
        ...

    def close(self) -> None:
        """Close the connections; twice is harmless."""
        ...
