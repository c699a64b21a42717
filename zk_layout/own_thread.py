"""The threads of the library that a shutdown waits for, or that read the answers which it waits for."""

from __future__ import annotations

import threading


class OwnThread(threading.Thread):
    """A daemon thread that knows itself as one of the library's.

    User code runs on such a thread in a logging handler or a finaliser. There it must not wait for the thread's end.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, daemon=True, **kwargs)  # type: ignore[arg-type]

    @staticmethod
    def is_current() -> bool:
        """Return whether the calling thread is one of them."""
        return isinstance(threading.current_thread(), OwnThread)


def is_at_work(thread: threading.Thread | None) -> bool:
    """Return whether a thread that begins when it is needed is there.

    It may not have begun: an exception struck its caller, or the system had no thread left. Or it may have died.
    """
    return thread is not None and thread.is_alive()
