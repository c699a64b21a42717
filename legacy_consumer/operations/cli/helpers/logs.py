"""Logging of commands: to standard error, one line for each record, as text or as JSON."""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, TextIO

from legacy_consumer.json_logs import JsonLogFormatter, Member
from zk_layout.loggers import safe_logger
from zk_layout.plain_text import printable
from zk_layout.shown import shown

logger = safe_logger(__name__)

FORMATS = ("text", "json")
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
# kazoo logs each lost connection as a warning; this project logs that itself
_KAZOO_LEVELS = (logging.CRITICAL, logging.ERROR, logging.INFO)

if TYPE_CHECKING:
    _StreamHandler = logging.StreamHandler[TextIO]
else:
    _StreamHandler = logging.StreamHandler  # takes no parameters before Python 3.11


def set_up_logging(verbosity: int) -> None:
    """Log warnings at 0, INFO at 1, DEBUG from 2 on. May be called again."""
    root = logging.getLogger()
    handler = _handler()
    step = min(verbosity, len(_LEVELS) - 1)
    if not isinstance(handler.formatter, JsonLogFormatter):
        handler.setFormatter(_OneLine(with_details=_LEVELS[step] <= logging.DEBUG))
    root.setLevel(_LEVELS[step])
    logging.getLogger("kazoo").setLevel(_KAZOO_LEVELS[step])


def set_log_format(name: str) -> None:
    """Set the format, one of FORMATS, for this command."""
    if name == "json":
        _handler().setFormatter(JsonLogFormatter())


def name_member(member: Member) -> None:
    """Add the group and the consumer id of this member to JSON lines."""
    formatter = _handler().formatter
    if isinstance(formatter, JsonLogFormatter):
        formatter.watch(member)


def log_ends_of_threads() -> None:
    """Log an error that ends a thread like any other record, where Python would print a traceback."""
    threading.excepthook = _log_end_of_thread


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        logger.error("%s ended", "a thread" if ended.thread is None else ended.thread.name, exc_info=ended.exc_value)


def shows_tracebacks() -> bool:
    """Return whether -vv was given."""
    return logging.getLogger().level <= logging.DEBUG


def _handler() -> _ToStandardError:
    root = logging.getLogger()
    handler = next((h for h in root.handlers if isinstance(h, _ToStandardError)), None)
    if handler is None:
        handler = _ToStandardError()
        root.addHandler(handler)
    return handler


class _ToStandardError(_StreamHandler):
    """Writes to sys.stderr as it is at the time of each record."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # as logging's own handler of last resort does
        return sys.stderr


class _OneLine(logging.Formatter):
    def __init__(self, *, with_details: bool) -> None:
        place = " %(name)s:" if with_details else ""
        super().__init__(f"%(asctime)s %(levelname)s{place} %(message)s", "%H:%M:%S")
        self._with_details = with_details

    def format(self, record: logging.LogRecord) -> str:
        record.message = shown(record.getMessage())
        record.asctime = self.formatTime(record, self.datefmt)
        line = " ".join(self.formatMessage(record).splitlines())
        error = None if record.exc_info is None else record.exc_info[1]
        if error is None:
            return printable(line)
        if not self._with_details:
            return printable(" ".join(f"{line}: {type(error).__name__}: {shown(str(error))}".splitlines()))
        # indented, so that no line of a traceback looks like a record
        lines = self.formatException(record.exc_info).splitlines() if record.exc_info else []
        return "\n    ".join(map(printable, [line, *lines]))
