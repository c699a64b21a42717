"""Benchmarks are never tests; these tests check that names, documents and results of benchmarks agree."""

import fnmatch
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import growth, report
from benchmarks.comparison import CPU_US, Comparison, Effort, Result, summarise
from benchmarks.durations import Durations
from benchmarks.growth_picture import draw
from benchmarks.kill import DeliveryLog
from benchmarks.load import LoadMeter
from benchmarks.observer import Requests, heartbeats_of
from benchmarks.registry import BENCHMARKS
from benchmarks.report import LATEST, merged, table

ROOT = Path(__file__).parents[2]
SHAPE = {
    "name": str,
    "unit": str,
    "ours": float | int,
    "peer": float | int,
    "ratio_min": float | int,
    "ratio_median": float | int,
    "ratio_max": float | int,
    "better": str,
    "date": str,
    "commit": str,
    "stolen": float | int | None,
    "others": float | int | None,
    "cpu_us": float | int | None,
}


def result(name, median=1.0):
    return Result(name, "s", 1.0, 1.0, median, median, median, "lower")


def test_every_benchmark_that_a_document_names_exists():
    named = re.compile(r"\b[a-z]\w*_vs_\w+")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for name in named.findall(path.read_text(encoding="utf-8")):
            assert fnmatch.filter(BENCHMARKS, name), f"{path.name} names {name}"


def test_a_benchmark_is_listed_under_its_own_name():
    assert all(name == comparison.name for name, comparison in BENCHMARKS.items())
    listed = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(BENCHMARKS)


def test_an_unknown_name_is_refused_in_one_line():
    asked = subprocess.run([sys.executable, "-m", "benchmarks", "nonsense"], cwd=ROOT, capture_output=True, text=True)
    assert asked.returncode == 2
    assert asked.stderr == "no benchmark is called nonsense: see python -m benchmarks --list\n"


@pytest.mark.skipif(not LATEST.exists(), reason="no benchmark was run yet")
def test_the_latest_results_have_their_shape():
    entries = json.loads(LATEST.read_text(encoding="utf-8"))
    assert entries
    for entry in entries:
        assert list(entry) == list(SHAPE)
        assert all(isinstance(entry[key], kind) for key, kind in SHAPE.items())
        assert entry["name"] in BENCHMARKS
        assert entry["better"] in ("higher", "lower")
        assert 0 < entry["ratio_min"] <= entry["ratio_median"] <= entry["ratio_max"]


class Side:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


class Stage:
    rounds = 5

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


def test_how_long_a_run_takes_is_what_its_scenes_and_contenders_took(tmp_path):
    ours, peer, other = Side("ours"), Side("peer"), Side("other")
    one, two = Stage("one"), Stage("two")
    compared = [
        Comparison("a_vs_b", "", one, ours, peer, "f", "s", "lower"),
        Comparison("a_vs_c", "", one, ours, other, "f", "s", "lower"),
        Comparison("d_vs_e", "", two, ours, peer, "f", "s", "lower"),
    ]
    durations = Durations(tmp_path / "durations.json")
    for scene, seconds in ((one, 10.0), (two, 20.0)):
        durations.note(scene, None, seconds)
        durations.note(scene, ours, 1.0)
        durations.note(scene, peer, 2.0)
    assert durations.seconds(compared, Effort(None, quick=False)) == (10 + 5 * 3 + 20 + 5 * 3, ["one: other"])
    assert "never measured: one: other" in durations.announcement(compared, Effort(None, quick=False))
    durations.note(one, other, 4.0)
    durations.note(one, ours, 90.0)  # an outlier of a busy machine
    durations.write()
    read = Durations(tmp_path / "durations.json")
    assert read.seconds(compared, Effort(None, quick=False)) == (10 + 5 * 7 + 20 + 5 * 3, [])
    assert read.seconds(compared[:1], Effort(2, quick=False)) == (10 + 2 * 3, [])
    assert "they take about 1 min" in read.announcement(compared, Effort(None, quick=False))


def test_no_two_scenes_share_their_durations():
    scenes = {comparison.scene for comparison in BENCHMARKS.values()}
    assert len({str(scene) for scene in scenes}) == len(scenes)


def test_the_headlines_take_at_most_twelve_minutes():
    headlines = [comparison for comparison in BENCHMARKS.values() if comparison.headline]
    seconds, unknown = Durations(report.DURATIONS).seconds(headlines, Effort(3, quick=False))
    assert unknown == []
    assert seconds < 12 * 60


def test_the_headlines_are_few_and_every_kind_of_benchmark_has_one():
    headlines = [name for name, comparison in BENCHMARKS.items() if comparison.headline]
    assert len(headlines) < len(BENCHMARKS) / 3
    kinds = {name.split("_")[0] for name in headlines}
    assert {"consume", "iterate", "commit", "join", "leave", "start", "describe", "spark"} <= kinds


def test_the_load_of_others_is_a_share_of_the_machine():
    meter = LoadMeter()
    sum(range(2_000_000))
    load = meter.read()
    assert load is None or (0 <= load.stolen <= 1 and 0 <= load.others <= 1)


def test_a_ratio_is_of_one_round_not_of_two_medians():
    comparison = Comparison("x_vs_y", "", None, None, None, "f", "s", "lower")
    rounds = [({"f": 1.0, CPU_US: 3.0}, {"f": 10.0}), ({"f": 8.0, CPU_US: 5.0}, {"f": 20.0}), ({"f": 9.0}, {"f": 10.0})]
    summary = summarise(comparison, rounds)
    assert (summary.ours, summary.peer) == (8.0, 10.0)
    assert (summary.ratio_min, summary.ratio_median, summary.ratio_max) == (0.1, 0.4, 0.9)
    assert summary.cpu_us == 4.0


def test_a_run_of_some_keeps_the_results_of_the_others():
    earlier = [result("a"), result("b", 1.0), result("gone")]
    assert merged(earlier, [result("b", 2.0)], ["b", "a", "c"]) == [result("b", 2.0), result("a")]


def test_the_table_has_a_row_for_each_result():
    name = "commit_vs_jvm"
    rows = table([result(name, 21.5)], BENCHMARKS).splitlines()
    assert len(rows) == 3
    assert rows[2].startswith(f"| `{name}` |")
    assert "**21.5**" in rows[2]


def point(side, members, partitions, seconds=0.5):
    return growth.Point(side, members, partitions, seconds, seconds, seconds, 100, "1a2b3c4d", "2026-11-28")


def test_the_table_of_growth_puts_both_sides_into_one_row_and_says_what_was_not_measured():
    rows = growth.table([point("ours", 16, 500), point("jvm", 16, 500, 2.0), point("ours", 100, 5000)]).splitlines()
    assert rows[2:] == [
        "| 500 | 16 | 0.50 (2.00) | 0.50 (2.00) | 0.50 (2.00) | 100 (100) | 1a2b3c4d, 2026-11-28 |",
        "| 5,000 | 100 | 0.50 (-) | 0.50 (-) | 0.50 (-) | 100 (-) | 1a2b3c4d, 2026-11-28 |",
    ]


def test_the_picture_of_growth_has_a_dot_for_each_change_of_each_point():
    points = [point(side, members, 500) for side in ("ours", "jvm") for members in (1, 16)]
    picture = ET.fromstring(draw([*points, point("ours", 16, 5000), point("ours", 100, 5000)]))
    dots = [dot for dot in picture if dot.tag.endswith("circle")]
    # 4 points by members on 500 partitions, 3 by partitions of 16 members, and 1 of 100 members
    assert len(dots) == 3 * (4 + 3 + 1)
    assert {dot[0].text for dot in dots} >= {"ours, one joins: 0.5 s", "jvm, all start: 0.5 s"}


def test_the_picture_in_the_documents_is_of_the_points_that_were_measured():
    assert growth.PICTURE.read_text(encoding="utf-8") == draw(growth.read())


def test_a_log_of_deliveries_is_read_line_by_line_as_it_grows(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"1.5 3\nsomething to say\n2.5 4\n3.")
    log = DeliveryLog(path)
    assert log.news() == [(1.5, 3), (2.5, 4)]
    with path.open("ab") as end:
        end.write(b"5 5\n")
    assert log.news() == [(3.5, 5)]
    assert log.news() == []
    path.write_bytes(path.read_bytes() + b"4.5 6\n")
    log.skip()
    assert log.news() == []


CONNECTIONS = """ /127.0.0.1:50414[1](queued=0,recved=12,sent=13,sid=0x10001ffa3060004,lop=PING,est=1,to=6000,lcxid=0x4,lzxid=0x1,lresp=1,llat=0,minlat=0,avglat=0,maxlat=2)
 /127.0.0.1:50416[1](queued=0,recved=3,sent=3,sid=0x10001ffa3060005,lop=PING,est=1,to=6000,lcxid=0xffffffffffffffff,lzxid=0x1,lresp=1,llat=0,minlat=0,avglat=0,maxlat=2)
 /127.0.0.1:50420[0](queued=0,recved=1,sent=0)
"""  # noqa: E501  (as the server writes it)


def test_heartbeats_are_the_packets_without_a_number():
    assert heartbeats_of(CONNECTIONS) == {"0x10001ffa3060004": 7, "0x10001ffa3060005": 2}


def test_requests_are_counted_without_the_heartbeats_of_those_who_are_still_there():
    before = Requests(100, {"a": 10, "left": 3})
    assert Requests(130, {"a": 12, "joined": 1}).since(before) == 30 - 2 - 1
