"""A run of the tests reports what it could not run and what it left behind; checked on small test runs."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import LANES, QUICK_LANES, Lane, paths_of
from tests.support import leaks
from tests.support.tiers import QUICK_TIERS, TIERS

TESTS = Path(__file__).parents[1]


@pytest.fixture
def run_tests(tmp_path):
    """Return a function that runs pytest on {path under tests/: source} with our conftest: (exit code, output)."""

    def run(files: dict[str, str], *options: str, **environment: str) -> tuple[int, str]:
        shutil.copy(TESTS.parent / "pyproject.toml", tmp_path)
        shutil.copytree(TESTS / "support", tmp_path / "tests" / "support", dirs_exist_ok=True)
        shutil.copy(TESTS / "conftest.py", tmp_path / "tests")
        for name, source in files.items():
            path = tmp_path / "tests" / name
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(source)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "JAVA_HOME")}
        done = subprocess.run(
            command, cwd=tmp_path, env=kept | environment, capture_output=True, text=True, timeout=110
        )
        return done.returncode, done.stdout + done.stderr

    return run


PASSES = "def test_passes(): pass\n"


def test_plain_run_leaves_out_what_needs_servers(run_tests):
    status, output = run_tests({"unit/test_a.py": PASSES, "interop/test_b.py": PASSES})
    assert status == 0
    assert "1 tests need servers or time and were left out" in output
    assert "1 passed" in output


NO_DECODER = """
from importlib.machinery import PathFinder

found = PathFinder.find_spec
PathFinder.find_spec = classmethod(
    lambda cls, name, *rest: None if name == "legacy_consumer_native" else found(name, *rest)
)
"""


def test_tests_of_the_decoder_are_skipped_by_name_without_it_and_fail_in_ci(run_tests):
    files = {
        "unit/test_a.py": PASSES,
        "unit/test_b.py": "from legacy_consumer.fetching.columnar.records import decode_records\n" + PASSES,
        "support/no_decoder.py": NO_DECODER,
    }
    status, output = run_tests(files, "-p", "tests.support.no_decoder", CI="true")
    assert status == 1
    assert "1 passed" in output
    assert "the crate in native/ is not built: `make native`, which needs cargo" in output
    assert "FAILED: with CI set every tier must run, and unit could not" in output


LONG = "import pytest\n@pytest.mark.long\ndef test_more(): pass\n"


def test_long_versions_of_a_test_run_only_on_request(run_tests):
    files = {"unit/test_a.py": PASSES, "unit/test_b.py": LONG}
    status, output = run_tests(files, "--all-tiers")
    assert status == 0
    assert "1 tests show a claim at more length and were left out" in output
    assert "1 passed" in output
    assert "2 passed" in run_tests(files, "--all-tiers", "--long")[1]
    assert "2 passed" in run_tests(files, "tests/unit")[1]


def test_lanes_have_every_test_once():
    found = [file for lanes in (QUICK_LANES, LANES) for lane in lanes for file in files_of(paths_of(lane, lanes))]
    assert sorted(found) == sorted(file for tier in TIERS for file in (TESTS / tier).rglob("test_*.py"))
    assert {path.partition("/")[0] for lane in QUICK_LANES for path in lane} == QUICK_TIERS


def files_of(paths):
    """Yield the test files that pytest finds with these arguments."""
    left_out = {path.removeprefix("--ignore=") for path in paths if path.startswith("--ignore=")}
    for path in set(paths) - {f"--ignore={path}" for path in left_out}:
        for file in (TESTS.parent / path).rglob("test_*.py"):
            if not any((TESTS.parent / folder) in file.parents for folder in left_out):
                yield file


def test_tier_that_cannot_run_is_skipped_with_its_reason(run_tests):
    status, output = run_tests({"unit/test_a.py": PASSES, "spark/test_b.py": PASSES}, "--all-tiers", PATH="")
    assert status == 0
    assert re.search(r"^spark +1 skipped .*\n +skipped 1: .*install Java 17", output, re.MULTILINE)
    assert "1 passed, 1 skipped" in output


def test_tier_that_cannot_run_fails_the_run_in_ci(run_tests):
    status, output = run_tests({"unit/test_a.py": PASSES, "spark/test_b.py": PASSES}, "--all-tiers", PATH="", CI="true")
    assert status == 1
    assert "FAILED: with CI set every tier must run, and spark could not" in output


def test_jars_that_cannot_be_had_skip_what_needs_them(run_tests):
    source = """
import pytest
from legacy_consumer.errors import JarsUnavailableError
from tests.support import tiers

tiers.NEEDS["kafka"] = lambda: None

@pytest.fixture
def broker():
    raise JarsUnavailableError("Kafka 1.1.1", "no network")

def test_one(broker): pass
def test_two(): pass
"""
    status, output = run_tests({"integration/test_a.py": source}, "--all-tiers")
    assert status == 0
    assert "skipped 2: the jars of Kafka 1.1.1 are not available: no network" in output


def test_a_need_of_one_test_that_cannot_be_had_skips_that_test_alone_and_fails_in_ci(run_tests):
    source = """
import pytest
from tests.support import tiers

tiers.NEEDS["zookeeper"] = lambda: None
pytestmark = pytest.mark.zookeeper

@pytest.fixture
def old_client():
    raise tiers.CannotRunError("pip could not install it")

def test_one(old_client): pass
def test_two(): pass
"""
    status, output = run_tests({"contract/test_a.py": source}, "--all-tiers")
    assert status == 0
    assert "skipped 1: pip could not install it" in output
    assert "1 passed, 1 skipped" in output
    status, output = run_tests({"contract/test_a.py": source}, "--all-tiers", CI="true")
    assert status == 1
    assert "FAILED: with CI set every tier must run, and contract could not" in output


def test_failing_quick_tier_spares_the_wait_for_servers(run_tests):
    files = {"unit/test_a.py": "def test_fails(): assert 1 == 2\n", "contract/test_b.py": PASSES}
    status, output = run_tests(files, "--all-tiers")
    assert status == 1
    assert "unit failed, so no server was started" in output
    assert "1 failed in" in output
    assert not re.search("^simulation", output, re.MULTILINE)


def test_anything_that_a_run_leaves_behind_fails_it(run_tests):
    # posix_spawn returns once the program runs; with fork a child would first show its parent's environment, unmarked
    source = """
import os
import socket
import tempfile
held = []
def test_process(): os.posix_spawnp("sleep", ["sleep", "300"], os.environ)
def test_port(): held.append(socket.create_server(("127.0.0.1", 0)))
def test_folder(): tempfile.mkdtemp(prefix="kafka-logs-")
"""
    status, output = run_tests({"unit/test_a.py": source}, **{leaks.PATIENCE: "1"})
    left = re.search(r"FAILED: the tests left behind: process (\d+) sleep 300", output)
    assert left is not None
    os.kill(int(left[1]), signal.SIGKILL)
    assert status == 1
    assert "3 passed" in output
    assert re.search(r"FAILED: the tests left behind: listening port \d+ of the test process", output)
    assert "FAILED: the tests left behind: temporary kafka-logs-" in output


def test_processes_of_another_run_are_not_ours():
    assert leaks.processes_left("a mark that no run has") == []


def test_the_sum_of_a_lane_is_pytests_whatever_a_thread_prints_behind_it(tmp_path):
    lane = Lane.__new__(Lane)
    lane.log = tmp_path / "log"
    lane.log.write_text(
        "=== 2 failed, 1255 passed in 9.0s ===\n%3|FAIL|rdkafka: Connect to ipv4#127.0.0.1:13433 failed: refused\n"
    )
    assert lane.counts() == {"failed": 2, "passed": 1255}
