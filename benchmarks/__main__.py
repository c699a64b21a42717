"""Run benchmarks: python -m benchmarks [NAME ...] [--all] [--repeat N] [--quick] [--list]"""

from __future__ import annotations

import argparse
import fnmatch
import logging
import sys

from benchmarks import report
from benchmarks.comparison import Effort, Result
from benchmarks.durations import Durations
from benchmarks.registry import BENCHMARKS
from benchmarks.runner import run
from zk_layout.errors import LegacyConsumerError

_HEADLINE_ROUNDS = 3


def main() -> int:
    """Run the chosen benchmarks, print the results, and write them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare this project with its peers, both in the same run, and print ours / peer.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="benchmarks to run, * and ? allowed; default: headlines"
    )
    parser.add_argument("--all", action="store_true", help="all of them")
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
        chosen = _choose(options.names, quick=options.quick, everything=options.all)
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    durations = Durations(report.DURATIONS)
    repeats = options.repeat or (_HEADLINE_ROUNDS if not (options.names or options.all) else None)
    commit = report.commit_measured()
    results: list[Result] = []
    failure = None
    try:
        for measured in run([BENCHMARKS[name] for name in chosen], Effort(repeats, options.quick), durations):
            results += report.stamped(measured, commit)
            if not options.quick:
                # at once, so that a later failure or an interrupt loses no result
                durations.write()
                report.write(report.merged(report.read_latest(), results, list(BENCHMARKS)), BENCHMARKS)
    except LegacyConsumerError as error:
        failure = error
    print("\n".join(report.lines(sorted(results, key=lambda result: chosen.index(result.name)), BENCHMARKS)))
    if failure is not None:
        print(failure, file=sys.stderr)
        return 1
    return 0


def _choose(wanted: list[str], *, quick: bool, everything: bool) -> list[str]:
    if not wanted:
        if quick:
            return [name for name, comparison in BENCHMARKS.items() if comparison.in_quick]
        return [name for name, comparison in BENCHMARKS.items() if comparison.headline or everything]
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
