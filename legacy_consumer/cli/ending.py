"""Ctrl-C and SIGTERM for a command that must finish what it has begun.

While nothing has begun, the first signal ends the command where it stands. From wait_for_end on, the first one only
raises a flag, which the command looks at between two steps; a handler could not do more without running into a lock
that its own thread holds. The next one ends it where it stands, for whoever has no patience; any other is ignored, for
the command is on its way out.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _EndNow(BaseException):
    """Not an Exception, so that nothing on the way takes it for a failure."""


class Ending:
    """Use as a context manager, in the main thread; it puts the handlers back.

    requested: the command should come to its end. signal_number: of the first signal, or None.
    """

    def __init__(self) -> None:
        self.requested = False
        self.signal_number: int | None = None
        self._at_once = True
        self._was_cut_short = False
        self._before: dict[signal.Signals, object] = {}

    def wait_for_end(self) -> None:
        """From now on the first signal waits until the command looks at `requested`."""
        self._at_once = False

    @property
    def exit_code(self) -> int:
        """130 for Ctrl-C, as any shell expects it; 0 for SIGTERM, the usual way to stop a consumer, and without."""
        return 130 if self.signal_number == signal.SIGINT else 0

    def __enter__(self) -> Self:
        for number in _SIGNALS:
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
        if (self._at_once or not first) and not self._was_cut_short and not _is_over(frame):
            self._was_cut_short = True
            raise _EndNow


def _is_over(frame: FrameType | None) -> bool:
    """Whether a signal came in __exit__, which nothing could take what is raised out of.

    A signal that came before is handled where the next function is entered, and that is __exit__: not a rare chance.
    """
    while frame is not None:
        if frame.f_code is Ending.__exit__.__code__:
            return True
        frame = frame.f_back
    return False
