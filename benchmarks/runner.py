"""Runs comparisons: stage after stage, on each stage the contenders in turn, round after round.

Both sides take turns, so a ratio is meaningful on a busy machine too: the load is the same for both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from benchmarks.comparison import Comparison, Contender, Effort, Figures, Result, Scene, summarise
from benchmarks.durations import Durations, contenders_of, scenes_of
from benchmarks.load import LoadMeter


def run(comparisons: Iterable[Comparison[Any]], effort: Effort, durations: Durations) -> Iterator[list[Result]]:
    """Yield the results of each scene. Print an estimate of the time before, and note the times of all measurements."""
    comparisons = list(comparisons)
    _say(durations.announcement(comparisons, effort))
    for scene, own in scenes_of(comparisons).items():
        yield _run_scene(scene, own, effort, durations)


def _run_scene(
    scene: Scene[Any], comparisons: list[Comparison[Any]], effort: Effort, durations: Durations
) -> list[Result]:
    contenders = contenders_of(comparisons)
    began = time.monotonic()
    meter = LoadMeter()
    measuring = 0.0
    repeats = effort.rounds(scene.rounds)
    _say(f"{scene}: setting up")
    rounds: list[dict[Contender[Any], Figures]] = []
    with scene.open(effort) as stage:
        _say(f"{scene}: {len(contenders)} contenders, {repeats} rounds")
        for number in range(repeats):
            # every other round in reverse order, so that no contender always runs after the same other one
            order = contenders if number % 2 == 0 else contenders[::-1]
            figures: dict[Contender[Any], Figures] = {}
            for contender in order:
                started = time.monotonic()
                figures[contender] = contender.measure(stage)
                took = time.monotonic() - started
                measuring += took
                durations.note(scene, contender, took)
                shown = ", ".join(f"{name} {value:,.4g}" for name, value in figures[contender].items())
                _say(f"  round {number + 1}: {contender}: {shown}")
            rounds.append(figures)
    took = time.monotonic() - began
    durations.note(scene, None, took - measuring)
    load = meter.read()
    busy = (
        f"; of the machine's processor time others took {load.others:.0%} and its host {load.stolen:.0%}"
        if load
        else ""
    )
    _say(f"{scene}: done in {took:.0f} s{busy}")
    summaries = [summarise(one, [(figures[one.ours], figures[one.peer]) for figures in rounds]) for one in comparisons]
    return [
        replace(summary, stolen=load.stolen if load else None, others=load.others if load else None)
        for summary in summaries
    ]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
