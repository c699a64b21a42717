"""The examples of spark_source."""

import importlib.util
import subprocess
import sys
import uuid
from datetime import datetime
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.sandbox.quickstart.flights import find_flights, read_flights
from tests.spark.conftest import ROOT, Tree, child_environment, store_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end, with its temporary files in the folder."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    env = child_environment(TMPDIR=str(temporary), **environment)
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=360, check=False
    )


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_stream_takes_a_group_over_and_hands_it_back(spark, kafka, tmp_path, capsys):
    takeover = example("takeover")
    records = list(islice(read_flights(find_flights()), 6000))
    assert takeover.hand_over_and_back(spark, kafka, tmp_path, records) == takeover.delays_of(records)
    told = capsys.readouterr().out
    assert "Spark took over, aggregated " in told
    assert "the group is 0 messages behind in 3 partitions, says zk_offsets" in told


def test_a_stream_joins_two_topics_also_over_a_stop(spark, kafka, tmp_path):
    # 15 of the 200 payments and their orders come on different sides of the stop
    assert example("join_streams").join_twice(spark, kafka, tmp_path, 400) == (85, 200)


@pytest.fixture
def lag_history():
    return example("lag_history")


def test_a_lag_history_is_kept_and_drawn(spark, kafka, tmp_path, lag_history):
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=1)
    produce_all(topic, [(None, b"x", 0)] * 40, {"bootstrap.servers": kafka.bootstrap_servers})
    with store_of(kafka.zookeeper_connect) as store:
        Tree(kafka.zookeeper_connect, store).commit("watched", topic, 0, 25)
    lag_history.keep(spark, tmp_path, kafka.zookeeper_connect, "watched", every=0.1, snapshots=2)
    topics = lag_history.topics_of(spark, tmp_path, "watched")
    assert list(topics) == [topic]
    history = lag_history.total(topics)
    assert len(history) >= 2
    assert {lag for _, lag in history} == {15}
    assert lag_history.drawing("watched", history).startswith("watched: lag 15, at most 15\n|██")


class Watched:
    """Stands for Spark: a query that reports its progress once for each second of waiting."""

    def __init__(self, *reports):
        self._left = list(reports)
        self.recentProgress = []
        self.is_stopped = False

    def __getattr__(self, _):
        return self if _ in {"readStream", "writeStream"} else lambda *_: self

    def awaitTermination(self, _):  # noqa: N802 - Spark's name
        self.recentProgress.append(self._left.pop(0))
        return False

    def stop(self):
        self.is_stopped = True


def report(number, rows=0, **durations):
    return {"batchId": number, "numInputRows": rows, "durationMs": {"latestOffset": 1, **durations}}


def test_only_snapshots_that_were_taken_are_counted(tmp_path, lag_history, capsys):
    query = Watched(report(0, 3, addBatch=5), report(1), report(1), report(1, 4, addBatch=5), report(2))
    lag_history.keep(query, tmp_path, "z:2181", "*", every=30, snapshots=2)
    assert capsys.readouterr().out == "snapshot 0: 3 partitions\nsnapshot 1: 4 partitions\n"
    assert query.is_stopped


TIMES = [datetime(2013, 1, 1, 5, minute) for minute in range(5)]  # noqa: DTZ001


def test_a_history_is_a_picture_with_a_line_for_each_topic(lag_history):
    topics = {"a<b": list(zip(TIMES, (0, 5, 10, 5, 0), strict=True)), "c": [(TIMES[0], 20), (TIMES[4], 20)]}
    assert lag_history.total(topics) == list(zip(TIMES, (20, 5, 10, 5, 20), strict=True))
    picture = ET.fromstring(lag_history.picture("g & h", topics))
    svg = "{http://www.w3.org/2000/svg}"
    lines = [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in picture.iter(f"{svg}polyline")
    ]
    top, bottom = lag_history.TOP + 2 * lag_history.LINE, lag_history.PICTURE[1] - lag_history.BOTTOM
    left, right = lag_history.LEFT, lag_history.PICTURE[0] - lag_history.RIGHT
    assert [y for _, y in lines[0]] == [
        bottom,
        bottom - (bottom - top) / 4,
        (top + bottom) / 2,
        bottom - (bottom - top) / 4,
        bottom,
    ]
    assert lines[1] == [(left, top), (right, top)]
    texts = [text.text for text in picture.iter(f"{svg}text")]
    assert texts == [
        "lag of g & h", "0", "10", "20", "2013-01-01 05:00:00", "2013-01-01 05:04:00", "a<b: 0", "c: 20",
    ]  # fmt: skip


def test_a_history_is_drawn_as_blocks_of_the_highest_lag(lag_history):
    times = TIMES
    drawn = lag_history.drawing("g", list(zip(times, (0, 50, 100, 25, 0), strict=True)))
    assert drawn == "g: lag 0, at most 100\n| ▄█▂ |\n2013-01-01 05:00:00 to 2013-01-01 05:04:00, 5 snapshots"
    assert lag_history.drawing("g", []) == "no lag of g in this table"


@pytest.mark.parametrize("name", ["takeover", "lag_history", "load_with_offsets", "join_streams"])
def test_the_help_of_an_example_shows_how_to_run_it(name, tmp_path):
    done = run(tmp_path, str(ROOT / "examples" / f"{name}.py"), "--help")
    assert done.returncode == 0
    assert "Example: python examples/" in done.stdout
