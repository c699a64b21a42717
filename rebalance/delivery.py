"""The seam to the delivery of a member's partitions, which hands out messages and commits offsets.

The coordinator calls it, on its own thread, in this order for a partition: begin when the owner znode is claimed; stop
before a release; then, when drained, end (which commits) before the owner znode is deleted. drop is for partitions lost
with the session; they get no commit.

begin, end and finish_telling do not block for the user's listener or for log ends: they are generators, which yield
where they need an answer. The coordinator resumes the generator when an Answered event comes or the time is over, and
begins and ends no other partitions meanwhile. If all partitions are lost, it calls drop and closes the generator.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from typing import Protocol, TypeAlias, TypeVar

from rebalance.snapshot import Assignment
from zk_layout.model import ConsumerThreadId, TopicPartition

_T = TypeVar("_T")
Waits: TypeAlias = Generator[float, None, _T]
"""A step that may wait: it yields the seconds to wait at most, and is resumed when the answer is there, or then."""


class Delivery(Protocol):
    """The delivery of messages. Errors are LegacyConsumerErrors; begin and end wait for the offset store."""

    def begin(self, claimed: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment) -> Waits[None]:
        """Read the committed offsets of these partitions, call the listener, then fetch and hand out messages.

        assignment: the whole group's. claimed is empty if only the shares of other members changed.
        Raises: PartlyBegunError naming the partitions that it could not begin; the others are begun.
        """
        ...

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no further message of these partitions; return at once. Twice is harmless."""
        ...

    def undrained(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return the stopped partitions that have messages in hand; a Drained event follows when none are left."""
        ...

    def go_on(self, partitions: Collection[TopicPartition]) -> None:
        """Undo stop: the member keeps these partitions after all."""
        ...

    def end(self, partitions: Collection[TopicPartition]) -> Waits[None]:
        """Commit what was consumed, call the listener, and forget these partitions. The caller then releases them."""
        ...

    def finish_telling(self) -> Waits[None]:
        """Wait for the hooks for which begin and end do not wait, such as those about losses."""
        ...

    def await_answer(self, timeout_s: float) -> None:
        """Block until the answer is there that a step waits for, timeout_s at most. Only leaving may block so."""
        ...

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are lost: hand out nothing more, forget buffers and positions, commit nothing."""
        ...

    def bury(self, partitions: Collection[TopicPartition]) -> None:
        """Drop these partitions, because their topics were deleted, and perhaps created again.

        If the same names are begun later, they are other logs, to be read from their beginning.
        """
        ...

    def disown(self, partitions: Collection[TopicPartition]) -> None:
        """The topics of these partitions were deleted, and perhaps created again, before the last commit arrived.

        The delivery undoes that commit, so that no member begins a new topic at the old topic's offset.
        """
        ...

    def pause(self) -> None:
        """Hand out nothing until resume, without forgetting anything."""
        ...

    def resume(self) -> None:
        """Undo pause."""
        ...

    def commit(self) -> None:
        """Commit what was consumed since the last commit."""
        ...
