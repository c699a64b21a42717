"""The contract of a store, and the table of kazoo's names, with the oldest kazoo that pyproject.toml allows.

All other tests use the newest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiers import CannotRunError

ROOT = Path(__file__).resolve().parents[2]
SUITE = (
    "tests/contract/test_store_contract.py",
    "tests/contract/test_kazoo_store.py",
    "tests/contract/test_kazoo_sasl.py",
    "tests/contract/test_shutdown.py",
    "tests/unit/zk_layout/test_kazoo_names.py",
)


@pytest.fixture
def oldest_kazoo() -> Path:
    """Return a folder with only the oldest kazoo, named after its version. In PYTHONPATH it hides the installed one."""
    (version,) = re.findall(r'"kazoo>=([\d.]+),', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folder = ROOT / "build" / f"kazoo-{version}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
        command = [*pip, "--no-deps", "--target", str(part), f"kazoo=={version}"]
        installed = subprocess.run(command, capture_output=True, text=True)
        if installed.returncode:
            *_, reason = ["no reason", *installed.stderr.splitlines()]
            raise CannotRunError(f"pip could not install kazoo {version}: {reason}")
        part.rename(folder)
    return folder


def run_with(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.zookeeper
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_store_over_the_oldest_kazoo_that_is_allowed_keeps_every_promise(oldest_kazoo):
    version = run_with(oldest_kazoo, "-c", "import kazoo.version as kazoo; print(kazoo.__version__)").stdout
    assert version.startswith(oldest_kazoo.name.removeprefix("kazoo-")), version
    options = ("-q", "-p", "no:cacheprovider", "--all-tiers", "-k", "not memory")
    ended = run_with(oldest_kazoo, "-m", "pytest", *options, *SUITE)
    assert ended.returncode == 0, ended.stdout[-8000:]
