"""Breaks the code under test on purpose, in a copy, and checks that the simulation notices.

The first line of each mutants/*.patch says what the patch breaks. Its hunks are found by their text, not by line
numbers, so changes elsewhere do not matter; a patch with a hunk that is not found must be made again.
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

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "mutants"
CAUGHT_BY = PATCHES / "caught_by.json"
"""{mutant: a seed or a test that notices it}. After a change of the worlds it may be another seed."""
MOST_SEEDS = 400
"""The most seeds to run for a mutant that no known seed or test notices."""
PACKAGES = ("zk_layout", "rebalance", "legacy_consumer")


class StalePatchError(Exception):
    """The code that a patch breaks has changed, so that the patch does not apply."""


@dataclass(frozen=True, slots=True)
class Caught:
    """The fate of a mutant. by: the seed or the test that noticed it; None if nothing did."""

    name: str
    description: str
    by: int | str | None
    check: str
    seconds: float


def all_patches():
    """Return the paths of all patches, sorted by name."""
    return sorted(PATCHES.glob("*.patch"))


def patched_files(patch, folder=ROOT):
    """Return {path: the text with the patch} of the files below folder that it changes. Raises: StalePatchError."""
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


def caught_by():
    """Return the table that CAUGHT_BY holds."""
    return json.loads(CAUGHT_BY.read_text())


def remember(caught):
    """Write the seeds and tests that noticed these mutants to CAUGHT_BY."""
    known = {**caught_by(), **{one.name: one.by for one in caught if one.by is not None}}
    CAUGHT_BY.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def apply_patch(patch, folder):
    """Apply a patch to the files below folder. Raises: StalePatchError."""
    for path, text in patched_files(patch, folder).items():
        path.write_text(text)


def is_walked(patch):
    """Return whether a patch breaks only code that tests.simulation.exhaustive runs."""
    return all(path.parent == ROOT / "rebalance" for path in patched_files(patch))


def run_mutant(patch, seeds=MOST_SEEDS, *, walked=False):
    """Run the seeds and tests known to notice the broken code; if they do not, run worlds until one fails.

    walked: let the small walk of tests.simulation.exhaustive look for it instead.
    """
    began = time.monotonic()
    description = patch.read_text().partition("\n")[0]
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        for beside in ROOT.iterdir():
            if beside.name not in PACKAGES and not beside.name.startswith("."):
                (folder / beside.name).symlink_to(beside)
        apply_patch(patch, folder)
        by, check = None, ""
        for command in _commands(patch, seeds, walked):
            done = subprocess.run(
                [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
            )
            by, check = _verdict(command, done)
            if check:
                break
    return Caught(patch.stem, description, by, check, time.monotonic() - began)


def _commands(patch, seeds, walked):
    if walked:
        return [["tests.simulation.exhaustive", "--small"]]
    known = caught_by().get(patch.stem)
    if isinstance(known, str):
        # method thread: a signal may interrupt an instruction without a line, which pytest cannot show
        bound = ["--timeout", "30", "--timeout-method", "thread"]
        return [["pytest", "-q", "-p", "no:cacheprovider", *bound, known]]
    worlds = ["tests.simulation", "--brief", *(["--led"] if patch.stem.startswith("led-") else [])]
    search = [*worlds, "--seeds", str(seeds)]
    return [search] if known is None else [[*worlds, "--seeds", "1", "--first", str(known)], search]


def _verdict(command, done):
    """Return the seed or the test that noticed, and the check. Raises: RuntimeError if the command could not run."""
    if done.returncode == 0:
        return None, ""
    if command[0] == "pytest":
        # 1: the test failed, or did not end; any other code: pytest could not run the test
        if done.returncode == 1:
            return command[-1], "a test"
    elif found := re.search(r"^(?:seed (\d+)|broken): ([^:]+):", done.stdout, re.MULTILINE):
        return int(found[1] or 0), found[2]
    raise RuntimeError(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def run_mutants(patches, seeds=MOST_SEEDS, processes=2, *, walked=False):
    """Yield a Caught for each patch, in order; `processes` mutants run at a time."""
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(lambda patch: run_mutant(patch, seeds, walked=walked), patches)
