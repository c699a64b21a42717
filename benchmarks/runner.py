"""Runs comparisons: stage after stage, on each stage the contenders in turn, round after round.

Taking turns is what makes a ratio worth something on a machine that is not quiet: both sides see the same weather.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from benchmarks.comparison import Comparison, Contender, Effort, Figures, Result, Scene, summarise


def run(comparisons: Iterable[Comparison[Any]], effort: Effort) -> list[Result]:
    """The results, in the order of the comparisons."""
    comparisons = list(comparisons)
    results: dict[str, Result] = {}
    for scene in dict.fromkeys(comparison.scene for comparison in comparisons):
        own = [comparison for comparison in comparisons if comparison.scene == scene]
        results.update((result.name, result) for result in _run_scene(scene, own, effort))
    return [results[comparison.name] for comparison in comparisons]


def _run_scene(scene: Scene[Any], comparisons: list[Comparison[Any]], effort: Effort) -> list[Result]:
    contenders = list(dict.fromkeys(side for one in comparisons for side in (one.ours, one.peer)))
    began = time.monotonic()
    repeats = effort.rounds(scene.rounds)
    _say(f"{scene}: setting up")
    rounds: list[dict[Contender[Any], Figures]] = []
    with scene.open(effort) as stage:
        _say(f"{scene}: {len(contenders)} contenders, {repeats} rounds")
        for number in range(repeats):
            # every other round backwards, so that nobody always runs behind the same one
            order = contenders if number % 2 == 0 else contenders[::-1]
            figures: dict[Contender[Any], Figures] = {}
            for contender in order:
                figures[contender] = contender.measure(stage)
                shown = ", ".join(f"{name} {value:,.4g}" for name, value in figures[contender].items())
                _say(f"  round {number + 1}: {contender}: {shown}")
            rounds.append(figures)
    _say(f"{scene}: done in {time.monotonic() - began:.0f} s")
    return [
        summarise(one, [(figures[one.ours][one.figure], figures[one.peer][one.figure]) for figures in rounds])
        for one in comparisons
    ]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
