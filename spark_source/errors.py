"""The Spark sources' branch of the error tree.

LegacyConsumerError (zk_layout.errors)
  SparkSourceError
    SchemaMismatchError             a column that the format does not have, or not with this type
    MissingGroupsError              missingGroups=fail, and some of the groups do not exist
    SparkReadError                  a local Spark could not read; the reason is the source's own, or Spark's

Options that cannot be used as given are ConfigError. Spark hands a Python error on as text, the traceback before it;
reason_of finds the line again.
"""

from __future__ import annotations

import re

from zk_layout.errors import LegacyConsumerError

_RAISED = re.compile(r"^(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning): (.+)$", re.MULTILINE)


class SparkSourceError(LegacyConsumerError):
    """A DataFrame cannot be made as asked."""


class SchemaMismatchError(SparkSourceError):
    """A column of the user's schema that cannot be delivered."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        return f"column {self.column}: {self.reason}"


class MissingGroupsError(SparkSourceError):
    """Entries of the option groups that fit no group."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        super().__init__(groups)
        self.groups = groups

    def __str__(self) -> str:
        return (
            f"no such group under /consumers: {', '.join(self.groups)}; "
            "check the option groups, or set missingGroups=ignore"
        )


class SparkReadError(SparkSourceError):
    """A read through a local Spark failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def reason_of(error: BaseException) -> str:
    """The one line that says what went wrong, out of what Spark makes of a Python error in a source.

    Spark's text may hold several tracebacks, cause first; the last one is the error that was raised here.
    """
    text = str(error)
    python = text.split("JVM stacktrace:", 1)[0].split("Driver stacktrace:", 1)[0]
    raised: list[str] = _RAISED.findall(python)
    return raised[-1].strip() if raised else next((line for line in text.splitlines() if line.strip()), repr(error))
