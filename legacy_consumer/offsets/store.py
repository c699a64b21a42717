"""The seam to where a group keeps its offsets: ZooKeeper, Kafka, or both (offsets.storage, dual.commit.enabled)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from legacy_consumer.errors import CommitFailedError
from legacy_consumer.progress import Committed
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Commit:
    """One offset to write, over what was last seen."""

    offset: int
    seen: Committed


@dataclass(slots=True)
class CommitResult:
    """What became of a commit.

    committed: as they are stored now. foreign: somebody else wrote these; as they are. unowned: their owner znodes are
    gone, so they were not written. failure: Kafka did not take some; what stands in committed is written all the same.
    """

    committed: dict[TopicPartition, Committed] = field(default_factory=dict)
    foreign: dict[TopicPartition, Committed] = field(default_factory=dict)
    unowned: set[TopicPartition] = field(default_factory=set)
    failure: CommitFailedError | None = None


class OffsetStore(Protocol):
    """The offsets of one group. Any thread may call; a caller serialises its own commits."""

    @property
    def wants_unchanged(self) -> bool:
        """Whether a commit should name offsets that did not change, too."""
        ...

    def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The committed offset of each partition, and whether it is of an earlier topic of that name.

        Raises: MalformedZnodeError, as a JVM member would fail its rebalance: to guess here would lose messages;
        GroupOffsetsUnavailableError; ZooKeeperError.
        """
        ...

    def commit(
        self,
        commits: Mapping[TopicPartition, Commit],
        *,
        consumer_id: str | None,
        session_id: int | None,
        timeout_s: float | None = None,
    ) -> CommitResult:
        """Try once to write these offsets.

        consumer_id: the member that owns the partitions, whose registration and owner znodes must exist; None commits
        without owning. timeout_s: how long Kafka may take, if less than what is configured.
        Raises: SessionExpiredError if the registration is gone or the session is another; ConnectionLostError, after
        which the offsets may or may not be written: read them again.
        """
        ...

    def close(self) -> None:
        """Free what it holds; twice is harmless."""
        ...
