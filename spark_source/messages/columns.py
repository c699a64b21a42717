"""The columns of zk_messages, those of Spark's own Kafka source. No I/O.

A user's schema chooses among them by name; what it leaves out is not made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_source.arrow import ArrowColumn, ColumnType
from spark_source.errors import SchemaMismatchError


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
        "the message's time; null if its format has none (brokers before 0.10), or Spark has no room for it",
    ),
    MessageColumn(
        "timestampType", ColumnType.INT, "0 = set by its producer, 1 = by the broker, -1 = none", nullable=False
    ),
    MessageColumn("headers", ColumnType.HEADERS, "the headers in order, null without any; only on request"),
)
_BY_NAME = {column.name.lower(): column for column in COLUMNS}


def schema_ddl(*, headers: bool) -> str:
    """The schema without one of the user's, as Spark reads it. All nullable, so that it can be merged with others."""
    return ", ".join(
        f"{column.name} {column.type.value}" for column in COLUMNS if headers or column.type is not ColumnType.HEADERS
    )


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
    """Match a schema, (name, type as Spark calls it, nullable) each, with COLUMNS; case does not count.

    Raises: SchemaMismatchError for an unknown column, another type, or NOT NULL where null can be.
    """
    wanted = []
    for name, type_name, nullable in fields:
        column = _BY_NAME.get(name.lower())
        if column is None:
            names = ", ".join(each.name for each in COLUMNS)
            raise SchemaMismatchError(name, f"there is no such column, only {names}")
        if type_name != column.type.value:
            reason = f"has type {column.type.value} and cannot be had as {type_name}"
            if column.type is ColumnType.BINARY and type_name == "string":
                reason += f": cast it, {name}.cast('string')"
            raise SchemaMismatchError(name, reason)
        if column.nullable and not nullable:
            raise SchemaMismatchError(name, "can be null: leave NOT NULL out of the schema")
        wanted.append(WantedColumn(name, column.name, nullable))
    return tuple(wanted)
