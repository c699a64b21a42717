"""Runs simulated worlds and every command's help on each Python that pyproject.toml declares, except .venv's.

    python tests/pythons.py [VERSION ...]

The oldest and the newest of them on this machine, and each named Python, also run the unit tests. Each Python gets its
own environment, build/python-VERSION, which is kept until pyproject.toml or constraints.txt changes. A Python that this
machine does not have is reported as skipped; with CI set it fails the run, unless it is in RARE.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DECLARED = (ROOT / "pyproject.toml", ROOT / "constraints.txt")
OWN = "{}.{}".format(*sys.version_info[:2])
RARE = frozenset({"3.14"})
"""Versions that few distributions have yet: CI runs them only where they are installed."""
_STEP_S = 1800
_WORLDS = 400
"""The number of worlds to run: Pythons differ in the handler of an exception that interrupts a thread in a loop."""
_UNIT_TIER = {"the unit tier": ["-m", "pytest", "tests/unit", "-q", "-p", "no:cacheprovider", "-m", "not slow"]}
_QUICK_STEPS = {
    "the simulation": ["-m", "tests.simulation", "--seeds", str(_WORLDS)],
    "every command's help": [str(ROOT / "tests" / "every_help.py")],
}


def declared_versions() -> list[str]:
    """Return the versions that the package's classifiers name, oldest first."""
    text = DECLARED[0].read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def find_python(version: str) -> str | None:
    """Return an interpreter of this version that starts: on PATH, or the newest of pyenv's; None without one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = sorted(pyenv.glob(f"{version}.*/bin/python"), key=lambda path: int(path.parts[-3].rpartition(".")[2]))
    for candidate in (shutil.which(f"python{version}"), *map(str, reversed(kept))):
        if candidate and subprocess.run([candidate, "--version"], capture_output=True).returncode == 0:
            return candidate
    return None


def environment_of(version: str, python: str) -> Path:
    """Install an environment with everything that the tests need. Returns: its interpreter."""
    folder = ROOT / "build" / f"python-{version}"
    stamp, inside = folder / "installed", folder / "bin" / "python"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-compile")
    pip = [str(inside), "-m", "pip", "install", *quiet, "--use-pep517"]
    if not (stamp.exists() and all(stamp.stat().st_mtime > path.stat().st_mtime for path in DECLARED)):
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([*pip, "-c", "constraints.txt", "-e", ".[test]"], cwd=ROOT, check=True)
        stamp.touch()
    # `make` builds the wheel once for every Python
    for wheel in (ROOT / "build" / "native" / "wheels").glob("*.whl"):
        subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return inside


def run_in(inside: Path | None, steps: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Run the steps in one environment. Returns: (passed, failed or skipped, with a reason; a failed step's output)."""
    if inside is None:
        return "skipped: it is neither on PATH nor in pyenv", ""
    told = []
    for what, words in steps.items():
        done = subprocess.run([str(inside), *words], cwd=ROOT, capture_output=True, text=True, timeout=_STEP_S)
        if done.returncode:
            return f"failed: {what}, exit {done.returncode}", done.stdout + done.stderr
        told.append(done.stdout.strip().splitlines()[-1])
    return "passed: " + "; ".join(told), ""


def main(versions: list[str]) -> int:
    """Run on each version. Returns: 1 if one failed, or could not run in CI; else 0."""
    wanted = versions or [version for version in declared_versions() if version != OWN]
    pythons = {version: find_python(version) for version in wanted}
    # one after the other: each installation writes the package's metadata into this folder
    inside = [python and environment_of(version, python) for version, python in pythons.items()]
    found = [one for one in inside if one is not None]
    whole = found if versions else [*found[:1], *found[-1:]]
    steps = [_UNIT_TIER | _QUICK_STEPS if one in whole else _QUICK_STEPS for one in inside]
    failed = False
    # one more than there are processors, because some tests wait
    with concurrent.futures.ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        for version, (verdict, printed) in zip(wanted, pool.map(run_in, inside, steps), strict=True):
            print(printed[-8000:], end="", file=sys.stderr)
            print(f"Python {version} {verdict}", flush=True)
            is_missed = verdict.startswith("skipped") and "CI" in os.environ and version not in RARE
            failed |= verdict.startswith("failed") or is_missed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
