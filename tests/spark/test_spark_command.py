import json
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from legacy_consumer.sandbox.servers.waiting import wait_for
from spark_source.__main__ import print_table
from spark_source.offsets import COLUMNS
from tests.spark.conftest import child_environment

pytestmark = [pytest.mark.slow]


def run(folder: Path, *arguments: str):
    """Run the command in the folder. Returns: (the finished process, the files that it left)."""
    command = [sys.executable, "-m", "spark_source", *arguments]
    done = subprocess.run(command, cwd=folder, env=child_environment(), capture_output=True, text=True, timeout=240)
    return done, sorted(path.name for path in folder.iterdir())


def test_a_group_is_printed_as_json_lines_and_nothing_is_left(tree, tmp_path):
    tree.commit("g", "t", 1, 7)
    tree.commit("g", "t", 0, 5)
    tree.own("g", "t", 0, "g_host-1-0")
    tree.commit("other", "t", 0, 9)
    now = time.time()
    done, left = run(tmp_path, "--zookeeper", tree.connect, "--group", "g", "--json")
    assert (done.returncode, done.stderr, left) == (0, "", [])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(row) for row in rows] == [[column.name for column in COLUMNS]] * 2
    assert [(row["partition"], row["committed_offset"], row["owner"]) for row in rows] == [
        (0, 5, "g_host-1-0"),
        (1, 7, None),
    ]
    assert abs(datetime.fromisoformat(rows[0]["commit_time"]).timestamp() - now) < 60


def test_a_table_for_people_names_broken_znodes_below_it(spark, tree, capsys):
    tree.commit("g", "flights", 0, "five")
    print_table(spark.read.format("zk_offsets").option("zookeeper.connect", tree.connect).load().collect())
    printed = capsys.readouterr().out
    assert "committed_offset" in printed
    assert printed.splitlines()[-1].startswith("g flights/0: /consumers/g/offsets/flights/0 holds b'five'")


def test_each_error_of_the_command_is_one_line(tree, tmp_path):
    done, left = run(tmp_path, "--zookeeper", tree.connect, "--group", "nobody")
    assert (done.returncode, done.stdout, left) == (1, "", [])
    assert done.stderr.startswith("error: no such group under /consumers: nobody; ")
    assert len(done.stderr.splitlines()) == 1


def test_a_command_that_is_ended_takes_its_spark_with_it(tree, tmp_path):
    tree.commit("g", "t", 0, 5)
    folder = tmp_path / "tmp"
    folder.mkdir()
    command = [sys.executable, "-m", "spark_source", "--zookeeper", tree.connect, "--group", "g"]
    env = child_environment(TMPDIR=str(folder))
    child = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # once Spark has made its own folder beside its log, it runs
    wait_for(lambda: any(folder.glob("spark-*/blockmgr-*")), 120, lambda: AssertionError("no Spark after 120 s"))
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=60)
    assert (child.returncode, out) == (128 + signal.SIGTERM, b"")
    assert list(folder.iterdir()) == []
