"""No loop stands where CPython 3.12 and 3.13 may skip the release of a lock, or a finally.

CPython raises an asynchronous exception, such as that of Ctrl-C, where a loop jumps back. If a loop ends its round with
a condition (`if`, a comprehension with `if`, `while condition`), CPython 3.12 and 3.13 compile that jump without its
exception handler: neither `with` nor `finally` around the loop, in the same function, takes effect (CPython issue
130279). A loop in a function of its own is safe, because the handler covers the call.
"""

from __future__ import annotations

import dis
import sys
import threading
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).resolve().parents[2]
_PLACES = (
    "legacy_consumer/*.py",
    "legacy_consumer/member/**/*.py",
    "legacy_consumer/offsets/**/*.py",
    "legacy_consumer/fetching/**/*.py",
    "rebalance/**/*.py",
    "zk_layout/**/*.py",
)
ON_THREADS_OF_USERS = sorted(path for place in _PLACES for path in ROOT.glob(place))
_MOST_NAMES = 14
"""The most instructions at a handler's start that name its exceptions."""


def _uncovered_loops(code):
    """Yield the lines of loops whose jump back lacks a handler that must run for every exception."""
    if sys.version_info < (3, 11):
        return  # Python 3.10 has no exception table
    entries = dis._parse_exception_table(code)
    instructions = list(dis.get_instructions(code))
    places = {one.offset: number for number, one in enumerate(instructions)}

    def handlers(at):
        """Return the handlers of an instruction, innermost first."""
        found = []
        while (at := next((one.target for one in entries if one.start <= at < one.end), None)) not in (None, *found):
            found.append(at)
        return found

    def runs_for_anything(handler):
        first = places[handler]
        if instructions[first].opname != "PUSH_EXC_INFO":
            return False  # this handler only restores the variables of a comprehension
        names = set()
        for one in instructions[first + 1 : first + _MOST_NAMES]:
            if one.opname == "CHECK_EXC_MATCH":
                return "BaseException" in names or "KeyboardInterrupt" in names
            if not one.opname.startswith(("LOAD", "BUILD_TUPLE")):
                break
            names.add(one.argval)
        return True

    for one in instructions:
        if one.opname == "JUMP_BACKWARD":
            lost = set(handlers(one.argval)) - set(handlers(one.offset))
            if any(map(runs_for_anything, lost)):
                yield one.positions.lineno
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _uncovered_loops(inner)


@pytest.mark.parametrize("path", ON_THREADS_OF_USERS)
def test_no_loop_of_the_library_jumps_back_out_of_its_lock(path):
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    uncovered = sorted(set(_uncovered_loops(compile(source, path, "exec"))))
    told = [f"{path.relative_to(ROOT)}:{line}: {lines[line - 1].strip()}" for line in uncovered]
    assert not told, "move the loop into a function of its own, which the with or the try calls: " + "; ".join(told)


_LOCK = threading.Lock()


def _a_condition_at_the_end(items):
    with _LOCK:
        for item in items:
            if item:
                items.discard(item)


def _a_comprehension(items):
    with _LOCK:
        return [item for item in items if item]


def _a_finally(items):
    try:
        while items:
            items.pop()
    finally:
        items.clear()


def _no_condition(items):
    with _LOCK:
        for item in items:
            items.discard(item)


def _its_own_function(items):
    with _LOCK:
        return _a_loop(items)


def _a_loop(items):
    return [item for item in items if item]


def _only_its_own_errors(items):
    try:
        while items:
            items.pop()
    except (KeyError, ValueError):
        items.clear()


@pytest.mark.parametrize("function", [_a_condition_at_the_end, _a_comprehension, _a_finally])
def test_such_a_loop_is_found_on_the_pythons_that_have_this_fault(function):
    assert bool(list(_uncovered_loops(function.__code__))) == ((3, 12) <= sys.version_info < (3, 14))


@pytest.mark.parametrize("function", [_no_condition, _its_own_function, _a_loop, _only_its_own_errors])
def test_a_safe_loop_is_not(function):
    assert not list(_uncovered_loops(function.__code__))
