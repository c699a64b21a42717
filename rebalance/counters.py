"""The coordinator's counters, for metrics. Written by its thread, read by any."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds, in seconds, of the classes of rebalance durations."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """The state of the coordinator's thread. runs: it lives. busy_s: the time in the current step, 0 if idle.

    connected: whether the member believes to be connected to ZooKeeper. leased: whether its lease allows it to hand out
    messages (see rebalance.lease); without a lease other members may own its partitions. in_hand_s: how long the user's
    code has had the messages in hand, as seen by readings of it. unasked_s: how long the user's code has not asked a
    stream with partitions for messages, with or without messages in hand. deserted_s: the same, of streams whose last
    asking thread has ended.
    """

    runs: bool
    busy_s: float
    connected: bool
    leased: bool = False
    in_hand_s: float = 0.0
    unasked_s: float = 0.0
    deserted_s: float = 0.0


@dataclass(slots=True)
class MemberCounters:
    """Counters that only grow.

    rebalances: {outcome: how many}: moved, unchanged, degraded. durations: one class for each of BUCKETS_S and one for
    longer rebalances. failures: attempts that ended in an error. conflicts: claims that met owner znodes of other
    members. session_events: {kind: how many}. unexpected_errors: commits and audits that ended in an unforeseen error.
    """

    rebalances: Counter[str] = field(default_factory=Counter)
    durations: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    duration_sum_s: float = 0.0
    failures: int = 0
    conflicts: int = 0
    session_events: Counter[str] = field(default_factory=Counter)
    unexpected_errors: int = 0

    def reading(self) -> MemberCounters:
        """Return a copy, which does not grow."""
        return replace(
            self,
            rebalances=self.rebalances.copy(),
            durations=self.durations.copy(),
            session_events=self.session_events.copy(),
        )

    def note_settled(self, moved: Sequence[int], seconds: float | None) -> None:
        """Count a rebalance that ended. moved: the numbers of partitions kept, released and claimed."""
        _, released, claimed = moved
        self.rebalances["moved" if released or claimed else "unchanged"] += 1
        if seconds is not None:
            self.durations[bisect_left(BUCKETS_S, seconds)] += 1
            self.duration_sum_s += seconds
