"""The results of a quickstart run, as data for the summary table and --json."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from legacy_consumer.sandbox.quickstart.proof import Verdict
from legacy_consumer.sandbox.quickstart.two_groups import TwoGroups


@dataclass(frozen=True, slots=True)
class Happening:
    """A fault or change of a member. at: seconds since the start; members: their number then; owners: the owners once
    the group has settled, {partition: member}.
    """

    at: float
    event: str
    member: str
    members: int
    owners: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Settling:
    """One rebalance, as seen in ZooKeeper: from the change of the membership until each member owns its share.

    moved: partitions that changed hands; settle_ms is read every few milliseconds, so a short one is that vague.
    """

    cause: str
    members: int
    moved: int
    settle_ms: float


@dataclass(frozen=True, slots=True)
class Takeover:
    """The events after kill -9, in seconds after it.

    expired_seconds: the session ended in ZooKeeper. owned_seconds: every partition had an owner again.
    takeover_seconds: flights of all the partitions that the killed member owned had been processed by others.
    """

    member: str
    partitions: tuple[int, ...]
    successors: Mapping[int, str]
    session_timeout_seconds: float
    expired_seconds: float
    owned_seconds: float
    takeover_seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """The whole run. offsets: the rows that Spark read, by column. idle: members without a partition at the peak."""

    verdict: Verdict
    members_most: int
    idle: tuple[str, ...]
    timeline: tuple[Happening, ...]
    rebalances: tuple[Settling, ...]
    kill: Takeover
    two_groups: TwoGroups
    offsets: tuple[Mapping[str, object], ...]
    log_ends: Mapping[int, int]
    seconds: float

    @property
    def lag(self) -> int | None:
        """The group's lag over all partitions as Spark sees it; None if Spark misses one."""
        lags = [row.get("lag") for row in self.offsets]
        return sum(lag for lag in lags if isinstance(lag, int)) if all(isinstance(lag, int) for lag in lags) else None

    @property
    def median_settle_ms(self) -> float:
        """Over the rebalances that moved partitions without waiting for a session to expire."""
        return round(statistics.median([one.settle_ms for one in self.rebalances if one.moved] or [0.0]), 1)

    @property
    def failures(self) -> tuple[str, ...]:
        """The claims that do not hold; empty if all do."""
        failures = [f"the records contradict: {what}" for what in self.verdict.contradictions]
        if self.verdict.lost:
            failures.append(f"{self.verdict.lost} of {self.verdict.flights} flights were never delivered")
        if len(self.idle) != 1:
            failures.append(f"with {self.members_most} members {len(self.idle)} were idle, not one")
        seen = {row.get("partition"): row.get("committed_offset") for row in self.offsets}
        if seen != dict(self.log_ends):
            failures.append(f"Spark read the committed offsets {seen}, the log ends at {dict(self.log_ends)}")
        if self.lag != 0:
            failures.append(f"Spark read a lag of {self.lag}, not 0")
        failures += self.two_groups.failures
        return tuple(failures)

    def as_json(self) -> dict[str, object]:
        """For --json: plain objects, keys of partitions as text."""
        verdict = self.verdict
        return {
            "flights": verdict.flights,
            "delivered": verdict.delivered,
            "lost": verdict.lost,
            "duplicated": verdict.duplicated,
            "duplicated_by_kill": verdict.duplicated_by_kill,
            "deliveries": verdict.deliveries,
            "deliveries_by_member": dict(verdict.by_member),
            "torn_records": list(verdict.torn),
            "members_most": self.members_most,
            "idle": list(self.idle),
            "timeline": [_plain(one) for one in self.timeline],
            "rebalances": [_plain(one) for one in self.rebalances],
            "rebalance_median_ms": self.median_settle_ms,
            "kill": _plain(self.kill),
            "kill_to_takeover_seconds": self.kill.takeover_seconds,
            "two_groups": {
                group: {name: list(keys) for name, keys in members.items()}
                for group, members in self.two_groups.received.items()
            },
            "offsets": [dict(row) for row in self.offsets],
            "lag": self.lag,
            "failures": list(self.failures),
            "seconds": self.seconds,
        }


def _plain(record: Happening | Settling | Takeover) -> dict[str, object]:
    return {
        name: {str(key): text for key, text in value.items()} if isinstance(value, Mapping) else value
        for name, value in dataclasses.asdict(record).items()
    }
