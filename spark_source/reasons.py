"""Finds the reason in Spark's text of a Python error: Spark puts the traceback before the message."""

from __future__ import annotations

import re

from spark_source.option_names import MESSAGES_FORMAT, OFFSETS_FORMAT, SEGMENTS_FORMAT

_RAISED = re.compile(r"^(?:: )?(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning): (.+)$", re.MULTILINE)
_UNKNOWN = re.compile(rf"\[DATA_SOURCE_NOT_FOUND\] [^:]*: ({OFFSETS_FORMAT}|{MESSAGES_FORMAT}|{SEGMENTS_FORMAT})\b")


def reason_of(error: BaseException) -> str:
    """Return the one line that says what went wrong.

    Spark's text may hold several tracebacks, cause first; the last one is the error that was raised here. Py4J puts the
    error of the JVM after its own, in a line that begins with a colon. If Spark does not find a format, nobody has
    registered it in the session that is active in the calling thread.
    """
    text = str(error)
    if unknown := _UNKNOWN.search(text):
        return f"Spark does not find {unknown[1]}: call spark_source.register with this session, in this thread"
    python = text.split("JVM stacktrace:", 1)[0].split("Driver stacktrace:", 1)[0]
    raised: list[str] = _RAISED.findall(python)
    return raised[-1].strip() if raised else next((line for line in text.splitlines() if line.strip()), repr(error))
