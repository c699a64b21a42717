"""The parts of a benchmark: two contenders on one stage, and the compared figure.

A stage is the environment of the measurements: servers, a filled topic. Contenders are records that compare equal when
they do the same work, so one measurement serves every comparison of a round that needs it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

Better = Literal["higher", "lower"]
Figures = Mapping[str, float]
"""The result of one measurement of a contender: {figure: value}."""

CPU_US = "cpu_us_per_message"
"""A figure that is shown beside the compared one."""
_QUICK_ROUNDS = 2

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work. A quick run only shows that the benchmark runs; only a full run gives figures to quote.

    repeats: the number of rounds, if the caller set it.
    """

    repeats: int | None
    quick: bool

    def rounds(self, usual: int) -> int:
        """Return the number of rounds of a scene. usual: its default number."""
        return self.repeats or (min(usual, _QUICK_ROUNDS) if self.quick else usual)

    def choose(self, full: int, quick: int) -> int:
        """Return the amount of work for a full or a quick run."""
        return quick if self.quick else full


class Contender(Protocol[S_contra]):
    """One side of a comparison; hashable."""

    def measure(self, stage: S_contra) -> Figures:
        """Do the work once, in a separate process. Returns: the figures."""
        ...


class Scene(Protocol[S_co]):
    """Opens a stage; hashable, and equal scenes share one stage."""

    @property
    def rounds(self) -> int:
        """The default number of measurements of each contender."""
        ...

    def open(self, effort: Effort) -> AbstractContextManager[S_co]:
        """Start all that contenders need."""
        ...


@dataclass(frozen=True, slots=True)
class Comparison(Generic[S]):
    """One benchmark: figure of ours over that of the peer.

    better: whether a higher or a lower figure is better. target: the ratio to reach; a mark for readers, no run fails
    without it. about: one line for the table. in_quick: whether a quick run has time for it. headline: whether
    `make bench` measures it; `make bench-all` measures all.
    """

    name: str
    about: str
    scene: Scene[S]
    ours: Contender[S]
    peer: Contender[S]
    figure: str
    unit: str
    better: Better
    target: float | None = None
    in_quick: bool = True
    headline: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One comparison over all rounds: ours and peer are medians, a ratio is that of one round.

    date, commit: of the run. stolen, others: shares of the machine's processor time that its host, and processes that
    are not of the benchmark, took meanwhile; None if not known. cpu_us: our process's time for each message, where
    messages are counted.
    """

    name: str
    unit: str
    ours: float
    peer: float
    ratio_min: float
    ratio_median: float
    ratio_max: float
    better: Better
    date: str = ""
    commit: str = ""
    stolen: float | None = None
    others: float | None = None
    cpu_us: float | None = None


def summarise(comparison: Comparison[S], rounds: Sequence[tuple[Figures, Figures]]) -> Result:
    """Return the result of all rounds, each (ours, peer)."""
    name = comparison.figure
    pairs = [(ours[name], peer[name]) for ours, peer in rounds]
    ratios = [ours / peer for ours, peer in pairs]
    spent = [ours[CPU_US] for ours, _ in rounds if CPU_US in ours]
    return Result(
        name=comparison.name,
        unit=comparison.unit,
        ours=_rounded(statistics.median(ours for ours, _ in pairs)),
        peer=_rounded(statistics.median(peer for _, peer in pairs)),
        ratio_min=_rounded(min(ratios)),
        ratio_median=_rounded(statistics.median(ratios)),
        ratio_max=_rounded(max(ratios)),
        better=comparison.better,
        cpu_us=_rounded(statistics.median(spent)) if spent else None,
    )


def _rounded(value: float) -> float:
    """Round to four digits; more would be noise."""
    return float(f"{value:.4g}")
