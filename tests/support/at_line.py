"""Something that happens at one line of the library, as what a signal handler does on the thread it interrupts."""

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
"""Not what stands beside it: a fake ZooKeeper that asks a fake clock is not interrupted in the midst of a request."""


class AtLine:
    """Calls something once, when this thread is about to execute the n-th of its lines in the library.

    library: the beginnings of the files whose lines count.
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
            # at its own lines, in __exit__, the call under test has returned already
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
    """As AtLine, when the n-th call that the library makes has returned and its result is not kept yet.

    CPython looks for a signal there. A line is too coarse to see it: `if not lock.acquire():` is one.
    """

    def __enter__(self):
        # Python 3.12 traces instructions only if some frame asked for it before
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
                # the call did not return; Python 3.10 looks for signals there, too, and no code of ours can help it
                called_at = None
            # Python closes an unused generator with an instruction that has no line, and swallows what is raised there
            if event == "opcode" and not self.struck and frame.f_lineno is not None:
                # the interpreter raises in the call; behind the last one of a try or a with this would be outside of it
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
    """Strikes nowhere, and notes which lines this thread executes."""

    def __init__(self, library=LIBRARY):
        super().__init__(0, None, library)
        self._passed = []

    def _pass(self, filename, line):
        self._passed.append((filename, line))

    def first_times(self, most):
        """Where to strike so that each line is met the first so many times: numbers for AtLine, and one behind all."""
        times = Counter()
        for number, place in enumerate(self._passed):
            times[place] += 1
            if times[place] <= most:
                yield number
        # a strike changes what follows: the lines of that are counted from here on
        yield from itertools.count(len(self._passed))


def interrupt():
    """As Ctrl-C does."""
    raise KeyboardInterrupt


class TimeLimitError(Exception):
    """As the soft time limit of a task queue, which a user's code catches to go on."""


def time_is_over():
    """As such a task queue does."""
    raise TimeLimitError


def forget_unstarted_threads():
    """Take those out of threading's list that an exception struck in start(): it would keep them for ever.

    For the end of a test, when none is about to begin.
    """
    for thread in list(threading._limbo):
        threading._limbo.pop(thread, None)


def _handler(code, at):
    """Where an exception goes on that is raised there. Up to Python 3.10 the interpreter keeps that elsewhere."""
    if sys.version_info < (3, 11):
        return None
    return next((entry.target for entry in dis._parse_exception_table(code) if entry.start <= at < entry.end), None)


_LEAVING = ("LOAD_CONST", "SWAP", "ROT_TWO", "PUSH_EXC_INFO", "WITH_EXCEPT_START")
"""With which instruction it begins: behind the body, behind a return on some Python, and behind an exception."""
_known = {}


def _leaves_a_with(frame):
    """The interpreter looks for no signal between the end of a with statement's body, or its error, and __exit__."""
    code = frame.f_code
    # both are asked for at each line of many runs
    where = (code.co_filename, code.co_firstlineno, code.co_name, frame.f_lasti)
    if where not in _known:
        line = linecache.getline(code.co_filename, frame.f_lineno)
        _known[where] = line.lstrip().startswith("with ") and opcode.opname[code.co_code[frame.f_lasti]] in _LEAVING
    return _known[where]
