"""Measures the cost of an idle member: python -m benchmarks.resting [--seconds N] [--side columnar|librdkafka|jvm]

A member with one stream and the default settings, in a process of its own, owns 40 partitions of one real broker
without a producer. Once it has settled, the benchmark reads the processor time and the wake-ups of all its threads
twice, N seconds apart, and the number of ZooKeeper requests meanwhile, heartbeats not counted. Processor time hardly
depends on other work of the machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.comparison import Effort
from benchmarks.grouping import GroupScene, GroupStage
from benchmarks.processes import Side
from benchmarks.report import commit_measured, today

RESULTS = Path(__file__).resolve().parent / "results" / "resting.json"

_PARTITIONS = 40
_SIDES: Mapping[str, Side] = {"columnar": "ours", "librdkafka": "librdkafka", "jvm": "jvm"}


@dataclass(frozen=True, slots=True)
class Rest:
    """The cost of one idle member.

    busy_percent: share of a core. wake_ups_a_second: of all threads together. asked: number of ZooKeeper requests.
    threads: {name and number: (percent of a core, wake-ups a second)}, without threads that wake up less often than
    once in two seconds.
    """

    side: str
    seconds: float
    busy_percent: float
    wake_ups_a_second: float
    asked: int
    threads: dict[str, tuple[float, float]]


def _used(pid: int) -> dict[str, tuple[int, int]]:
    """Return {thread: (nanoseconds of processor time, number of voluntary context switches)}."""
    used = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (thread / "status").read_text(encoding="utf-8").splitlines())
        nanoseconds = int((thread / "schedstat").read_text(encoding="ascii").split()[0])
        used[f"{status['Name'].strip()} {thread.name}"] = (nanoseconds, int(status["voluntary_ctxt_switches"]))
    return used


def measure(stage: GroupStage, side: str, seconds: float) -> Rest:
    """Let a member join and settle, and measure it while it rests."""
    group, crew = stage.new_group(_SIDES[side], 1)
    crew.join(0, 1)
    asked = stage.observer.wait_until_settled(group, 1).requests
    (pid,) = crew.pids
    before, began = _used(pid), time.monotonic()
    time.sleep(seconds)
    after, took = _used(pid), time.monotonic() - began
    threads = {
        name: ((used - before.get(name, (0, 0))[0]) / 1e7 / took, (waits - before.get(name, (0, 0))[1]) / took)
        for name, (used, waits) in after.items()
    }
    rest = Rest(
        side=side,
        seconds=round(took, 1),
        busy_percent=round(sum(share for share, _ in threads.values()), 3),
        wake_ups_a_second=round(sum(waits for _, waits in threads.values()), 1),
        asked=stage.observer.requests().since(asked),
        threads={
            name: (round(share, 3), round(waits, 1)) for name, (share, waits) in sorted(threads.items()) if waits >= 0.5
        },
    )
    crew.leave(0, 1)
    return rest


def main() -> None:
    """Measure, print, and write results/resting.json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resting", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="default %(default)g")
    parser.add_argument("--side", choices=_SIDES, action="append", help="default: all")
    options = parser.parse_args()
    rests = []
    commit = commit_measured()
    with GroupScene(_PARTITIONS).open(Effort(1, quick=False)) as stage:
        for side in options.side or _SIDES:
            rests.append(measure(stage, side, options.seconds))
            print(json.dumps(asdict(rests[-1])), flush=True)
    if not options.side:
        told = {"commit": commit, "date": today(), "sides": [asdict(rest) for rest in rests]}
        RESULTS.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
