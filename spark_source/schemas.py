"""Matches a user's schema with the columns of a format. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from spark_source.arrow import ColumnType
from spark_source.errors import SchemaMismatchError
from zk_layout.errors import ConfigError


class KnownColumn(Protocol):
    """A column of a format."""

    @property
    def name(self) -> str:
        """The documented name."""

    @property
    def type(self) -> ColumnType:
        """The type, with Spark's name."""

    @property
    def nullable(self) -> bool:
        """Whether it can be null."""


Known = TypeVar("Known", bound=KnownColumn)


def schema_ddl(columns: Iterable[KnownColumn]) -> str:
    """Return the schema of a read without a user's schema, as DDL. All columns are nullable, so that it can be merged.

    A bare `timestamp` would be another type with spark.sql.timestampType=TIMESTAMP_NTZ.
    """
    names = {ColumnType.TIMESTAMP: "timestamp_ltz"}
    return ", ".join(f"{column.name} {names.get(column.type, column.type.value)}" for column in columns)


def match_columns(
    fields: Iterable[tuple[str, str, bool]], columns: Sequence[Known]
) -> Iterator[tuple[str, Known, bool]]:
    """Yield (name, column, nullable) for each field (name, Spark's type, nullable) of a schema; case does not count.

    Raises: SchemaMismatchError for a column that is unknown, occurs twice, has another type, or is NOT NULL though it
    may be null; ConfigError for a schema without columns, for which Spark would count no rows.
    """
    by_name = {column.name.lower(): column for column in columns}
    seen: set[str] = set()
    for name, type_name, nullable in fields:
        column = by_name.get(name.lower())
        if column is None:
            known = ", ".join(each.name for each in columns)
            raise SchemaMismatchError(name, f"there is no such column, only {known}")
        if type_name != column.type.value:
            reason = f"has type {column.type.value} and cannot be read as {type_name}"
            raise SchemaMismatchError(name, reason + _advice(name, column.type, type_name))
        if column.nullable and not nullable:
            raise SchemaMismatchError(name, "can be null: leave NOT NULL out of the schema")
        if column.name in seen:
            raise SchemaMismatchError(name, "stands twice in the schema")
        seen.add(column.name)
        yield name, column, nullable
    if not seen:
        raise ConfigError("schema", None, "has no columns: name one at least, or leave the schema out for all")


def _advice(name: str, wanted: ColumnType, given: str) -> str:
    if wanted is ColumnType.BINARY and given == "string":
        return f": cast it, {name}.cast('string')"
    if wanted is ColumnType.TIMESTAMP and given == "timestamp_ntz":
        return ": write timestamp_ltz, which does not depend on spark.sql.timestampType"
    return ""
