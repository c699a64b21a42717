"""python -m tests.simulation.metrics --seeds 1000: as many scenes, every scrape compared; --first N begins there."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.simulation.metrics.comparison import WrongMetricError
from tests.simulation.metrics.stories import run_story


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1000)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failed = samples = 0
    for seed in range(given.first, given.first + given.seeds):
        try:
            samples += run_story(seed).total()
        except WrongMetricError as error:
            failed += 1
            print(error, file=sys.stderr)
    print(f"{given.seeds} scenes, {samples} samples compared, {failed} scenes with wrong ones")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
