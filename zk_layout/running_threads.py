"""The library's own threads, and whether a thread runs."""

from __future__ import annotations

import threading
from typing import Literal

_Fate = Literal["runs", "given up"]


class LibraryThread(threading.Thread):
    """A daemon thread that either runs or never does, even if an exception interrupts start().

    A plain threading.Thread may stay between the two: threading lists it for ever though it does not run, or it begins
    after the caller has made another one.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, daemon=True, **kwargs)  # type: ignore[arg-type]
        self._fate: dict[None, _Fate] = {}
        """Empty until it is decided, in one step: by the thread as it begins, or by start() if it is interrupted."""
        self._is_due = False
        self._is_over = False

    def start(self) -> None:
        """Start the thread. Raises: whatever exception interrupts it; RuntimeError if the system has no thread left."""
        try:
            super().start()
            self._is_due = True
        except BaseException as error:
            self._fate.setdefault(None, "given up")
            if isinstance(error, RuntimeError) and "lock" in str(error) and error.__context__ is not None:
                # an exception that interrupts threading's own wait comes out as an error about its lock
                raise error.__context__ from None
            raise

    def run(self) -> None:
        """Call the target, unless an interrupted start() has given the thread up."""
        if self._fate.setdefault(None, "runs") == "runs":
            try:
                super().run()
            finally:
                self._is_over = True

    @property
    def is_running(self) -> bool:
        """Whether the thread runs, or is about to begin."""
        return self._will_run and not self._is_over

    @property
    def _will_run(self) -> bool:
        return self._fate.get(None, "runs" if self._is_due else "given up") == "runs"

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread's end, at most timeout seconds. Return at once if the thread never begins."""
        if self._will_run:
            super().join(timeout)


class OwnThread(LibraryThread):
    """A thread for whose end a shutdown waits, or for the answers that the thread reads.

    A logging handler or a finaliser of the user may run on such a thread. A shutdown that it calls must not wait.
    """

    @staticmethod
    def is_current() -> bool:
        """Return whether the calling thread is an OwnThread."""
        return isinstance(threading.current_thread(), OwnThread)


def is_running(thread: threading.Thread | None) -> bool:
    """Return whether a thread has begun and has not ended. Takes no lock that a signal handler would wait for.

    A thread object may stand for no thread: see LibraryThread. Up to Python 3.12 is_alive() is False for ever if an
    exception, as Ctrl-C, interrupted a join() of the thread. The main thread cannot be joined like that, and is listed
    after its end.
    """
    if thread is None:
        return False
    if isinstance(thread, LibraryThread):
        return thread.is_running
    if thread.is_alive():
        return True
    return thread is not threading.main_thread() and any(one is thread for one in threading.enumerate())
