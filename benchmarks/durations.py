"""Estimates the time of a run from the times of earlier runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison, Contender, Effort, Scene

_SETTING_UP = "setting up"


def scenes_of(comparisons: Iterable[Comparison[Any]]) -> dict[Scene[Any], list[Comparison[Any]]]:
    """Return {scene: its comparisons}, in their order."""
    found: dict[Scene[Any], list[Comparison[Any]]] = {}
    for comparison in comparisons:
        found.setdefault(comparison.scene, []).append(comparison)
    return found


def contenders_of(comparisons: Iterable[Comparison[Any]]) -> list[Contender[Any]]:
    """Return each contender once, in the order of its first appearance."""
    return list(dict.fromkeys(side for one in comparisons for side in (one.ours, one.peer)))


class Durations:
    """The shortest seconds so far of each scene's setup, and of one measurement of each contender.

    The shortest, because other work of the machine only makes them longer.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, dict[str, float]] = {}
        if path.exists():
            self._seconds = json.loads(path.read_text(encoding="utf-8"))

    def note(self, scene: Scene[Any], contender: Contender[Any] | None, seconds: float) -> None:
        """Note the seconds of one measurement; contender None: the start of the servers and the rest."""
        key = _SETTING_UP if contender is None else str(contender)
        known = self._seconds.setdefault(str(scene), {})
        known[key] = min(round(seconds, 1), known.get(key, seconds))

    def seconds(self, comparisons: Iterable[Comparison[Any]], effort: Effort) -> tuple[float, list[str]]:
        """Return the seconds of these comparisons, and the names of parts that were never measured and are left out."""
        total = 0.0
        unknown = []
        for scene, own in scenes_of(comparisons).items():
            known = self._seconds.get(str(scene), {})
            for name in [_SETTING_UP, *map(str, contenders_of(own))]:
                times = 1 if name == _SETTING_UP else effort.rounds(scene.rounds)
                total += times * known.get(name, 0.0)
                if name not in known:
                    unknown.append(f"{scene}: {name}")
        return total, unknown

    def announcement(self, comparisons: list[Comparison[Any]], effort: Effort) -> str:
        """Return how long the run takes, as one line."""
        if effort.quick:
            return f"{len(comparisons)} benchmarks with little work each; they take about three minutes"
        seconds, unknown = self.seconds(comparisons, effort)
        minutes = f"{max(1, round(seconds / 60))} min"
        if unknown:
            took = f"they take more than {minutes}, for {len(unknown)} parts were never measured: {unknown[0]}, ..."
        else:
            took = f"they take about {minutes}, by the shortest time that each part took so far"
        return f"{len(comparisons)} benchmarks; {took}"

    def write(self) -> None:
        """Write the seconds to the file, for the next run."""
        self._path.write_text(json.dumps(self._seconds, indent=2, sort_keys=True) + "\n", encoding="utf-8")
