"""Writes results: results/latest.json for programs, the table in docs/benchmarks.md for people."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison, Result

ROOT = Path(__file__).resolve().parents[1]
LATEST = ROOT / "benchmarks" / "results" / "latest.json"
DURATIONS = LATEST.with_name("durations.json")
DOCS = ROOT / "docs" / "benchmarks.md"

_BEGIN = "<!-- table: written by `make bench` -->"
_END = "<!-- end of table -->"
_BETWEEN = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)


def commit_measured() -> str:
    """Return the commit of this tree; call it before results are written, which make the tree dirty."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], check=False, cwd=ROOT, capture_output=True, text=True
    )
    return asked.stdout.strip()


def stamped(results: Iterable[Result], commit: str) -> list[Result]:
    """Return the results with today's date and the measured commit."""
    return [replace(result, date=today(), commit=commit) for result in results]


def today() -> str:
    """Return today's date."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%d")


def merged(earlier: Iterable[Result], new: Iterable[Result], order: Sequence[str]) -> list[Result]:
    """Return all results in this order, new ones in place of earlier ones, without names that are not in the order."""
    by_name = {result.name: result for result in (*earlier, *new)}
    return [by_name[name] for name in order if name in by_name]


def read_latest() -> list[Result]:
    """Return the results of earlier runs; none if there was no run."""
    try:
        return [Result(**entry) for entry in json.loads(LATEST.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []


def write(results: Sequence[Result], comparisons: Mapping[str, Comparison[Any]]) -> None:
    """Write the file and put the table into the document."""
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n", encoding="utf-8")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    text = f"{machine}, clients and servers on the same cores.\n\n{table(results, comparisons)}"
    document = DOCS.read_text(encoding="utf-8")
    DOCS.write_text(_BETWEEN.sub(lambda _: f"{_BEGIN}\n{text}\n{_END}", document), encoding="utf-8")


def table(results: Sequence[Result], comparisons: Mapping[str, Comparison[Any]]) -> str:
    """Return the results as a table in Markdown."""
    rows = [
        (
            "| Benchmark | Ours | Peer | Unit | Ratio: min, **median**, max | Wanted | CPU, us | Commit, date "
            "| Stolen, others |"
        ),
        "| --- | ---: | ---: | --- | --- | --- | ---: | --- | --- |",
    ]
    for result in results:
        target = comparisons[result.name].target
        bound = "at least" if result.better == "higher" else "at most"
        wanted = f"{bound} {target:g}" if target is not None else f"{result.better} is better"
        rows.append(
            f"| `{result.name}` | {_shown(result.ours)} | {_shown(result.peer)} | {result.unit} "
            f"| {result.ratio_min:.3g}, **{result.ratio_median:.3g}**, {result.ratio_max:.3g} | {wanted} "
            f"| {'-' if result.cpu_us is None else result.cpu_us} "
            f"| {result.commit or '-'}, {result.date or '-'} | {_load(result)} |"
        )
    return "\n".join(rows)


def lines(results: Sequence[Result], comparisons: Mapping[str, Comparison[Any]]) -> list[str]:
    """Return the results for a terminal, one line each."""
    shown = []
    for result in results:
        target = comparisons[result.name].target
        met = ""
        if target is not None:
            reached = result.ratio_median >= target if result.better == "higher" else result.ratio_median <= target
            met = f"  {'reached' if reached else 'MISSED'}: {target:g}"
        shown.append(
            f"{result.name:32} ours {_shown(result.ours):>10}  peer {_shown(result.peer):>10} {result.unit:28} ratio "
            f"{result.ratio_min:.3g} / {result.ratio_median:.3g} / {result.ratio_max:.3g}{met}"
            f"  (stolen, others: {_load(result)})"
        )
    return shown


def _load(result: Result) -> str:
    if result.stolen is None or result.others is None:
        return "-"
    return f"{result.stolen:.0%}, {result.others:.0%}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
