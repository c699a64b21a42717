"""`groups list`, several times in one process: list_groups.py ZOOKEEPER

Prints the lines of one call and the median of the seconds that a call took, the first one left out.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import time

from legacy_consumer.operations.cli import main

CALLS = 6


def call(zookeeper: str) -> tuple[int, float]:
    """Run `groups list` once. Returns: the number of printed lines, and the seconds from the arguments to the last."""
    printed = io.StringIO()
    began = time.perf_counter()
    with contextlib.redirect_stdout(printed):
        main(["groups", "list", "--zookeeper", zookeeper], standalone_mode=False)
    return printed.getvalue().count("\n"), time.perf_counter() - began


calls = [call(sys.argv[1]) for _ in range(CALLS)]
print(calls[-1][0], f"{statistics.median(seconds for _, seconds in calls[1:]):.6f}")
