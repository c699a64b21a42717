"""`make quickstart` as a user runs it: it proves its claims, and leaves nothing behind however it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from legacy_consumer.sandbox.quickstart.flights import FLIGHTS
from legacy_consumer.sandbox.servers.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

RUN = "LEGACY_CONSUMER_QUICKSTART_TEST"
COMMAND = [
    sys.executable,
    "-c",
    "import sys; from legacy_consumer.operations.cli import main; sys.exit(main())",
    "quickstart",
]
GONE_S = 15
SIDE_BY_SIDE = 2
"""Runs at a time, beside the whole one; each grows to three JVMs and four members."""
AT_SPARK = "has consumed and committed the rest"


class Quickstart:
    """A run in a session and a temporary folder of its own; a mark in the environment identifies its processes."""

    def __init__(self, folder: Path, *arguments: str, stderr=subprocess.STDOUT, **environment: str):
        folder.mkdir()
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", RUN: self.mark, **environment},
            start_new_session=True,
        )

    def read_until(self, words: str) -> None:
        for line in self.process.stdout:
            self.lines.append(line)
            if words in line:
                return
        raise AssertionError(f"it ended without {words!r}: {self.lines}")

    def read_rest(self) -> str:
        self.lines += self.process.stdout
        return "".join(self.lines)

    def processes(self) -> list[str]:
        """Return the command lines of all live processes with this run's mark."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{RUN}={self.mark}".encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
            except OSError:
                continue
        return found

    def left(self) -> list[str]:
        return self.processes() + [f"file {path.name}" for path in self.folder.iterdir()]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Start a run that no test interrupts. It runs beside the other tests, and the last test checks its report."""
    folder = tmp_path_factory.mktemp("whole")
    with (folder / "progress").open("w") as progress:
        running = Quickstart(folder / "run", "--json", stderr=progress)
        yield running
        running.close()
    wait_for(lambda: not running.left(), GONE_S, lambda: AssertionError(f"left: {running.left()}"))


@pytest.fixture
def quickstart(tmp_path):
    started = []

    def start(*arguments, **environment):
        started.append(Quickstart(tmp_path / f"run-{uuid.uuid4().hex}", *arguments, **environment))
        return started[-1]

    yield start
    for each in started:
        each.close()
        wait_for(lambda each=each: not each.left(), GONE_S, lambda each=each: AssertionError(f"left: {each.left()}"))


def side_by_side(look, moments):
    """Call look for each moment, some at a time. Returns: {moment: result}."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return dict(zip(moments, pool.map(look, moments), strict=True))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "moments",
    [
        ["killed with -9", "starting ZooKeeper"],
        pytest.param(
            # in an order in which no two runs use Spark, which takes most, at the same time
            ["Spark read", "member-1 joined", "ZooKeeper at", AT_SPARK, "member-4 joined", "grows to"],
            marks=pytest.mark.long,
        ),
    ],
    ids=["some", "more"],
)
def test_ctrl_c_leaves_nothing_at_any_moment(quickstart, moments):
    def interrupted(moment):
        running = quickstart()
        running.read_until(moment)
        os.killpg(running.process.pid, signal.SIGINT)  # a terminal also signals the whole foreground group
        said = running.read_rest()
        return running.process.wait(GONE_S), "Traceback" in said, running.left()

    assert side_by_side(interrupted, moments) == dict.fromkeys(moments, (130, False, []))


@pytest.mark.usefixtures("whole_run")
def test_two_runs_at_the_same_time_do_not_meet_and_end_with_an_impatient_ctrl_c_and_with_sigterm(quickstart):
    impatient = quickstart()
    impatient.read_until("member-1 joined")
    terminated = quickstart("--json")  # it starts well after the other run
    impatient.read_until("member-2 joined")
    while impatient.process.poll() is None:
        impatient.process.send_signal(signal.SIGINT)
        try:
            impatient.process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    assert impatient.process.returncode == 130
    assert "Traceback" not in impatient.read_rest()
    wait_for(lambda: not impatient.left(), GONE_S, lambda: AssertionError(f"left: {impatient.left()}"))
    terminated.read_until("member-1 joined")
    terminated.process.terminate()
    assert "Traceback" not in terminated.read_rest()
    assert terminated.process.wait(GONE_S) == 143
    assert terminated.left() == []


def ends_by_kill_9(running, moment):
    running.read_until(moment)
    running.process.kill()
    running.process.wait()
    wait_for(lambda: not running.left(), GONE_S, lambda: AssertionError(f"left: {running.left()}"))
    return True


def test_a_member_that_dies_by_itself_ends_its_run_with_one_line_and_kill_9_leaves_nothing(quickstart):
    dying = quickstart()
    dying.read_until("member-1 joined")
    killed = quickstart()
    pid = int(re.search(r"process (\d+)", dying.lines[-1])[1])
    os.kill(pid, signal.SIGKILL)
    last = dying.read_rest().splitlines()[-1]
    assert last == "Error: member-1 ended by itself with signal SIGKILL: it said nothing"
    assert dying.process.wait(GONE_S) == 1
    assert dying.left() == []
    assert ends_by_kill_9(killed, "member-2 joined")


@pytest.mark.long
def test_kill_9_leaves_nothing_at_later_moments(quickstart):
    moments = [AT_SPARK, "grows to"]
    ended = side_by_side(lambda moment: ends_by_kill_9(quickstart(), moment), moments)
    assert ended == dict.fromkeys(moments, True)


def test_without_java_the_error_is_one_line(quickstart, tmp_path):
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    running = quickstart(JAVA_HOME=str(nowhere))
    said = running.read_rest()
    nowhere.rmdir()
    assert running.process.wait(GONE_S) == 1
    assert said.splitlines()[-1].startswith("Error: ")
    assert "Java 17" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_it_proves_that_every_flight_was_delivered_and_that_the_fourth_member_idled(whole_run):
    printed = whole_run.read_rest()
    assert whole_run.process.wait(GONE_S) == 0, (whole_run.folder.parent / "progress").read_text()
    told = json.loads(printed)

    assert (told["flights"], told["delivered"], told["lost"]) == (FLIGHTS, FLIGHTS, 0)
    assert told["failures"] == []
    # only messages that the killed member had not committed were delivered twice
    assert told["duplicated"] == told["duplicated_by_kill"] > 0
    assert told["deliveries"] == sum(told["deliveries_by_member"].values()) == FLIGHTS + told["duplicated"]

    grown = next(one for one in told["timeline"] if one["members"] == 4)
    assert grown["event"] == "joined"
    assert sorted(grown["owners"].values()) == ["member-1", "member-2", "member-3"]
    assert told["idle"] == ["member-4"]
    assert [one["members"] for one in told["timeline"]] == [1, 2, 3, 4, 3, 2, 1, 0]
    assert [one["event"] for one in told["timeline"]] == ["joined"] * 4 + ["killed"] + ["left"] * 3
    # the idle member takes the partition over soon after the killed member's session has ended
    assert set(told["kill"]["successors"].values()) == {"member-4"}
    assert told["kill"]["expired_seconds"] <= told["kill_to_takeover_seconds"] < 20

    assert [row["partition"] for row in told["offsets"]] == [0, 1, 2]
    assert sum(row["committed_offset"] for row in told["offsets"]) == FLIGHTS
    assert [row["lag"] for row in told["offsets"]] == [0, 0, 0]
    assert {row["owner"] for row in told["offsets"]} == {"quickstart_member-1-0"}
    assert told["lag"] == 0
    # one topic is a queue within a group, and a broadcast to both
    assert sorted(told["two_groups"]["group1"]["group1-1"]) == ["1", "2", "3"]
    assert sorted(told["two_groups"]["group2"].values()) == [["1"], ["2"], ["3"]]
    assert whole_run.left() == []
