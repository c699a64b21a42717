"""The library's own threads, and whether a thread runs."""

from __future__ import annotations

import threading


class OwnThread(threading.Thread):
    """A daemon thread of the library. A shutdown waits for its end, or for the answers that it reads.

    User code runs on such a thread in a logging handler or a finaliser. There a shutdown must not wait.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, daemon=True, **kwargs)  # type: ignore[arg-type]

    @staticmethod
    def is_current() -> bool:
        """Return whether the calling thread is one of them."""
        return isinstance(threading.current_thread(), OwnThread)


def is_running(thread: threading.Thread | None) -> bool:
    """Return whether a thread has begun and has not ended. Takes no lock that a signal handler would wait for.

    A thread object may stand for no thread: an exception struck its maker before start(), or the system had no thread
    left. Up to Python 3.12 is_alive() is False for ever if an exception, as Ctrl-C, interrupted a join() of the thread.
    The main thread cannot be joined like that, and is listed after its end.
    """
    if thread is None:
        return False
    if thread.is_alive():
        return True
    return thread is not threading.main_thread() and any(one is thread for one in threading.enumerate())
