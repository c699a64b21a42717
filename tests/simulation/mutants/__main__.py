"""python -m tests.simulation.mutants: by which seed or test each deliberate breakage of the code is noticed."""

import argparse
import sys

from tests.simulation.mutation import MOST_SEEDS, all_patches, is_walked, remember, run_mutants


def main():
    """Print a table. Returns: the exit code, 1 if a mutant went unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these (default: all)")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="schedules for each that no known one finds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--exhaustive", action="store_true", help="let the small walk of every order look instead")
    parser.add_argument("--remember", action="store_true", help="write down what noticed them, for next time")
    chosen = parser.parse_args()
    patches = [patch for patch in all_patches() if not chosen.names or patch.stem in chosen.names]
    if chosen.exhaustive:
        patches = [patch for patch in patches if is_walked(patch)]
    found = []
    print(f"{'mutant':<38} {'caught by':<22} what is broken")
    for caught in run_mutants(patches, chosen.seeds, chosen.processes, walked=chosen.exhaustive):
        found.append(caught)
        print(f"{caught.name:<38} {caught.check or 'NOT CAUGHT':<22} {caught.description}", flush=True)
        if caught.by is not None and not chosen.exhaustive:
            print(f"{'':<38} {caught.by}", flush=True)
    if chosen.remember and not chosen.exhaustive:
        remember(found)
    missed = [caught.name for caught in found if not caught.check]
    print(f"{len(found) - len(missed)} of {len(found)} mutants caught", *(["; not:", *missed] if missed else []))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
