"""The columns of zk_messages, the same as in Spark's own Kafka source. No I/O.

A user's schema chooses among them by name; what it leaves out is not made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_source.arrow import ArrowColumn, ColumnType
from spark_source.schemas import match_columns


@dataclass(frozen=True, slots=True)
class MessageColumn:
    """One column."""

    name: str
    type: ColumnType
    meaning: str
    nullable: bool = True


COLUMNS = (
    MessageColumn("key", ColumnType.BINARY, "the key, null without one"),
    MessageColumn("value", ColumnType.BINARY, "the value, null for a deletion in a compacted topic"),
    MessageColumn("topic", ColumnType.STRING, "the topic", nullable=False),
    MessageColumn("partition", ColumnType.INT, "the partition", nullable=False),
    MessageColumn("offset", ColumnType.LONG, "the offset in the partition", nullable=False),
    MessageColumn(
        "timestamp",
        ColumnType.TIMESTAMP,
        "the message's time; null if its format has none (brokers before 0.10), or Spark's timestamp cannot hold it",
    ),
    MessageColumn(
        "timestampType", ColumnType.INT, "0 = set by its producer, 1 = by the broker, -1 = none", nullable=False
    ),
    MessageColumn("headers", ColumnType.HEADERS, "the headers in order, null without any; only on request"),
)
_BY_NAME = {column.name.lower(): column for column in COLUMNS}


def default_columns(*, headers: bool) -> list[MessageColumn]:
    """The columns without a schema of the user's."""
    return [column for column in COLUMNS if headers or column.type is not ColumnType.HEADERS]


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column as the user's schema has it: its name in the user's spelling, and which one it is."""

    name: str
    source: str
    nullable: bool

    @property
    def arrow(self) -> ArrowColumn:
        """How Spark wants it."""
        return ArrowColumn(self.name, _BY_NAME[self.source.lower()].type, self.nullable)


def request_message_columns(fields: Iterable[tuple[str, str, bool]]) -> tuple[WantedColumn, ...]:
    """The columns of a schema: (name, type as Spark's, nullable) each. Raises: SchemaMismatchError, ConfigError."""
    return tuple(WantedColumn(name, known.name, nullable) for name, known, nullable in match_columns(fields, COLUMNS))
