"""How long benchmarks take, from how long they took: said before a run begins."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison, Contender, Effort, Scene

_SETTING_UP = "setting up"


def scenes_of(comparisons: Iterable[Comparison[Any]]) -> dict[Scene[Any], list[Comparison[Any]]]:
    """The comparisons of each scene, in their order."""
    found: dict[Scene[Any], list[Comparison[Any]]] = {}
    for comparison in comparisons:
        found.setdefault(comparison.scene, []).append(comparison)
    return found


def contenders_of(comparisons: Iterable[Comparison[Any]]) -> list[Contender[Any]]:
    """Each contender once, in the order in which they are first named."""
    return list(dict.fromkeys(side for one in comparisons for side in (one.ours, one.peer)))


class Durations:
    """Seconds of each scene's setting up and of one measurement of each contender, as the last full run saw them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, dict[str, float]] = {}
        if path.exists():
            self._seconds = json.loads(path.read_text(encoding="utf-8"))

    def note(self, scene: Scene[Any], contender: Contender[Any] | None, seconds: float) -> None:
        """One measurement took so long; contender None: starting the servers and all else."""
        key = _SETTING_UP if contender is None else str(contender)
        self._seconds.setdefault(str(scene), {})[key] = round(seconds, 1)

    def seconds(self, comparisons: Iterable[Comparison[Any]], effort: Effort) -> float | None:
        """How long these take in all; None if one of them was never measured."""
        total = 0.0
        for scene, own in scenes_of(comparisons).items():
            known = self._seconds.get(str(scene), {})
            names = [_SETTING_UP, *map(str, contenders_of(own))]
            if any(name not in known for name in names):
                return None
            total += known[_SETTING_UP] + effort.rounds(scene.rounds) * sum(known[name] for name in names[1:])
        return total

    def announcement(self, comparisons: list[Comparison[Any]], effort: Effort) -> str:
        """How long the run takes, as one line."""
        seconds = self.seconds(comparisons, effort)
        if seconds is None:
            return f"{len(comparisons)} benchmarks; how long they take is not known, no full run has measured them yet"
        return f"{len(comparisons)} benchmarks; they take about {max(1, round(seconds / 60))} min on a quiet machine"

    def write(self) -> None:
        """Keep them for the next run."""
        self._path.write_text(json.dumps(self._seconds, indent=2, sort_keys=True) + "\n", encoding="utf-8")
