"""Runs many worlds, on several processes, and tells of the ones that break a promise."""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from tests.simulation.world import World, led_strategy, run_world

DEFAULT_SEEDS = 10_000
FEW_SEEDS = 1000
"""The number of the first seeds, which a quick run tries."""
WORLD_BOUND_S = 60.0
"""Seconds of processor time after which a world counts as endless; a world usually takes 20 ms.

A world that waits for a lock takes no processor time: its bound is fifteen times as many seconds by the clock.
"""
_CHUNK = 100
_WORLDS_BETWEEN_COLLECTIONS = 100


@dataclass(slots=True)
class Outcome:
    """The result of a range of seeds. failures: {seed: (check, text)}."""

    schedules: int = 0
    events: int = 0
    deliveries: int = 0
    duplicates: int = 0
    failures: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, other):
        self.schedules += other.schedules
        self.events += other.events
        self.deliveries += other.deliveries
        self.duplicates += other.duplicates
        self.failures.update(other.failures)


class EndlessWorld(BaseException):
    """A world that does not end. No `except Exception` of the library catches it."""


def run_seeds(seeds, stop_after=None, *, bound_s=WORLD_BOUND_S):
    """Run the worlds of these seeds, in this process, until stop_after of them have failed.

    bound_s: the processor time in seconds after which a world counts as failed.
    """
    outcome = Outcome()
    for ran, seed in enumerate(seeds):
        if len(outcome.failures) == stop_after:
            break
        if ran % _WORLDS_BETWEEN_COLLECTIONS == 0:
            gc.collect()
        try:
            world, violation = _run_bounded(seed, bound_s)
        except (Exception, EndlessWorld) as error:
            outcome.failures[seed] = (type(error).__name__, traceback.format_exc(limit=-4))
            continue
        outcome.schedules += 1
        outcome.events += len(world.history.events)
        outcome.deliveries += world.checker.deliveries
        outcome.duplicates += world.checker.duplicates
        if violation is not None:
            outcome.failures[seed] = (violation.check, str(violation))
    return outcome


def _run_bounded(seed, bound_s):
    def end(_signal, _frame):
        raise EndlessWorld(f"no end after {bound_s:g} s of processor time, or {15 * bound_s:g} s by the clock")

    # in the process of the tests, pytest-timeout may use one of the alarms
    alarms = {signal.ITIMER_VIRTUAL: signal.SIGVTALRM, signal.ITIMER_REAL: signal.SIGALRM}
    free = [alarm for alarm in alarms if signal.getitimer(alarm)[0] == 0]
    handlers = {alarm: signal.signal(alarms[alarm], end) for alarm in free}
    for alarm in free:
        signal.setitimer(alarm, bound_s if alarm == signal.ITIMER_VIRTUAL else 15 * bound_s)
    gc.disable()  # collections during a world cost a sixth of its time
    try:
        return run_world(seed)
    finally:
        gc.enable()
        for alarm, handler in handlers.items():
            signal.setitimer(alarm, 0)
            signal.signal(alarms[alarm], handler)


def run_many(first, count, processes, stop_after, *, only_led=False, is_enough=lambda _: False):
    """Run `count` worlds, of the seeds from `first` on; end after stop_after failures. only_led: skip other seeds.

    is_enough: called now and then with the outcome so far; True ends the run.
    """
    seeds = itertools.count(first)
    wanted = list(itertools.islice((seed for seed in seeds if led_strategy(seed)) if only_led else seeds, count))
    chunks = [wanted[at : at + _CHUNK] for at in range(0, count, _CHUNK)]
    total = Outcome()
    if processes == 1:
        for chunk in chunks:
            total.add(run_seeds(chunk, stop_after - len(total.failures)))
            if len(total.failures) >= stop_after or is_enough(total):
                break
        return total
    with warnings.catch_warnings():
        # the children only compute: they want no lock that a thread of the parent may hold
        warnings.simplefilter("ignore", DeprecationWarning)
        pool = multiprocessing.get_context("fork").Pool(processes, initializer=_be_quiet)
    with pool:
        # in order, so that the first failure is the same with any number of processes
        for outcome in pool.imap(partial(run_seeds, stop_after=stop_after), chunks):
            total.add(outcome)
            if len(total.failures) >= stop_after or is_enough(total):
                pool.terminate()
                break
    return total


def _be_quiet():
    logging.disable(logging.CRITICAL)


def history_of(seed):
    """Return the history of a seed's world, as lines."""
    world, violation = run_world(seed)
    return [*world.history.lines(), *([] if violation is None else [f"           {violation}"])]


def main(arguments=None):
    """Run the command line. Returns: the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one world and print its history")
    parser.add_argument("-v", "--verbose", action="store_true", help="with the members' own log")
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help="how many worlds (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default %(default)s)")
    parser.add_argument("--minutes", type=float, help="end after this time, if not all worlds have run by then")
    parser.add_argument("--tell-every", type=int, default=0, metavar="N", help="a line on stderr after N worlds each")
    parser.add_argument("--led", action="store_true", help="only worlds with group.coordination=leader")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="say which world failed, not what happened in it")
    parser.add_argument("--stop-after", type=int, default=1, help="failures (default %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        if chosen.verbose:
            logging.basicConfig(level=logging.DEBUG, format="%(message)s")
        else:
            _be_quiet()
        world = World(chosen.seed)
        print(world.settings)
        lines = history_of(chosen.seed)
        print("\n".join(lines))
        return int(run_world(chosen.seed)[1] is not None)
    _be_quiet()
    began = time.monotonic()
    told = 0
    told_of = set()

    def is_enough(outcome):
        nonlocal told
        took_s = time.monotonic() - began
        for seed in sorted(outcome.failures.keys() - told_of):
            told_of.add(seed)
            print(f"seed {seed} breaks a promise", file=sys.stderr, flush=True)
        if chosen.tell_every and outcome.schedules >= told + chosen.tell_every:
            told = outcome.schedules
            print(f"{told} schedules in {took_s:.0f} s, {len(outcome.failures)} failures", file=sys.stderr, flush=True)
        return chosen.minutes is not None and took_s >= chosen.minutes * 60

    outcome = run_many(
        chosen.first, chosen.seeds, chosen.processes, chosen.stop_after, only_led=chosen.led, is_enough=is_enough
    )
    for seed, (_, text) in sorted(outcome.failures.items())[: chosen.stop_after]:
        print(f"seed {seed}: {text}")
    if outcome.failures:
        seed = min(outcome.failures)
        checks = Counter(check for check, _ in outcome.failures.values())
        if not chosen.brief:
            print("\n".join(history_of(seed)) if chosen.stop_after == 1 else dict(checks))
        print(f"replay: python -m tests.simulation --seed {seed} -v")
    print(
        f"{outcome.schedules} schedules in {time.monotonic() - began:.1f} s, {outcome.events} events, "
        f"{outcome.deliveries} deliveries of which {outcome.duplicates} again, {len(outcome.failures)} failures"
    )
    return int(bool(outcome.failures))
