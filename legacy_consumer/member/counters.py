"""A member's counters, which only grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance.counters import MemberCounters


@dataclass(frozen=True, slots=True)
class ConnectorCounters:
    """The counts of a member at one moment, for metrics.

    consumed, committed: {topic: messages by which the offsets of owned partitions grew}. commits, failed_commits:
    tries; a commit of offsets by name counts twice if this member owns only some of the partitions. foreign_commits:
    offsets of owned partitions that another client wrote. fetch_errors: errors that streams raised instead of messages.
    listener_errors: exceptions of the user's listener, hooks that did not return in time, and hooks not called.
    """

    member: MemberCounters
    consumed: Mapping[str, int] = field(default_factory=dict)
    committed: Mapping[str, int] = field(default_factory=dict)
    commits: int = 0
    failed_commits: int = 0
    foreign_commits: int = 0
    fetch_errors: int = 0
    listener_errors: int = 0
