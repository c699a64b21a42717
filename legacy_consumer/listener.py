"""What a user may hook into a rebalance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rebalance.snapshot import Assignment
from zk_layout.model import ConsumerThreadId, TopicPartition


class RebalanceListener(Protocol):
    """Told on a thread of its own, one hook after another; an error in one is logged and counted.

    The rebalance goes on when a hook returns, or after drain.timeout.ms. A hook may shut the connector down; then no
    other is called.

    Source: Scala consumer 0.9 to 1.1.1, ConsumerRebalanceListener. There the hooks name everything the member owns,
    because it gives up everything; here they name what really goes and comes.
    """

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """These are about to go: delivery has stopped, what was consumed is committed, the owner znodes still stand."""
        ...

    def before_starting_fetchers(
        self, partitions: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment
    ) -> None:
        """These are mine now and will flow when this returns; assignment is the whole group's."""
        ...
