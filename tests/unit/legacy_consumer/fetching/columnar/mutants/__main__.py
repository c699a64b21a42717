"""Which deliberate breakages of the message path its tests notice; `make mutants` runs this, too."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.simulation.mutation import PACKAGES, ROOT, apply_patch, patched_files

PATCHES = Path(__file__).parent
ROOM = "tests/unit/legacy_consumer/fetching/columnar"
JUDGES = (
    f"{ROOM}/test_fetch_core.py",
    f"{ROOM}/test_core_schedules.py",
    f"{ROOM}/test_brokers_that_fail.py",
    f"{ROOM}/test_trust_in_brokers.py",
    f"{ROOM}/../test_positions.py",
    f"{ROOM}/../test_fetcher_loaded.py",
    f"{ROOM}/records/test_records_formats.py",
    f"{ROOM}/records/test_records_damaged.py",
)
SPARK_JUDGES = (
    "tests/contract/test_columnar_ranges.py",
    "tests/unit/spark_source/test_message_tasks.py",
    "tests/unit/spark_source/test_stream_driver.py",
)
"""The tests for mutants of spark_source."""
NATIVE_JUDGES = (f"{ROOM}/records/test_records_native.py",)
"""The tests for mutants of the native decoder; each of these mutants is compiled."""
CORE_SCHEDULES = "5000"


def all_patches():
    """Return the patches, sorted by name."""
    return sorted(PATCHES.glob("*.patch"))


def is_native(patch):
    """Return whether the patch breaks the native decoder."""
    return any(path.suffix == ".rs" for path in patched_files(patch))


def _compile(folder):
    """Compile the broken decoder, and put it where Python finds it before the installed decoder."""
    built = ROOT / "build/native/mutants"
    command = ["cargo", "build", "--quiet", "--features", "python", "--target-dir", str(built)]
    environment = {**os.environ, "PYO3_BUILD_EXTENSION_MODULE": "1"}
    subprocess.run(command, cwd=folder / "native", env=environment, check=True)
    shutil.copy(built / "debug/liblegacy_consumer_native.so", folder / "legacy_consumer_native.so")


def noticed_by(patch):
    """Return the first test that fails on the broken code, in a copy of the tree; None if no test fails."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for package in (*PACKAGES, "spark_source"):
            # without bytecode: Python compiles the broken file
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__", "data", "spark"))
        (folder / "tests/data").symlink_to(ROOT / "tests/data")
        shutil.copy(ROOT / "pyproject.toml", folder)
        shutil.copytree(ROOT / "native", folder / "native", ignore=shutil.ignore_patterns("target"))
        apply_patch(patch, folder)
        if is_native(patch):
            _compile(folder)
        is_sparks = any("spark_source" in path.parts for path in patched_files(patch))
        judges = NATIVE_JUDGES if is_native(patch) else SPARK_JUDGES if is_sparks else JUDGES
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout", "60", *judges]
        environment = {
            "PYTHONPATH": str(folder),
            "PATH": "/usr/bin:/bin",
            "HOME": name,
            "CORE_SCHEDULES": CORE_SCHEDULES,
        }
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"^(?:FAILED|ERROR) \S+::(\S+)", done.stdout, re.MULTILINE)
    if found is None and done.returncode != 0:
        raise RuntimeError(f"{patch.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found and found[1]


def main():
    """Print a table. Returns: the exit code, 1 if no test noticed a mutant."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these (default: all)")
    chosen = parser.parse_args()
    patches = [patch for patch in all_patches() if not chosen.names or patch.stem in chosen.names]
    if shutil.which("cargo") is None:
        print("cargo is not installed, so the native decoder is not broken")
        patches = [patch for patch in patches if not is_native(patch)]
    missed = 0
    with ThreadPoolExecutor(2) as pool:
        for patch, test in zip(patches, pool.map(noticed_by, patches), strict=True):
            missed += test is None
            print(f"{patch.stem:<38} {test or 'NOT CAUGHT'}", flush=True)
    print(f"{len(patches) - missed} of {len(patches)} mutants of the message path caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
