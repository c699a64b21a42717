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
