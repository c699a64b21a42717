"""Most worlds run in a separate process from the start of the test session: unit tests leave a processor free."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.running import DEFAULT_SEEDS, FEW_SEEDS

ROOT = Path(__file__).parents[2]
_PROCESSES = min(4, os.cpu_count() or 1)
_NICE = 10
"""The niceness of the worlds' process: some other tests measure time and must go first."""


class ManyWorlds:
    """The run of many worlds: begins when the tests are collected, or when a test asks; ends with the session."""

    def __init__(self):
        self.process = None

    def begin(self):
        if self.process is None:
            seeds = ["--first", str(FEW_SEEDS), "--seeds", str(DEFAULT_SEEDS - FEW_SEEDS), "--stop-after", "5"]
            command = [sys.executable, "-m", "tests.simulation", *seeds, "--processes", str(_PROCESSES)]
            niced = ["nice", "-n", str(_NICE), *command]
            self.process = subprocess.Popen(
                niced, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
            )

    def outcome(self):
        """Wait for the process. Returns: its exit code and its output."""
        self.begin()
        told = self.process.stdout.read()
        return self.process.wait(), told

    def end(self):
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # the group: its child processes, too
            self.process.communicate()


_worlds = ManyWorlds()


def pytest_collection_finish(session):
    is_wanted = any("many_worlds" in getattr(item, "fixturenames", ()) for item in session.items)
    if is_wanted and not session.config.option.collectonly:
        _worlds.begin()


def pytest_sessionfinish():
    _worlds.end()


@pytest.fixture
def many_worlds():
    return _worlds
