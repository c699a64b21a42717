"""Every order of events in a few small groups, to a depth: see tests.simulation.small_world.

The walk replays a world from a list of choices. At each point where more than one event could happen, the world asks
for a choice; the walk tries every list. It stops a world in a state that it has already seen with as many events left.
It compares states by a hash of all that the code can look at: znodes, sessions, watches, messages in transit, and the
memory of each member.

    python -m tests.simulation.exhaustive --only draining -v

The walk notes the cells of rebalance.machine.TABLE that it reaches. A cell is a pair of a phase and an event.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from unittest import mock

from rebalance import machine
from rebalance.events import Timer
from tests.simulation.checker import Violation
from tests.simulation.small_world import CONNECTIONS, CREDENTIALS, REQUESTS, SESSIONS, Choices, Scope, SmallWorld

_AWAY = (SESSIONS, CONNECTIONS, CREDENTIALS)
_LEFT_ALONE = (
    "g_a goes on",
    "connection of g_b is lost",
    "session of g_b ends without it",
    "g_a goes on",
    "g_b goes on",
)
_BACK = ("connection of g_b is back", "g_b goes on")
_ROBBED = ("time passes", "g_a goes on", "operator takes a partition", "g_a goes on")
_DRAINS_AND_READS_AGAIN = (
    *("operator adds a partition", "g_b goes on"),
    *("connection of g_b is lost", "connection of g_b is back"),
)
_CUT = ("g_a goes on", "g_b goes on", "connection of g_a is lost", "g_a goes on")
_STRANGE = (
    *("takes a partition", "deletes an owner", "writes over an owner"),
    *("takes an id", "deletes an id", "writes over an id", "stops a member", "gives all back"),
)
_coarse = partial(Scope, coarse=True)
_with_users = partial(_coarse, users=True)
_reading_again = partial(
    _with_users,
    after=_DRAINS_AND_READS_AGAIN,
    acts=("adds a partition", "stops a member", "deletes an id"),
    target=1,
    kinds=(REQUESTS, CONNECTIONS, CREDENTIALS),
)
SCOPES = (
    Scope("start", 3, 2, settled=False, faults=2),
    _reading_again("overtaken", 3, 3, most_acts=2),
    _reading_again("cut off", 2, 1, most_acts=0, faults=2),
    Scope("settled", 3, 2, faults=2),
    Scope("start of three", 2, 1, members=3, settled=False, faults=2),
    Scope("settled three", 2, 1, members=3, faults=2),
    _coarse("gathering", 5, 4, settled=False, gather_ms=500, acts=("stops a member", "takes an id"), kinds=_AWAY),
    _coarse("connection lost", 4, 3, after=_CUT, acts=("stops a member", "adds a partition"), faults=2, kinds=_AWAY),
    _coarse("strangers", 4, 2, acts=_STRANGE, most_acts=2, kinds=(REQUESTS,)),
    _with_users(
        *("leaving", 4, 2),
        after=("operator stops a member",),
        acts=("stops a member", "deletes an owner", "deletes an id", "takes an id"),
        kinds=(REQUESTS, *_AWAY),
    ),
    _with_users(
        *("draining", 5, 3),
        after=(*_LEFT_ALONE, *_BACK),
        acts=("stops a member", "deletes an owner", "takes a partition"),
        kinds=_AWAY,
    ),
    _with_users(
        *("blocked", 5, 3),
        after=(*_LEFT_ALONE, *_ROBBED, *_BACK),
        acts=("takes a partition", "gives all back", "stops a member"),
        kinds=_AWAY,
    ),
    _coarse(
        *("listening", 5, 3),
        listens=True,
        after=("operator adds a partition", "g_b goes on"),
        acts=("adds a partition", "stops a member", "deletes an id"),
        target=1,
        kinds=(REQUESTS, *_AWAY),
    ),
    _with_users(
        *("absent", 5, 3),
        absence_ms=5000,
        acts=("stops a member", "adds a partition", "takes a partition"),
        target=1,
        most_acts=2,
        kinds=_AWAY,
    ),
)
SMALL = tuple(replace(scope, depth=scope.small, faults=1) for scope in SCOPES)


class Cells(dict):
    """The rows of the machine by phase and event, which note the cells whose row was taken."""

    def __init__(self):
        self.taken = set()
        super().__init__(
            {cell: [_NotingRow(row, cell, self.taken) for row in rows] for cell, rows in machine._ROWS.items()}
        )


class _NotingRow:
    """A row of the machine's table. The machine reads `to`, the next phase, only of a row that it takes."""

    def __init__(self, row, cell, taken):
        self._row, self._cell, self._taken = row, cell, taken

    @property
    def to(self):
        self._taken.add(self._cell)
        return self._row.to

    def __getattr__(self, name):
        return getattr(self._row, name)


ALL_CELLS = frozenset(machine._ROWS)


def names_of(cells):
    """Return {phase: the names of its events} of these cells, both as in docs/testing.md, sorted."""
    found = {}
    for phase, kind in cells:
        name = f"timer {kind.value}" if isinstance(kind, Timer) else kind.__name__
        found.setdefault(phase.value, []).append(name)
    return {phase: sorted(names) for phase, names in sorted(found.items())}


@dataclass(slots=True)
class Walk:
    """The result of a walk. failures: {choices: the broken rule}. cells: the cells of the table that it reached."""

    scope: Scope
    states: int = 0
    worlds: int = 0
    seconds: float = 0.0
    failures: dict[tuple[int, ...], str] = field(default_factory=dict)
    cells: frozenset = frozenset()

    def __str__(self):
        return (
            f"{self.scope.name}: {self.scope.depth} events, {self.scope.faults} faults: {self.states} states in "
            f"{self.worlds} worlds, {len(self.cells)} cells, {self.seconds:.1f} s, {len(self.failures)} failures"
        )


def run(scope, given, seen, cells=machine._ROWS):
    """Run one world. seen: {fingerprint: the most events that were left there}; a state seen before ends it.

    Returns: the world, the choices, and a Violation or None.
    """
    choices = Choices(given)
    world = SmallWorld(scope, choices)
    try:
        world.begin()
        with mock.patch.object(machine, "_ROWS", cells):
            while True:
                if choices.is_beyond:
                    mark = world.fingerprint()
                    if seen.get(mark, -1) >= world.events_left:
                        return world, choices, None
                    seen[mark] = world.events_left
                if not world.happen():
                    break
            world.come_to_rest()
    except Violation as violation:
        return world, choices, violation
    return world, choices, None


def walk(scope, stop_after=1):
    """Walk every order of events in a scope, until stop_after worlds have failed."""
    began = time.process_time()
    seen, waiting, told, cells = {}, [()], Walk(scope), Cells()
    while waiting:
        given = waiting.pop()
        _, choices, violation = run(scope, given, seen, cells)
        told.worlds += 1
        taken = tuple(chosen for chosen, _ in choices.taken)
        if violation is not None:
            told.failures[taken] = str(violation)
            if len(told.failures) >= stop_after:
                break
        for at in range(len(given), len(choices.taken)):
            waiting += [(*taken[:at], other) for other in range(1, choices.taken[at][1])]
    told.states, told.seconds, told.cells = len(seen), time.process_time() - began, frozenset(cells.taken)
    return told


def _walk_quietly(scope):
    logging.disable(logging.CRITICAL)
    return walk(scope)


def walk_all(scopes, processes=2):
    """Yield the Walk of each scope, in order; `processes` of them run at a time."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_walk_quietly, scopes)


def main(arguments=None):
    """Run the command line. Returns: the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.exhaustive", description=__doc__)
    parser.add_argument("--small", action="store_true", help="walk less deep, with one fault, as `make test` does")
    parser.add_argument("--only", nargs="*", help="walk only the scopes of these names")
    parser.add_argument("--deeper", type=int, default=0, help="add this number of events to the depth of each scope")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("-v", "--verbose", action="store_true", help="name the cells that no scope came through")
    chosen = parser.parse_args(arguments)
    scopes = [
        replace(scope, depth=scope.depth + chosen.deeper)
        for scope in (SMALL if chosen.small else SCOPES)
        if chosen.only is None or scope.name in chosen.only
    ]
    cells, states, worlds = set(), 0, 0
    for told in walk_all(scopes, chosen.processes):
        print(told, flush=True)
        for choices, text in told.failures.items():
            world, _, _ = run(told.scope, choices, {})
            print("\n".join([*world.history, f"broken: {text}"]), flush=True)
            return 1
        cells |= told.cells
        states, worlds = states + told.states, worlds + told.worlds
    print(f"{states} states in {worlds} worlds; {len(cells)} of {len(ALL_CELLS)} cells of the machine's table")
    if chosen.verbose:
        for phase, names in names_of(ALL_CELLS - cells).items():
            print(f"not in {phase}: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
