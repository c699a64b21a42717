"""The project's loggers: no error of a user's logging handler reaches the code that logs, and no text forges a line."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress

from zk_layout.plain_text import printable
from zk_layout.shown import shown

_SHOWS_ERRORS = logging.NullHandler()


class _SafeLogger(logging.Logger):
    """Logs through the logger of its name, with the levels, filters and handlers that the user gave to that one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._public = logging.getLogger(name)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's name
        return self._public.isEnabledFor(level)

    def __reduce__(self) -> tuple[Callable[[str], logging.Logger], tuple[str]]:
        return safe_logger, (self.name,)

    def handle(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
            # another client may have written a part of it
            line = printable(shown(text))
            if line != text:
                record.msg, record.args = line, None
            if record.exc_info and record.exc_info[1] is not None:
                # formatters use this text; indented, no line of it looks like a record
                lines = "".join(traceback.format_exception(*record.exc_info)).splitlines()
                record.exc_text = "\n".join("    " + printable(one) for one in lines)
            self._public.handle(record)
        except (Exception, SystemExit) as error:
            # on any other thread SystemExit would end that thread, not the program
            if isinstance(error, SystemExit) and threading.current_thread() is threading.main_thread():
                raise
            with suppress(Exception):
                _SHOWS_ERRORS.handleError(record)


def safe_logger(name: str) -> logging.Logger:
    """Return a logger whose methods do not raise what a handler or a filter raises.

    It escapes line ends and control characters in a message, shortens a message of more than 1,000 characters, and
    indents tracebacks.

    The error of a handler goes to standard error, as logging itself shows it (logging.raiseExceptions). SystemExit of a
    handler ends the program if the main thread logs; on another thread it is shown like other errors.
    """
    return _SafeLogger(name)
