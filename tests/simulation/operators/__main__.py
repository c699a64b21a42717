"""python -m tests.simulation.operators --seeds 1000: as many stories of operators; --first N begins there."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.operators.running import run_story


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1000)
    given = parser.parse_args()
    failed = 0
    for seed in range(given.first, given.first + given.seeds):
        try:
            run_story(seed)
        except AssertionError as error:
            failed += 1
            print(error, file=sys.stderr)
    print(f"{given.seeds} stories, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
