"""Measures the cost of a change over partitions and members: python -m benchmarks.growth [--partitions N ...]

Each point is a group that starts, then one member joins and one leaves, as in grouping.py, with all members of a side
in one process. The points are written to results/growth.json beside the points of earlier runs, drawn as
docs/growth.svg, and put into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.comparison import Effort
from benchmarks.grouping import JOIN_REQUESTS, JOIN_S, LEAVE_S, START_S, Changes, GroupScene
from benchmarks.growth_picture import draw
from benchmarks.observer import NotSettledError
from benchmarks.processes import Side
from benchmarks.report import commit_measured, today
from zk_layout.errors import LegacyConsumerError

_HERE = Path(__file__).resolve().parent
RESULTS = _HERE / "results" / "growth.json"
DOCS = _HERE.parent / "docs" / "benchmarks.md"
PICTURE = _HERE.parent / "docs" / "growth.svg"

POINTS = {50: (16,), 500: (1, 4, 16, 50, 100), 1000: (16,), 2000: (16,), 5000: (16, 100)}
"""{partitions: numbers of members}."""

_BEGIN, _END = "<!-- growth: written by `python -m benchmarks.growth` -->", "<!-- end of growth -->"


@dataclass(frozen=True, slots=True)
class Point:
    """Medians of several rounds: seconds of each change, and ZooKeeper's requests for a join; and of which commit."""

    side: Side
    members: int
    partitions: int
    start_s: float
    join_s: float
    leave_s: float
    join_requests: float
    commit: str
    date: str

    @property
    def key(self) -> tuple[int, int, str]:
        """The point's identity, by which the table is sorted."""
        return self.partitions, self.members, self.side


def measure(
    partitions: int, members: tuple[int, ...], sides: tuple[Side, ...], rounds: int, commit: str
) -> Iterator[Point]:
    """Measure the points of one topic."""
    with GroupScene(partitions).open(Effort(None, False)) as stage:
        for count in members:
            for side in sides:
                figures = [Changes(side, count, in_one_process=True).measure(stage) for _ in range(rounds)]
                medians = {name: statistics.median(one[name] for one in figures) for name in figures[0]}
                yield Point(
                    side,
                    count,
                    partitions,
                    round(medians[START_S], 3),
                    round(medians[JOIN_S], 3),
                    round(medians[LEAVE_S], 3),
                    medians[JOIN_REQUESTS],
                    commit,
                    today(),
                )


def read() -> list[Point]:
    """Return the points of earlier runs."""
    if not RESULTS.exists():
        return []
    return [Point(**entry) for entry in json.loads(RESULTS.read_text(encoding="utf-8"))]


def table(points: list[Point]) -> str:
    """Return the table in Markdown: our figures, and the JVM's in brackets."""
    known = {point.key: point for point in points}
    rows = [
        "| Partitions | Members | Start, s | Join, s | Leave, s | Requests of a join | Ours measured |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for partitions, members in sorted({point.key[:2] for point in points}):
        cells = [f"{partitions:,}", str(members)]
        for name in ("start_s", "join_s", "leave_s", "join_requests"):
            shown = [
                f"{getattr(known[partitions, members, side], name):{',.0f' if name == 'join_requests' else '.2f'}}"
                if (partitions, members, side) in known
                else "-"
                for side in ("ours", "jvm")
            ]
            cells.append(f"{shown[0]} ({shown[1]})")
        own = known.get((partitions, members, "ours"))
        cells.append("-" if own is None else f"{own.commit}, {own.date}")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def write(points: list[Point]) -> None:
    """Write the file, the picture and the table in the document."""
    points = sorted(points, key=lambda point: point.key)
    RESULTS.write_text(json.dumps([asdict(point) for point in points], indent=2) + "\n", encoding="utf-8")
    PICTURE.write_text(draw(points), encoding="utf-8")
    text = f"{_BEGIN}\n{table(points)}\n{_END}"
    document = DOCS.read_text(encoding="utf-8")
    between = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)
    DOCS.write_text(between.sub(lambda _: text, document), encoding="utf-8")


def main() -> int:
    """Measure the chosen points, and write them with the points of earlier runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, nargs="*", choices=POINTS, help="only these (default: all)")
    parser.add_argument("--members", type=int, nargs="*", help="only these of each")
    parser.add_argument("--side", choices=("ours", "jvm"), help="only this one")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of each point (default %(default)s)")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw what is known")
    options = parser.parse_args()
    commit = commit_measured()
    chosen = list(POINTS) if options.partitions is None else options.partitions
    try:
        for partitions in [] if options.draw else chosen:
            members = tuple(n for n in POINTS[partitions] if not options.members or n in options.members)
            sides: tuple[Side, ...] = (options.side,) if options.side else ("ours", "jvm")
            for point in measure(partitions, members, sides, options.rounds, commit):
                print(asdict(point), file=sys.stderr, flush=True)
                # at once, so that a later failure loses no point
                write(list({known.key: known for known in (*read(), point)}.values()))
        if options.draw:
            write(read())
    except (LegacyConsumerError, NotSettledError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
