"""Message objects over columns: as light as they can be made, for whoever iterates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from legacy_consumer.comparable_message import ComparableMessage
from legacy_consumer.errors import CorruptRecordsError
from legacy_consumer.portions import all_of, numbers
from legacy_consumer.wire.records.cutting import cut
from legacy_consumer.wire.records.headers import HeaderList, parse_headers

if TYPE_CHECKING:
    from legacy_consumer.wire.records.columns import Columns


class ColumnMessage(ComparableMessage, tuple["Fields", "bytes | None", int]):
    """One record, with the accessors of legacy_consumer.fetcher.Message.

    The rows that it belongs to, its value, and its number among them: a tuple is the cheapest object to make many of.
    One that is kept keeps its rows, and with them the buffer that their bytes came in; one that is pickled leaves them.
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
        """The headers, None if there are none.

        Raises: ValueError if they were left out at decoding; CorruptRecordsError.
        """
        return self[0].headers_of(self[2])


class Fields(Protocol):
    """The fields of some rows as Python objects."""

    topic: str
    partition: int

    @property
    def offsets(self) -> list[int]:
        """Of all rows."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None]:
        """Of all rows."""
        ...

    @property
    def timestamps(self) -> list[tuple[int, int]]:
        """Of all rows: (type, ms since 1970)."""
        ...

    def headers_of(self, row: int) -> HeaderList | None:
        """Of one row, None if it has none. Raises: CorruptRecordsError."""
        ...


class MessageColumns(Protocol):
    """Columns whose rows can be had as messages."""

    def __len__(self) -> int: ...
    def fields(self, start: int, stop: int) -> Fields:
        """What messages of these rows share; kept with each of them."""
        ...

    def cut_values(self, start: int, stop: int) -> Sequence[bytes | None]:
        """The values of these rows, all at once."""
        ...


class ColumnFields:
    """Implements Fields: each made for all of the rows at its first use."""

    def __init__(self, columns: Columns, start: int, stop: int) -> None:
        self.topic, self.partition = columns.topic_partition
        self._columns = columns
        self._rows = slice(start, stop)

    @cached_property
    def offsets(self) -> list[int]:
        """See Fields."""
        offsets: list[int] = self._columns.offsets[self._rows].tolist()
        return offsets

    @cached_property
    def keys(self) -> tuple[bytes | None, ...]:
        """See Fields."""
        columns, rows = self._columns, self._rows
        return cut(columns.data, columns.keys.slice(rows.start, rows.stop))

    @cached_property
    def timestamps(self) -> list[tuple[int, int]]:
        """See Fields."""
        columns, rows = self._columns, self._rows
        return list(zip(columns.timestamp_types[rows].tolist(), columns.timestamps[rows].tolist(), strict=True))

    def headers_of(self, row: int) -> HeaderList | None:
        """Parsed anew each time: few records have any, and fewer are asked for them twice."""
        columns = self._columns
        spans = columns.headers
        if spans is None:
            msg = "these records were decoded without their headers: decode them with with_headers=True"
            raise ValueError(msg)
        start, length = (int(ends[self._rows][row]) for ends in (spans.starts, spans.lengths))
        try:
            return parse_headers(columns.data[start : start + length].tobytes()) or None
        except ValueError as error:
            raise CorruptRecordsError(columns.topic_partition, self.offsets[row], str(error)) from error


_AT_ONCE = 1024
"""Rows of a portion at most: as many as have their values, and their numbers, in the processor's own caches."""


class Rows:
    """Some columns as messages: what their portions share."""

    __slots__ = ("_columns",)

    def __init__(self, columns: MessageColumns) -> None:
        self._columns = columns

    def portions(self, start: int, stop: int) -> Iterator[RowPortion]:
        """The messages of these rows."""
        for at in range(start, stop, _AT_ONCE):
            end = min(at + _AT_ONCE, stop)
            yield RowPortion(self._columns, self._columns.fields(at, end), at, end)


class RowPortion:
    """Implements Portion: some rows of some columns. Values are cut when the first of them is asked for."""

    __slots__ = ("_columns", "_start", "_stop", "_values", "numbers", "token")

    def __init__(self, columns: MessageColumns, fields: Fields, start: int, stop: int) -> None:
        self._columns = columns
        self._start = start
        self._stop = stop
        self._values: Iterator[bytes | None] | None = None
        self.token = fields
        self.numbers = numbers(stop - start)

    def through(self, gate: Iterator[object]) -> Iterator[ColumnMessage]:
        """See Portion."""
        if self._values is None:
            self._values = iter(self._columns.cut_values(self._start, self._stop))
        return map(ColumnMessage, zip(gate, self._values, self.numbers, strict=False))  # type: ignore[arg-type]


def messages_of(columns: MessageColumns) -> list[ColumnMessage]:
    """One message a record, in order."""
    portions = Rows(columns).portions(0, len(columns))
    return list(chain.from_iterable(map(all_of, portions)))  # type: ignore[arg-type]
