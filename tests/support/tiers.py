"""The tiers of the tests: what each needs, whether this machine has it, and how each one did.

A test's tier is its folder under tests/. What a test needs follows from its markers, which most folders give
to all their tests. A need is looked at once, when the first test that has it is about to run, and the answer
is a sentence a person can act on.
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
"""In the order they run: what is cheap and says most comes first."""

QUICK_TIERS = frozenset({"unit", "simulation"})
"""Need nothing, so a failure here spares the wait for the servers."""

MARKERS_OF_TIER: dict[str, tuple[str, ...]] = {
    "integration": ("kafka",),
    "interop": ("kafka", "interop"),
    "spark": ("spark",),
    "containers": ("containers",),
}
"""Markers that a folder gives to its tests. In tests/contract and tests/chaos, what wants servers says so by hand."""

DECODER = "legacy_consumer_native"


class CannotRunError(Exception):
    """A fixture's: what one test needs cannot be had here. The test is skipped with this sentence, and others run."""


SERVER_MARKERS = frozenset({"zookeeper", "kafka", "interop", "spark", "containers"})


def tier_of(path: Path, tests: Path) -> str:
    """The folder directly under tests/ that path lies in; "unit" for what lies in none."""
    first = path.relative_to(tests).parts[0]
    return first if first in TIERS else "unit"


@functools.cache
def java_problem() -> str | None:
    """Return why no server can be started with Java here, or None."""
    try:
        find_java()
    except JavaMissingError as error:
        return str(error)
    return None


@functools.cache
def pyspark_problem() -> str | None:
    """Return why neither Spark nor the ZooKeeper in its wheel can be started, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: run `make .venv`"
    return java_problem()


@functools.cache
def decoder_problem() -> str | None:
    """Return why no record set can be decoded, so that librdkafka fetches, or None."""
    if importlib.util.find_spec(DECODER) is None:
        return "the crate in native/ is not built: `make native`, which needs cargo"
    return None


@functools.cache
def docker_problem() -> str | None:
    """Return why no container can be started, or None."""
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
"""marker -> what this machine lacks. Whether Kafka's jars can be had shows when a fixture asks for them."""


def problem_of(markers: Iterable[str]) -> str | None:
    """The first reason why a test with these markers cannot run here, or None."""
    return next((problem for marker in sorted(markers) if (problem := NEEDS[marker]())), None)


@dataclass(slots=True)
class TierResult:
    """How the tests of one tier did. missing: what this machine lacked -> tests skipped for it."""

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
