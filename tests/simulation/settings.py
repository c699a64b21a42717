"""The settings of a world: drawn from the seed, before anything happens in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Numbers without a unit are probabilities.

    punctual: coordinators take their turns in time; otherwise some are late, as in a process that gets little CPU time.
    same_ids: a member that starts again keeps its consumer id (consumer.id is configured).
    """

    topics: dict[str, int]
    members: int
    jvm_members: int
    streams: int
    steps: int
    strategy: str
    punctual: bool
    same_ids: bool
    at_next: bool
    adopt: bool
    auto_commit: bool
    commit_ms: int
    interleave: float
    lose: float
    crash: float
    slow_users: float
    freeze: float
    audit_s: float = 10.0
    suspicion_s: float = 1.5
    drain_timeout_ms: int = 3000
    max_retries: int = 4
    backoff_ms: int = 2000
    absence_ms: int = 0
    """Milliseconds for which our members do not take over the partitions of a member that left."""


def draw_settings(rng):
    """Draw the settings of a world."""
    topics = {f"t{n}": rng.choice((1, 2, 2, 3, 4)) for n in range(rng.choice((1, 1, 2, 2, 3)))}
    return Settings(
        topics=topics,
        members=rng.choice((2, 2, 3, 3, 4)),
        jvm_members=rng.choice((0, 0, 0, 0, 1, 1, 2)),
        streams=rng.choice((1, 1, 2)),
        steps=rng.choice((20, 40, 60, 90)),
        strategy=rng.choice(("range", "roundrobin")),
        punctual=rng.random() < 0.7,
        same_ids=rng.random() < 0.5,
        at_next=rng.random() < 0.15,
        adopt=rng.random() < 0.3,
        auto_commit=rng.random() < 0.85,
        commit_ms=rng.choice((500, 2000, 60_000)),
        interleave=rng.choice((0.0, 0.1, 0.3)),
        lose=rng.choice((0.0, 0.0, 0.02, 0.08)),
        crash=rng.choice((0.0, 0.002, 0.01)),
        slow_users=rng.choice((0.0, 0.1, 0.4)),
        freeze=rng.choice((0.0, 0.0, 0.005, 0.02)),
        absence_ms=rng.choice((0, 0, 0, 1000, 5000, 20_000)),
    )
