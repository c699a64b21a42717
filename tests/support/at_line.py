"""Calls a function at one line of the library, as a signal handler interrupts a thread there."""

from __future__ import annotations

import dis
import itertools
import linecache
import opcode
import sys
import threading
from collections import Counter
from pathlib import Path

import legacy_consumer
from tests.support import fake_kafka

LIBRARY = (f"{Path(legacy_consumer.__file__).parent}/", fake_kafka.__file__)
"""The files whose lines count. Not other test code: a fake ZooKeeper is not interrupted in the middle of a request."""


class AtLine:
    """A context manager that calls a function once, when this thread is about to execute its n-th line in the library.

    library: prefixes of the paths of files whose lines count.
    """

    def __init__(self, line, call, library=LIBRARY):
        self.library = library
        self.left = line
        self.call = call
        self.struck = False

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _trace(self, frame, event, _):
        filename = frame.f_code.co_filename
        if self.struck or filename == __file__ or not filename.startswith(self.library):
            # at lines of this file, in __exit__, the call under test has already returned
            return None
        if event == "line" and not _leaves_a_with(frame):
            self._pass(filename, frame.f_lineno)
        return self._trace

    def _pass(self, _filename, _line):
        if not self.left:
            self.struck = True
            self.call()
        self.left -= 1


class AfterCall(AtLine):
    """Like AtLine, but calls the function when the n-th call of the library has returned, before its result is stored.

    CPython checks for signals there. A line is too coarse for that: `if not lock.acquire():` is one line.
    """

    def __enter__(self):
        # Python 3.12 traces instructions only if a frame has asked for that before
        sys._getframe().f_trace_opcodes = True
        return super().__enter__()

    def _trace(self, frame, _event, _):
        filename = frame.f_code.co_filename
        if self.struck or filename == __file__ or not filename.startswith(self.library):
            return None
        code = frame.f_code
        called_at = None

        def trace(frame, event, _):
            nonlocal called_at
            if event == "exception":
                # the call did not return; Python 3.10 checks for signals there too, and our code cannot prevent harm
                called_at = None
            # Python closes an unused generator with an instruction that has no line, and ignores errors raised there
            if event == "opcode" and not self.struck and frame.f_lineno is not None:
                # the interpreter raises inside the call; after the last call of a try or with, this would be outside it
                if called_at is not None and _handler(code, called_at) == _handler(code, frame.f_lasti):
                    self._pass(filename, frame.f_lineno)
                is_call = opcode.opname[code.co_code[frame.f_lasti]].startswith("CALL")
                called_at = frame.f_lasti if is_call else None
            return trace

        # Python 3.13 traces instructions only of a frame that is traced already
        frame.f_trace = trace
        frame.f_trace_opcodes = True
        return trace


class PassedLines(AtLine):
    """Calls nothing, and records the lines that this thread executes."""

    def __init__(self, library=LIBRARY):
        super().__init__(0, None, library)
        self._passed = []

    def _pass(self, filename, line):
        self._passed.append((filename, line))

    def first_times(self, most):
        """Yield numbers for AtLine: the first `most` executions of each line, then all numbers after the last line."""
        times = Counter()
        for number, place in enumerate(self._passed):
            times[place] += 1
            if times[place] <= most:
                yield number
        # an interruption changes the lines that follow: these are counted from here on
        yield from itertools.count(len(self._passed))


def interrupt():
    """Raise KeyboardInterrupt, as Ctrl-C does."""
    raise KeyboardInterrupt


class TimeLimitError(Exception):
    """Like the soft time limit of a task queue, which the user's code catches and then continues."""


def time_is_over():
    """Raise TimeLimitError, as such a task queue does."""
    raise TimeLimitError


def forget_unstarted_threads():
    """Remove threads whose start() was interrupted from threading's list, which would keep them for ever.

    Call it at the end of a test, when no thread is about to start.
    """
    for thread in list(threading._limbo):
        threading._limbo.pop(thread, None)


def _handler(code, at):
    """Return the handler of an exception raised at this instruction; None without one, and up to Python 3.10."""
    if sys.version_info < (3, 11):
        return None
    return next((entry.target for entry in dis._parse_exception_table(code) if entry.start <= at < entry.end), None)


_LEAVING = ("LOAD_CONST", "SWAP", "ROT_TWO", "PUSH_EXC_INFO", "WITH_EXCEPT_START")
"""The first instruction of leaving a with: after the body, after a return in some Pythons, after an exception."""
_known = {}


def _leaves_a_with(frame):
    """Return whether the frame is about to leave a with statement.

    The interpreter checks for no signal between the end of the body, or its error, and __exit__.
    """
    code = frame.f_code
    # a cache, because this runs at each line of many tests
    where = (code.co_filename, code.co_firstlineno, code.co_name, frame.f_lasti)
    if where not in _known:
        line = linecache.getline(code.co_filename, frame.f_lineno)
        _known[where] = line.lstrip().startswith("with ") and opcode.opname[code.co_code[frame.f_lasti]] in _LEAVING
    return _known[where]
