"""Something that happens at one line of the library, as what a signal handler does on the thread it interrupts."""

from __future__ import annotations

import linecache
import opcode
import sys
from pathlib import Path

import legacy_consumer
from tests.support import fake_kafka

LIBRARY = tuple(f"{Path(module.__file__).parent}/" for module in (legacy_consumer, fake_kafka))


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
        code = frame.f_code
        if self.struck or code.co_filename == __file__ or not code.co_filename.startswith(self.library):
            # at its own lines, in __exit__, the call under test has returned already
            return None
        if event == "line" and not _leaves_a_with(frame):
            if not self.left:
                self.struck = True
                self.call()
            self.left -= 1
        return self._trace


def interrupt():
    """As Ctrl-C does."""
    raise KeyboardInterrupt


def _leaves_a_with(frame):
    """The interpreter looks for no signal between the end of a with statement's body and the call of __exit__."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith("with ") and opcode.opname[frame.f_code.co_code[frame.f_lasti]] == "LOAD_CONST"
