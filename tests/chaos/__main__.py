"""python -m tests.chaos: a group on real servers, and everything that can go wrong; see --help."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from pathlib import Path

from tests.chaos.running import judge, run_chaos, write_results
from tests.chaos.world import FETCHERS, KAFKA

EPILOG = """example: python -m tests.chaos --seed 7 --minutes 10 --json chaos.json --svg chaos.svg

Exit code 0: every promise was kept. 1: some were not; they are listed, and --history keeps what shows it.
"""

LONG = ("faults", "violations")
MOST_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="Three ZooKeepers, three brokers, six members, and faults drawn from a seed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, help="which faults, and whom they hit (default: 1)")
    parser.add_argument("--minutes", type=float, help="draw faults for so long (default: the short list, once)")
    parser.add_argument(
        "--fetcher", choices=list(FETCHERS), help="with which the Python members fetch (default: drawn from the seed)"
    )
    parser.add_argument(
        "--transactions",
        action=argparse.BooleanOptionalAction,
        help="write some partitions in transactions, without JVM members (default: drawn from the seed)",
    )
    parser.add_argument(
        "--led",
        action=argparse.BooleanOptionalAction,
        help="a group that a member leads, without JVM members (default: drawn from the seed)",
    )
    parser.add_argument("--kafka", choices=KAFKA, help="the brokers' version (default: drawn from the seed)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw who owned which partition when")
    parser.add_argument("--history", type=Path, metavar="FOLDER", help="keep the history and the members' logs there")
    parser.add_argument("--judge", action="store_true", help="do not run: judge the history that --history names")
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s %(message)s")
    if given.minutes is not None and given.minutes <= 0:
        parser.error("--minutes must be above 0")
    if given.judge:
        if given.history is None or not list(given.history.glob("*.jsonl")):
            parser.error("--judge needs --history with the folder of an earlier run")
        return report(given, given.history, judge(given.history))
    if given.history is not None:
        given.history.mkdir(parents=True, exist_ok=True)
        if list(given.history.glob("*.jsonl")):
            parser.error(f"{given.history} holds a history already: name another folder")
        return report(given, given.history, _run(given, given.history))
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        return report(given, Path(folder), _run(given, Path(folder)))


def _run(given: argparse.Namespace, folder: Path) -> dict:
    return run_chaos(folder, given.seed, given.minutes, say, given.fetcher, given.transactions, given.led, given.kafka)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def report(given: argparse.Namespace, folder: Path, figures: dict) -> int:
    write_results(folder, figures, given.json, given.svg)
    print(json.dumps({name: value for name, value in figures.items() if name not in LONG}, indent=1))
    for fault in figures["faults"]:
        print(f"{fault['fault']:24} {fault['target']:28} settled {fault['settle_s']} s, longest wait "
              f"{fault['longest_wait_s']} s")  # fmt: skip
    violations = figures["violations"]
    print(f"{len(violations)} violations")
    for violation in violations[:MOST_SHOWN]:
        print(violation[:20_000])
    return 1 if violations else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; everything that was started has ended")
