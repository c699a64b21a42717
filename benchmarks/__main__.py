"""Run benchmarks: python -m benchmarks [NAME ...] [--repeat N] [--quick] [--list]"""

from __future__ import annotations

import argparse
import fnmatch
import logging
import sys

from benchmarks import report
from benchmarks.comparison import Effort
from benchmarks.registry import BENCHMARKS
from benchmarks.runner import run
from zk_layout.errors import LegacyConsumerError


def main() -> int:
    """Run what was asked for, print it, and write the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare this project with its peers, both in the same run, and print ours / peer.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run, * and ? allowed; default: all")
    parser.add_argument("--repeat", type=_positive, metavar="N", help="rounds, instead of the usual three to five")
    parser.add_argument("--quick", action="store_true", help="less work: shows that all runs; writes no results")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and what each compares")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    if options.list:
        for name, comparison in BENCHMARKS.items():
            print(f"{name:32} {comparison.about}")
        return 0
    try:
        chosen = _choose(options.names, quick=options.quick)
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    try:
        results = run([BENCHMARKS[name] for name in chosen], Effort(options.repeat, options.quick))
    except LegacyConsumerError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(report.lines(results, BENCHMARKS)))
    if not options.quick:
        report.write(report.merged(report.read_latest(), results, list(BENCHMARKS)), BENCHMARKS)
    return 0


def _choose(wanted: list[str], *, quick: bool) -> list[str]:
    if not wanted:
        return [name for name, comparison in BENCHMARKS.items() if comparison.in_quick or not quick]
    for pattern in wanted:
        if not fnmatch.filter(BENCHMARKS, pattern):
            raise LookupError(f"no benchmark is called {pattern}: see python -m benchmarks --list")
    return [name for name in BENCHMARKS if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
