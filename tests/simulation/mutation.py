"""Breaks the code under test on purpose, in a copy, and asks whether the simulation notices.

Each mutants/*.patch says in its first line what it breaks. Its hunks are found by their text, not by line numbers, so
that they outlive changes elsewhere; one that is not found any more has to be made anew.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.running import DEFAULT_SEEDS

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "mutants"
SEEDS = PATCHES / "seeds.json"
"""{mutant: a seed that found it}, tried first; a change of the worlds may make it another, which a long run finds."""
PACKAGES = ("zk_layout", "rebalance", "legacy_consumer")


class StalePatchError(Exception):
    """The code that a patch breaks looks different now."""


@dataclass(frozen=True, slots=True)
class Caught:
    """What became of a mutant; seed is None if nothing noticed it."""

    name: str
    description: str
    seed: int | None
    check: str
    seconds: float


def all_patches():
    """Sorted by name."""
    return sorted(PATCHES.glob("*.patch"))


def patched_files(patch, folder=ROOT):
    """{path: text} of the files below folder that a patch changes, as they are with it. Raises: StalePatchError."""
    target, hunks = None, []
    for line in patch.read_text().splitlines():
        if line.startswith("+++ "):
            target = folder / line[4:].split("\t")[0].removeprefix("b/")
        elif line.startswith("@@"):
            hunks.append((target, [], []))
        elif hunks and not line.startswith("--- "):
            _, before, after = hunks[-1]
            if line[:1] in (" ", "-", ""):
                before.append(line[1:])
            if line[:1] in (" ", "+", ""):
                after.append(line[1:])
    files = {}
    for path, before, after in hunks:
        text = files.get(path) or path.read_text()
        old = "\n".join(before) + "\n"
        if text.count(old) != 1:
            raise StalePatchError(f"{patch.name}: found {text.count(old)} times in {path.name}:\n{old}")
        files[path] = text.replace(old, "\n".join(after) + "\n")
    return files


def known_seeds():
    """See SEEDS."""
    return json.loads(SEEDS.read_text())


def remember(caught):
    """Write down by which seeds these were found."""
    seeds = {**known_seeds(), **{one.name: one.seed for one in caught if one.seed is not None}}
    SEEDS.write_text(json.dumps(dict(sorted(seeds.items())), indent=1) + "\n")


def apply_patch(patch, folder):
    """Change the files below folder. Raises: StalePatchError."""
    for path, text in patched_files(patch, folder).items():
        path.write_text(text)


def is_walked(patch):
    """Whether it breaks what tests.simulation.exhaustive runs."""
    return all(path.parent == ROOT / "rebalance" for path in patched_files(patch))


def run_mutant(patch, seeds=DEFAULT_SEEDS, depth=None):
    """Run worlds on the broken code until one of them fails; every order of so many events, if depth is given."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "tests").symlink_to(ROOT / "tests")
        apply_patch(patch, folder)
        command = [sys.executable, "-m", "tests.simulation", "--seeds", str(seeds), "--brief"]
        if patch.stem.startswith("led-"):
            command.append("--led")
        commands = [command]
        known = known_seeds().get(patch.stem)
        if known is not None:
            commands.insert(0, [*command[:3], "--first", str(known), "--seeds", "1", "--brief"])
        if depth is not None:
            commands = [[sys.executable, "-m", "tests.simulation.exhaustive", "--depth", str(depth), "--faults", "1"]]
        for command in commands:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                break
    description = patch.read_text().partition("\n")[0]
    found = re.search(r"^(?:seed (\d+)|broken): ([^:]+):", done.stdout, re.MULTILINE)
    if found is None and done.returncode != 0:
        raise RuntimeError(f"{patch.name}: {done.stderr[-2000:]}")
    seed, check = (None, "") if found is None else (int(found[1] or 0), found[2])
    return Caught(patch.stem, description, seed, check, time.monotonic() - began)


def run_mutants(patches, seeds=DEFAULT_SEEDS, processes=2, depth=None):
    """As many at a time as there are processes; in the order of the patches."""
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(lambda patch: run_mutant(patch, seeds, depth), patches)
