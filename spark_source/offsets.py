"""The columns of zk_offsets: names, types, meaning, and how each is made from what was read. No I/O.

A user's schema chooses among them by name. What it leaves out is not read either where that costs something: the log
columns ask the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from legacy_consumer.admin.group_table import GroupPartition
from spark_source.arrow import ArrowColumn, ColumnType
from spark_source.errors import SchemaMismatchError
from zk_layout.model import TopicPartition


class LogEnd(Enum):
    """What only the brokers know."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Where the logs begin and end; partitions that no broker answered for are missing."""

    start: Mapping[TopicPartition, int] = field(default_factory=dict)
    end: Mapping[TopicPartition, int] = field(default_factory=dict)


Values = Callable[[Sequence[GroupPartition], LogEnds], Sequence[object]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. needs: what must be asked of the brokers for it."""

    name: str
    type: ColumnType
    meaning: str
    values: Values
    nullable: bool = True
    needs: frozenset[LogEnd] = frozenset()


def _log_starts(rows: Sequence[GroupPartition], logs: LogEnds) -> list[int | None]:
    return [logs.start.get(TopicPartition(row.topic, row.partition)) for row in rows]


def _log_ends(rows: Sequence[GroupPartition], logs: LogEnds) -> list[int | None]:
    return [logs.end.get(TopicPartition(row.topic, row.partition)) for row in rows]


def _lags(rows: Sequence[GroupPartition], logs: LogEnds) -> list[int | None]:
    return [
        None if end is None or row.committed is None else end - row.committed
        for row, end in zip(rows, _log_ends(rows, logs), strict=True)
    ]


COLUMNS = (
    Column("group", ColumnType.STRING, "the group", lambda rows, _: [row.group for row in rows], nullable=False),
    Column("topic", ColumnType.STRING, "the topic", lambda rows, _: [row.topic for row in rows], nullable=False),
    Column(
        "partition",
        ColumnType.INT,
        "the partition",
        lambda rows, _: [row.partition for row in rows],
        nullable=False,
    ),
    Column(
        "committed_offset",
        ColumnType.LONG,
        "the next offset the group will read; null if it has committed none",
        lambda rows, _: [row.committed for row in rows],
    ),
    Column(
        "commit_time",
        ColumnType.TIMESTAMP,
        "when the offset was written last, by ZooKeeper's clock",
        lambda rows, _: [row.committed_at_ms for row in rows],
    ),
    Column(
        "owner",
        ColumnType.STRING,
        "the consumer thread that owns the partition, as its znode says; null if nobody does",
        lambda rows, _: [row.owner for row in rows],
    ),
    Column(
        "log_start",
        ColumnType.LONG,
        "the first offset in the log; null if no broker says",
        _log_starts,
        needs=frozenset({LogEnd.START}),
    ),
    Column(
        "log_end",
        ColumnType.LONG,
        "the offset the next message will get; null if no broker says",
        _log_ends,
        needs=frozenset({LogEnd.END}),
    ),
    Column(
        "lag",
        ColumnType.LONG,
        "log_end less committed_offset; below 0 if the log is shorter than what was committed",
        _lags,
        needs=frozenset({LogEnd.END}),
    ),
    Column(
        "error",
        ColumnType.STRING,
        "path and reason if a znode of this row holds what no member can read; null otherwise",
        lambda rows, _: [row.error for row in rows],
    ),
)
_BY_NAME = {column.name: column for column in COLUMNS}

SCHEMA_DDL = ", ".join(f"{column.name} {column.type.value}" for column in COLUMNS)
"""The schema without one of the user's, as Spark reads it. All nullable, so that it can be merged with others."""


@dataclass(frozen=True, slots=True)
class RequestedColumn:
    """A column as the user's schema has it: its name in the user's spelling. Crosses to the executors by name."""

    name: str
    source: str
    nullable: bool

    @property
    def column(self) -> Column:
        """What it is made from."""
        return _BY_NAME[self.source]

    @property
    def arrow(self) -> ArrowColumn:
        """How Spark wants it."""
        return ArrowColumn(self.name, self.column.type, self.nullable)


def request_columns(fields: Iterable[tuple[str, str, bool]]) -> tuple[RequestedColumn, ...]:
    """Match a schema, (name, type as Spark calls it, nullable) each, with COLUMNS; case does not count.

    Raises: SchemaMismatchError for an unknown column, another type, or NOT NULL where null can be.
    """
    requested = []
    for name, type_name, nullable in fields:
        column = _BY_NAME.get(name.lower())
        if column is None:
            raise SchemaMismatchError(name, f"there is no such column, only {', '.join(_BY_NAME)}")
        if type_name != column.type.value:
            raise SchemaMismatchError(name, f"has type {column.type.value} and cannot be had as {type_name}")
        if column.nullable and not nullable:
            raise SchemaMismatchError(name, "can be null: leave NOT NULL out of the schema")
        requested.append(RequestedColumn(name, column.name, nullable))
    return tuple(requested)


def needed_log_ends(columns: Iterable[RequestedColumn]) -> frozenset[LogEnd]:
    """What must be asked of the brokers for these columns; nothing for most."""
    return frozenset().union(*(requested.column.needs for requested in columns))
