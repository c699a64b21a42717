"""The columns of zk_messages, the same as in Spark's own Kafka source. No I/O.

A user's schema chooses among them by name; a column that it leaves out is not made.
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
    """Return the columns of a read without a user's schema."""
    return [column for column in COLUMNS if headers or column.type is not ColumnType.HEADERS]


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column of the user's schema: its name in the user's spelling, and source, the name of its MessageColumn."""

    name: str
    source: str
    nullable: bool

    @property
    def arrow(self) -> ArrowColumn:
        """The column with its type for Arrow."""
        return ArrowColumn(self.name, _BY_NAME[self.source.lower()].type, self.nullable)


def request_message_columns(fields: Iterable[tuple[str, str, bool]]) -> tuple[WantedColumn, ...]:
    """Return the columns of a schema of (name, Spark's type, nullable). Raises: SchemaMismatchError, ConfigError."""
    return tuple(WantedColumn(name, known.name, nullable) for name, known, nullable in match_columns(fields, COLUMNS))
