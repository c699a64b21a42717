"""The tiers of the tests: their needs, whether this machine meets them, and their results.

A test's tier is its folder under tests/. A test's needs follow from its markers, which most folders give to all their
tests. Each need is checked once, when the first test with it is about to run; the result is a sentence that tells a
person what to do.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from legacy_consumer.errors import JavaMissingError
from legacy_consumer.sandbox.servers.java import find_java

TIERS = ("unit", "simulation", "contract", "integration", "interop", "chaos", "spark", "containers")
"""In the order in which they run: cheap and telling tiers first."""

QUICK_TIERS = frozenset({"unit", "simulation"})
"""These tiers need no server; after a failure in them no server is started."""

MARKERS_OF_TIER: dict[str, tuple[str, ...]] = {
    "integration": ("kafka",),
    "interop": ("kafka", "interop"),
    "spark": ("spark",),
    "containers": ("containers",),
}
"""{tier: markers of all its tests}. In tests/contract and tests/chaos, tests that need servers have own markers."""

DECODER = "legacy_consumer_native"


class CannotRunError(Exception):
    """Raised by a fixture that this machine cannot provide. The test is skipped with this text; other tests run."""


SERVER_MARKERS = frozenset({"zookeeper", "kafka", "interop", "spark", "containers"})


def tier_of(path: Path, tests: Path) -> str:
    """Return the folder directly under tests/ that holds the path; "unit" if that is no tier."""
    first = path.relative_to(tests).parts[0]
    return first if first in TIERS else "unit"


@functools.cache
def java_problem() -> str | None:
    """Return why Java can start no server here, or None."""
    try:
        find_java()
    except JavaMissingError as error:
        return str(error)
    return None


@functools.cache
def pyspark_problem() -> str | None:
    """Return why Spark and the ZooKeeper in its wheel cannot start here, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: run `make .venv`"
    return java_problem()


@functools.cache
def decoder_problem() -> str | None:
    """Return why there is no decoder of record sets, so that librdkafka fetches, or None."""
    if importlib.util.find_spec(DECODER) is None:
        return "the crate in native/ is not built: `make native`, which needs cargo"
    return None


@functools.cache
def docker_problem() -> str | None:
    """Return why no container can start here, or None."""
    if shutil.which("docker") is None:
        return "no docker on PATH"
    try:
        told = subprocess.run(["docker", "version"], capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return "no Docker engine answers within 30 s"
    return None if told.returncode == 0 else "no Docker engine answers: start one, `docker version` must succeed"


NEEDS: dict[str, Callable[[], str | None]] = {
    "zookeeper": pyspark_problem,
    "kafka": pyspark_problem,
    "interop": pyspark_problem,
    "spark": pyspark_problem,
    "containers": docker_problem,
}
"""{marker: returns what this machine lacks, or None}. A missing Kafka jar shows only when a fixture asks for it."""


def problem_of(markers: Iterable[str]) -> str | None:
    """Return the first reason why a test with these markers cannot run here, or None."""
    return next((problem for marker in sorted(markers) if (problem := NEEDS[marker]())), None)


@dataclass(slots=True)
class TierResult:
    """The results of one tier. missing: {what this machine lacked: number of tests skipped for it}."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    missing: Counter[str] = field(default_factory=Counter)

    def line(self, tier: str) -> str:
        counts = ", ".join(
            f"{self.outcomes[outcome]} {outcome}"
            for outcome in ("passed", "failed", "error", "skipped", "xfailed")
            if self.outcomes[outcome]
        )
        reasons = "".join(f"\n{'':13}skipped {count}: {why}" for why, count in sorted(self.missing.items()))
        return f"{tier:<12} {counts or 'nothing ran':<40} {self.seconds:7.1f} s{reasons}"
