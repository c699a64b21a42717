"""Message objects over columns: as light as they can be made, for whoever iterates."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from legacy_consumer.comparable_message import ComparableMessage
from legacy_consumer.portions import all_of, numbers
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import legacy_consumer_native

    from legacy_consumer.wire.records.columns import Columns

HeaderList = list[tuple[str, "bytes | None"]]
"""In order, a key perhaps more than once. Keys are UTF-8; what is not becomes U+FFFD, as in Java."""


class ColumnMessage(ComparableMessage, tuple["Fields", "bytes | None", int]):
    """One record, with the accessors of legacy_consumer.fetcher.Message.

    The rows that it belongs to, its value, and its number among them: a tuple is the cheapest object to make many of.
    One that is kept keeps its rows, and with them the memory of the record set; one that is pickled leaves them.
    """

    __slots__ = ()

    def topic(self) -> str:
        """The topic's name."""
        return self[0].topic

    def partition(self) -> int:
        """The partition's number."""
        return self[0].partition

    def offset(self) -> int:
        """The record's offset."""
        return self[0].offsets[self[2]]

    def key(self) -> bytes | None:
        """The key, None if it has none."""
        return self[0].keys[self[2]]

    def value(self) -> bytes | None:
        """The value, None for a deletion in a compacted topic."""
        return self[1]

    def timestamp(self) -> tuple[int, int]:
        """(type, ms since 1970); type 0 = not available, with -1."""
        return self[0].timestamps[self[2]]

    def headers(self) -> HeaderList | None:
        """The headers, None if there are none."""
        return self[0].headers_of(self[2])


class Fields:
    """The fields of some rows as Python objects, each made for all of the rows at its first use."""

    def __init__(self, topic_partition: TopicPartition, rows: legacy_consumer_native.Columns) -> None:
        self.topic, self.partition = topic_partition
        self._rows = rows

    @cached_property
    def offsets(self) -> list[int]:
        """Of all rows."""
        return self._rows.offsets()

    @cached_property
    def keys(self) -> list[bytes | None]:
        """Of all rows."""
        return self._rows.keys()

    @cached_property
    def timestamps(self) -> list[tuple[int, int]]:
        """Of all rows: (type, ms since 1970)."""
        return self._rows.timestamps()

    def headers_of(self, row: int) -> HeaderList | None:
        """Of one row, None if it has none; parsed anew each time: few records have any."""
        return self._rows.headers(row)


_AT_ONCE = 1024
"""Rows of a portion at most: as many as have their values, and their numbers, in the processor's own caches."""


class Rows:
    """Some columns as messages: what their portions share."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def portions(self, start: int, stop: int) -> Iterator[RowPortion]:
        """The messages of these rows."""
        for at in range(start, stop, _AT_ONCE):
            end = min(at + _AT_ONCE, stop)
            yield RowPortion(self._columns, self._columns.fields(at, end), at, end)


class RowPortion:
    """Implements Portion: some rows of some columns. Values are cut when the first of them is asked for."""

    __slots__ = ("_columns", "_start", "_stop", "_values", "numbers", "token")

    def __init__(self, columns: Columns, fields: Fields, start: int, stop: int) -> None:
        self._columns = columns
        self._start = start
        self._stop = stop
        self._values: Iterator[bytes | None] | None = None
        self.token = fields
        self.numbers = numbers(stop - start)

    def through(self, gate: Iterator[object]) -> Iterator[ColumnMessage]:
        """See Portion."""
        if self._values is None:
            self._values = iter(self._columns.values(self._start, self._stop))
        return map(ColumnMessage, zip(gate, self._values, self.numbers, strict=False))  # type: ignore[arg-type]


def messages_of(columns: Columns) -> list[ColumnMessage]:
    """One message a record, in order."""
    portions = Rows(columns).portions(0, len(columns))
    return list(chain.from_iterable(map(all_of, portions)))  # type: ignore[arg-type]
