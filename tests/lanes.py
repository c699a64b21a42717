"""Runs every tier in two lanes, side by side, for most tests with servers wait more than they work.

    python -m tests.lanes [PYTEST OPTIONS]

The tiers that need nothing come first; if one of them fails, no server is started. Then each lane is a pytest of its
own, with servers of its own. The first shows its progress; what the second printed follows when both have ended.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support.tiers import QUICK_TIERS, TIERS

ROOT = Path(__file__).resolve().parent.parent
LANES = (("contract", "integration"), ("interop", "chaos", "spark", "containers"))
NOTHING_SELECTED = 5
"""pytest's exit code where a -k or a -m leaves no test of a lane."""
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed)\b")


class Lane:
    """One pytest over some tiers. Its output goes to a file, and to the terminal as well if it is shown."""

    def __init__(self, name: str, tiers: tuple[str, ...], options: list[str]) -> None:
        self.log = ROOT / "build" / f"tests-{name}.log"
        self.log.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-u", "-m", "pytest", "--all-tiers", *options, *(f"tests/{tier}" for tier in tiers)]
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    def wait(self, *, shown: bool) -> bool:
        """Wait for its end, and show meanwhile what it prints. Returns: whether it went well."""
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
        """Have it end as Ctrl-C would."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def counts(self) -> Counter[str]:
        """The numbers of its last line."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        found = _COUNT.findall(lines[-1]) if lines else []
        return Counter({word.rstrip("s") if word.startswith("error") else word: int(number) for number, word in found})


def main(options: list[str]) -> int:
    """Run all; the last line has the sums of all lanes."""
    lanes: list[Lane] = []
    try:
        lanes.append(Lane("quick", tuple(tier for tier in TIERS if tier in QUICK_TIERS), options))
        well = lanes[0].wait(shown=True)
        if well:
            print(f"\ntwo lanes side by side: {', '.join(LANES[0])}; and {', '.join(LANES[1])}", flush=True)
            lanes += [Lane("shown", LANES[0], options), Lane("beside", LANES[1], options)]
            well = lanes[1].wait(shown=True) & lanes[2].wait(shown=False)
            print(f"\n{lanes[2].log.read_text(encoding='utf-8', errors='replace')}")
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
