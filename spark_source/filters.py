"""Which groups, topics and partitions a query can want, by the filters that Spark pushes down. No I/O.

Used to read less, never to drop rows: Spark evaluates every filter again. So whatever is not understood here may stand
for true, and the columns this looks at, the key of a row, are never null.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)


@dataclass(frozen=True, slots=True)
class Pruning:
    """Filters by the column that they speak of, all of which must hold. Crosses to the executors."""

    group: tuple[Filter, ...] = ()
    topic: tuple[Filter, ...] = ()
    partition: tuple[Filter, ...] = ()

    def wants_group(self, group: str) -> bool:
        """Whether a row of this group can be wanted."""
        return all(may_hold(each, group) for each in self.group)

    def wants_topic(self, topic: str) -> bool:
        """Whether a row of this topic can be wanted."""
        return all(may_hold(each, topic) for each in self.topic)

    def wants_partition(self, partition: int) -> bool:
        """Whether a row of this partition can be wanted."""
        return all(may_hold(each, partition) for each in self.partition)


def prune(filters: Collection[Filter]) -> Pruning:
    """Sort the filters by column; those on other columns are left to Spark."""

    def on(column: str) -> tuple[Filter, ...]:
        # a user's schema may spell a column in capitals, and its filters then do too
        return tuple(each for each in filters if tuple(part.lower() for part in _column(each)) == (column,))

    return Pruning(on("group"), on("topic"), on("partition"))


def may_hold(condition: Filter, value: str | int) -> bool:
    """False if no row with this value can satisfy the filter."""
    if isinstance(condition, Not):
        # a null inside the negated filter makes Spark's answer null where this one is True: that only reads more
        return not _holds(condition.child, value, otherwise=False)
    return _holds(condition, value, otherwise=True)


def _column(condition: Filter) -> Sequence[str]:
    inner = condition.child if isinstance(condition, Not) else condition
    return getattr(inner, "attribute", ())


def _holds(condition: Filter, value: str | int, *, otherwise: bool) -> bool:
    try:
        return _compare(condition, value, otherwise=otherwise)
    except TypeError:  # compared with null or with another type, which Spark settles
        return otherwise


def _compare(condition: Filter, value: str | int, *, otherwise: bool) -> bool:
    # text compares by code point here and by UTF-8 byte in Spark: the same order
    match condition:
        case EqualTo(value=wanted) | EqualNullSafe(value=wanted):
            return bool(value == wanted)
        case In(value=wanted):
            return value in wanted
        case GreaterThan(value=bound):
            return bool(value > bound)
        case GreaterThanOrEqual(value=bound):
            return bool(value >= bound)
        case LessThan(value=bound):
            return bool(value < bound)
        case LessThanOrEqual(value=bound):
            return bool(value <= bound)
        case StringStartsWith(value=part) if isinstance(value, str):
            return value.startswith(part)
        case StringEndsWith(value=part) if isinstance(value, str):
            return value.endswith(part)
        case StringContains(value=part) if isinstance(value, str):
            return part in value
        case IsNull():
            return False
        case _:
            return otherwise
