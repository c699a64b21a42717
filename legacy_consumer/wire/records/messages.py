"""Message objects over columns: as light as they can be made, for whoever iterates."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

from legacy_consumer.errors import CorruptRecordsError
from legacy_consumer.wire.records.headers import HeaderList, parse_headers

if TYPE_CHECKING:
    from legacy_consumer.wire.records.columns import Columns, Spans


class ColumnMessage(tuple["_Rows", int]):
    """One record, with the accessors of legacy_consumer.fetcher.Message.

    A pair of the rows that it belongs to and its number among them: a tuple is the cheapest object to make many of.
    One that is kept keeps the bytes of its rows, which are those handed out together.
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
        return self[0].offsets[self[1]]

    def key(self) -> bytes | None:
        """The key, None if it has none."""
        return self[0].keys[self[1]]

    def value(self) -> bytes | None:
        """The value, None for a deletion in a compacted topic."""
        return self[0].values[self[1]]

    def timestamp(self) -> tuple[int, int]:
        """(type, ms since 1970); type 0 = not available, with -1."""
        return self[0].timestamps[self[1]]

    def headers(self) -> HeaderList | None:
        """The headers, None if there are none.

        Raises: ValueError if they were left out at decoding; CorruptRecordsError.
        """
        return self[0].headers_of(self[1])

    def __repr__(self) -> str:
        return f"<message {self.topic()}/{self.partition()} at offset {self.offset()}>"


class _Rows:
    """The fields of the records of some columns as Python objects, each made for all records at its first use."""

    def __init__(self, columns: Columns) -> None:
        self.topic, self.partition = columns.topic_partition
        self._columns = columns
        fields = [spans for spans in (columns.keys, columns.values, columns.headers) if spans is not None]
        # starts ascend, so the first record's begin the range and the last record's end it
        self._begin = min(int(spans.starts[0]) for spans in fields)
        end = max(int(spans.starts[-1]) + max(int(spans.lengths[-1]), 0) for spans in fields)
        self._bytes = columns.data[self._begin : end].tobytes()

    @cached_property
    def offsets(self) -> list[int]:
        offsets: list[int] = self._columns.offsets.tolist()
        return offsets

    @cached_property
    def keys(self) -> list[bytes | None]:
        return self._cut(self._columns.keys)

    @cached_property
    def values(self) -> list[bytes | None]:
        return self._cut(self._columns.values)

    @cached_property
    def timestamps(self) -> list[tuple[int, int]]:
        columns = self._columns
        return list(zip(columns.timestamp_types.tolist(), columns.timestamps.tolist(), strict=True))

    def headers_of(self, row: int) -> HeaderList | None:
        """Parsed anew each time: few records have any, and fewer are asked for them twice."""
        spans = self._columns.headers
        if spans is None:
            msg = "these records were decoded without their headers: decode them with with_headers=True"
            raise ValueError(msg)
        start, length = int(spans.starts[row]) - self._begin, int(spans.lengths[row])
        try:
            return parse_headers(self._bytes[start : start + length]) or None
        except ValueError as error:
            raise CorruptRecordsError(self._columns.topic_partition, self.offsets[row], str(error)) from error

    def _cut(self, spans: Spans) -> list[bytes | None]:
        data = self._bytes
        starts = (spans.starts - self._begin).tolist()
        if not (spans.lengths < 0).any():
            ends = (spans.starts + (spans.lengths - self._begin)).tolist()
            return [data[start:end] for start, end in zip(starts, ends, strict=True)]
        lengths = spans.lengths.tolist()
        return [
            None if length < 0 else data[start : start + length] for start, length in zip(starts, lengths, strict=True)
        ]


def messages_of(columns: Columns) -> list[ColumnMessage]:
    """One message a record, in order."""
    return list(iterate(columns, iter(range(len(columns)))))


def iterate(columns: Columns, rows: Iterator[int]) -> Iterator[ColumnMessage]:
    """The messages of these rows, each made as it is asked for."""
    if not len(columns):
        return iter(())
    # ours is asked second: what zip takes from it is handed out
    return map(ColumnMessage, zip(repeat(_Rows(columns)), rows))
