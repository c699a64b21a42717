"""Message objects over columns: as light as they can be made, for whoever iterates."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from operator import length_hint
from typing import TYPE_CHECKING

from legacy_consumer.errors import CorruptRecordsError
from legacy_consumer.portions import all_of
from legacy_consumer.wire.records.cutting import cut
from legacy_consumer.wire.records.headers import HeaderList, parse_headers

if TYPE_CHECKING:
    from legacy_consumer.wire.records.columns import Columns


class ColumnMessage(tuple["_Rows", "bytes | None", int]):
    """One record, with the accessors of legacy_consumer.fetcher.Message.

    The rows that it belongs to, its value, and its number among them: a tuple is the cheapest object to make many of.
    One that is kept keeps its rows, and with them the buffer that their bytes came in.
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

    def __repr__(self) -> str:
        return f"<message {self.topic()}/{self.partition()} at offset {self.offset()}>"


class _Rows:
    """The fields of the records of some columns as Python objects, each made for all records at its first use."""

    def __init__(self, columns: Columns) -> None:
        self.topic, self.partition = columns.topic_partition
        self._columns = columns

    @cached_property
    def offsets(self) -> list[int]:
        offsets: list[int] = self._columns.offsets.tolist()
        return offsets

    @cached_property
    def keys(self) -> tuple[bytes | None, ...]:
        return cut(self._columns.data, self._columns.keys)

    @cached_property
    def timestamps(self) -> list[tuple[int, int]]:
        columns = self._columns
        return list(zip(columns.timestamp_types.tolist(), columns.timestamps.tolist(), strict=True))

    def headers_of(self, row: int) -> HeaderList | None:
        """Parsed anew each time: few records have any, and fewer are asked for them twice."""
        columns = self._columns
        spans = columns.headers
        if spans is None:
            msg = "these records were decoded without their headers: decode them with with_headers=True"
            raise ValueError(msg)
        start, length = int(spans.starts[row]), int(spans.lengths[row])
        try:
            return parse_headers(columns.data[start : start + length].tobytes()) or None
        except ValueError as error:
            raise CorruptRecordsError(columns.topic_partition, self.offsets[row], str(error)) from error


_CUT_AT_ONCE = 1024
"""Values that are cut for a loop that takes few at a time: as many as stay in the processor's own caches."""


class RowPortion:
    """Implements Portion: the records of some columns. Values are cut when the first of them is asked for."""

    __slots__ = ("_columns", "_values", "numbers", "token")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._values: Iterator[bytes | None] = iter(())
        self.token = _Rows(columns.without_copied_values())
        self.numbers = iter(range(len(columns)))

    def through(self, gate: Iterator[object]) -> Iterator[ColumnMessage]:
        """See Portion."""
        wanted = length_hint(gate)
        if length_hint(self._values) < wanted:
            at = len(self._columns) - length_hint(self.numbers)
            self._values = iter(self._columns.cut_values(at, at + max(wanted, _CUT_AT_ONCE)))
        return map(ColumnMessage, zip(gate, self._values, self.numbers, strict=False))  # type: ignore[arg-type]


def messages_of(columns: Columns) -> list[ColumnMessage]:
    """One message a record, in order."""
    return list(all_of(RowPortion(columns)))  # type: ignore[arg-type]
