"""Runs every tier in two lanes at the same time, because most tests with servers wait more than they work.

    python -m tests.lanes [--quick] [PYTEST OPTIONS]

The tiers that need no server come first; if one of them fails, no server is started. --quick ends after them. Each lane
is a separate pytest with its own servers. The first lane shows its progress; the output of the second follows when both
have ended.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUICK_LANES = (("unit/legacy_consumer/member", "unit/legacy_consumer/fetching"), ("unit", "simulation"))
"""The folders of tests/ that need no server. The unit tests are divided so that both lanes take equally long."""
LANES = (("contract", "integration"), ("chaos", "interop", "spark", "containers"))
NOTHING_SELECTED = 5
"""pytest's exit code if -k or -m leaves no test of a lane."""
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed)\b")


class Lane:
    """One pytest over some folders. Its output goes to a file, and to the terminal too if it is shown."""

    def __init__(self, paths: list[str], options: list[str]) -> None:
        self.log = ROOT / "build" / f"{paths[0].replace('/', '-')}.log"
        self.log.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-u", "-m", "pytest", "--all-tiers", *options, *paths]
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    def wait(self, *, shown: bool) -> bool:
        """Wait until pytest has ended. shown: print its output meanwhile. Returns: whether no test failed."""
        with self.log.open("rb") as output:
            while True:
                ended = self._process.poll() is not None
                if shown:
                    sys.stdout.buffer.write(output.read())
                    sys.stdout.buffer.flush()
                if ended:
                    return self._process.returncode in (0, NOTHING_SELECTED)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(0.2)

    def end(self) -> None:
        """End pytest as Ctrl-C does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def counts(self) -> Counter[str]:
        """Return the numbers of pytest's last line; a thread of librdkafka may have written other lines after it."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        found = _COUNT.findall(next((line for line in reversed(lines) if line.startswith("==")), ""))
        return Counter({word.rstrip("s") if word.startswith("error") else word: int(number) for number, word in found})


def paths_of(folders: tuple[str, ...], lanes: tuple[tuple[str, ...], ...]) -> list[str]:
    """Return pytest's arguments to run these folders without the subfolders of another lane."""
    inside = [other for lane in lanes for other in lane if any(other.startswith(f"{folder}/") for folder in folders)]
    return [*(f"tests/{folder}" for folder in folders), *(f"--ignore=tests/{other}" for other in inside)]


def side_by_side(lanes: list[Lane], folders: tuple[tuple[str, ...], ...], options: list[str]) -> bool:
    """Run a pytest for each group of folders at the same time, and add each to lanes. Returns: whether none failed."""
    print(f"\nside by side: {'; '.join(', '.join(lane) for lane in folders)}", flush=True)
    first = len(lanes)
    for lane_folders in folders:
        lanes.append(Lane(paths_of(lane_folders, folders), options))
    well = lanes[first].wait(shown=True)
    for lane in lanes[first + 1 :]:
        well &= lane.wait(shown=False)
        print(f"\n{lane.log.read_text(encoding='utf-8', errors='replace')}")
    return well


def main(options: list[str]) -> int:
    """Run all lanes, and print the sums of all as the last line. Returns: the exit code."""
    quick = "--quick" in options
    options = [option for option in options if option != "--quick"]
    lanes: list[Lane] = []
    try:
        well = side_by_side(lanes, QUICK_LANES, options) and (quick or side_by_side(lanes, LANES, options))
    finally:
        for lane in lanes:
            lane.end()
    total: Counter[str] = sum((lane.counts() for lane in lanes), Counter())
    failed = total["failed"] + total["error"]
    print(f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped", flush=True)
    if not total:
        return NOTHING_SELECTED
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
