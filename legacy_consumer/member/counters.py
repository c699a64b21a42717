"""A member's counters, which only grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance.counters import MemberCounters


@dataclass(frozen=True, slots=True)
class ConnectorCounters:
    """A reading, for metrics.

    consumed, committed: {topic: messages by which the offsets of owned partitions grew}. commits, failed_commits:
    tries; offsets by name are two if this member owns some of the partitions and not the others. foreign_commits:
    offsets of owned partitions that another client wrote. fetch_errors: raised by streams instead of a batch.
    listener_errors: exceptions of the user's listener, and hooks that did not return in time.
    """

    member: MemberCounters
    consumed: Mapping[str, int] = field(default_factory=dict)
    committed: Mapping[str, int] = field(default_factory=dict)
    commits: int = 0
    failed_commits: int = 0
    foreign_commits: int = 0
    fetch_errors: int = 0
    listener_errors: int = 0
