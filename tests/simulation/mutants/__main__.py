"""python -m tests.simulation.mutants: which deliberate breakages the simulation catches, by which check, how soon."""

import argparse
import sys

from tests.simulation.mutation import all_patches, is_walked, remember, run_mutants
from tests.simulation.running import DEFAULT_SEEDS


def main():
    """Prints a table; the exit code is 1 if a mutant went unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these (default: all)")
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help="schedules for each (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--exhaustive", type=int, metavar="DEPTH", help="walk every order of so many events instead")
    parser.add_argument("--remember", action="store_true", help="write down the seeds that found them, for next time")
    chosen = parser.parse_args()
    patches = [patch for patch in all_patches() if not chosen.names or patch.stem in chosen.names]
    if chosen.exhaustive is not None:
        patches = [patch for patch in patches if is_walked(patch)]
    missed, found = 0, []
    print(f"{'mutant':<34} {'caught by':<22} {'seed':>9}  what is broken")
    for caught in run_mutants(patches, chosen.seeds, chosen.processes, chosen.exhaustive):
        missed += caught.seed is None
        found.append(caught)
        after = "-" if caught.seed is None or chosen.exhaustive is not None else str(caught.seed)
        print(f"{caught.name:<34} {caught.check or 'NOT CAUGHT':<22} {after:>9}  {caught.description}", flush=True)
    if chosen.remember and chosen.exhaustive is None:
        remember(found)
    within = f"{chosen.seeds} schedules" if chosen.exhaustive is None else f"{chosen.exhaustive} events"
    print(f"{len(patches) - missed} of {len(patches)} mutants caught within {within}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
