"""Ctrl-C, SIGTERM, and SIGHUP of a closed terminal. Ending: for a command that must finish what it has begun.
unwound_by_signals: for a command whose cleanup must run, whichever signal ends it.

Before the command has begun to change anything, the first signal ends it at once. After wait_for_end, the first signal
only sets a flag, which the command checks between two steps; a handler that did more could wait for a lock that its own
thread holds. The second signal ends the command at once. Later signals are ignored, because the command is ending.

A command that writes to a full pipe without a reader never checks the flag. Therefore, while the command writes, an
alarm ends it when its patience after the first signal is over.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from legacy_consumer.operations.cli.helpers.outputs import abandon_output

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequestedError(SystemExit):
    """A signal came. It is no Exception, so that no `except Exception` takes it for a failure."""


@contextmanager
def unwound_by_signals() -> Iterator[None]:
    """In the block, SIGTERM, and SIGHUP of a closed terminal, raise an error as Ctrl-C does; later ones do nothing.

    Raises: StopRequestedError, with the exit code that shells expect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def end(number: int, _frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise StopRequestedError(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup makes a process ignore SIGHUP
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN:
            before[number] = handler or signal.SIG_DFL
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _EndNow(BaseException):
    """It is no Exception, so that no `except Exception` takes it for a failure."""


class Ending:
    """Use it as a context manager, in the main thread; at its end it restores the signal handlers.

    requested: the command should come to its end. signal_number: that of the first signal, or None.
    """

    def __init__(self) -> None:
        self.requested = False
        self.signal_number: int | None = None
        self._at_once = True
        self._was_cut_short = False
        self._patience_s = 0.0
        self._is_writing = False
        self._before: dict[signal.Signals, object] = {}

    def wait_for_end(self, patience_s: float = 5.0) -> None:
        """Let the first signal from now on wait until the command checks `requested`.

        patience_s: how long a write may go on after that signal, see writing().
        """
        self._patience_s = max(0.001, patience_s)
        self._at_once = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Mark a block that writes to standard output, and may wait for its reader without end."""
        self._is_writing = True
        try:
            if self.requested and not self._at_once:
                self._set_alarm()
            yield
        except _EndNow:
            # the interpreter would try to write the rest of the buffer at exit, and wait again
            abandon_output()
            raise
        finally:
            self._is_writing = False
            if signal.SIGALRM in self._before:
                signal.setitimer(signal.ITIMER_REAL, 0)

    @property
    def exit_code(self) -> int:
        """130 for Ctrl-C and 129 for a closed terminal, as shells expect.

        0 without a signal, and for SIGTERM, the usual way to stop a consumer.
        """
        return 0 if self.signal_number is None or self.signal_number == signal.SIGTERM else 128 + self.signal_number

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            # nohup makes a process ignore SIGHUP
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it came from signal.signal
        return isinstance(exc, _EndNow)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        first = not self.requested
        self.requested = True
        if first:
            self.signal_number = number
            if self._is_writing and not self._at_once:
                self._set_alarm()
        if (self._at_once or not first) and not self._was_cut_short and not _is_over(frame):
            self._was_cut_short = True
            raise _EndNow

    def _set_alarm(self) -> None:
        if signal.SIGALRM not in self._before:
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_alarm)
        signal.setitimer(signal.ITIMER_REAL, self._patience_s)

    def _on_alarm(self, _number: int, frame: FrameType | None) -> None:
        if self._is_writing and not self._was_cut_short and not _is_over(frame):
            self._was_cut_short = True
            raise _EndNow


def _is_over(frame: FrameType | None) -> bool:
    """Return whether a signal came in __exit__: nothing would catch an error that its handler raises there.

    Python handles a signal that came earlier when it enters the next function, which is __exit__. So this is not rare.
    """
    while frame is not None:
        if frame.f_code is Ending.__exit__.__code__:
            return True
        frame = frame.f_back
    return False
