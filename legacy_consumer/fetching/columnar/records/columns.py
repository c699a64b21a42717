"""The decoded records of one partition, in ascending order of their offsets, in memory that slices of them share."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from legacy_consumer.fetching.columnar.records.messages import messages_of
from legacy_consumer.fetching.fetcher import Message
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import legacy_consumer_native
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Int8s = NDArray[np.int8]
    Int64s = NDArray[np.int64]

ARROW_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The default columns of to_arrow(). Names and order are those of Spark."""
ALL_COLUMNS = (*ARROW_COLUMNS, "headers")


class Columns:
    """Over memory of the native decoder's; nothing of the response is held."""

    def __init__(self, topic_partition: TopicPartition, rows: legacy_consumer_native.Columns) -> None:
        self.topic_partition = topic_partition
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def next_offset(self) -> int:
        """The position after all decoded entries, including gaps, control records and aborted transactions.

        So it may move without a record. If it equals the requested position, there was no complete entry.
        """
        return self._rows.next_offset

    @property
    def has_more(self) -> bool:
        """The record set holds more from next_offset on.

        A limit was reached, or the next record is damaged; decoding from there raises the error.
        """
        return self._rows.has_more

    @property
    def incomplete_size(self) -> int | None:
        """Set when no whole batch was there but the beginning of one: how many bytes it has. Fetch at least so many.

        The number is the batch's own and not checked, so it may be absurd; 2 GiB - 1 at most.
        """
        return self._rows.incomplete_size

    @property
    def nbytes(self) -> int:
        """Bytes that are kept in memory, by a slice too."""
        return self._rows.nbytes

    @cached_property
    def offsets(self) -> Int64s:
        """Without a copy."""
        return self._numbers("offset", "int64")

    @cached_property
    def timestamps(self) -> Int64s:
        """Milliseconds since 1970, without a copy; -1 where there is none."""
        return self._numbers("timestamp", "int64")

    @cached_property
    def timestamp_types(self) -> Int8s:
        """0 none, 1 create time, 2 log append time."""
        return self._numbers("timestampType", "int32").astype("int8")

    def offset(self, row: int) -> int:
        """That of one record."""
        return self._rows.offset(row)

    def _numbers(self, name: str, kind: str) -> NDArray[Any]:
        """Of a column without a look at its nulls. numpy is for Spark alone: a member does without it."""
        import numpy as np

        column = self.to_arrow([name]).column(0)
        return np.frombuffer(column.buffers()[1], kind)[column.offset :][: len(self)]

    def slice(self, start: int, stop: int) -> Columns:
        """The records from start to before stop, as many as there are; costs no more for many.

        next_offset is the offset after the last of them, or after all if it holds the end; of none, where they begin.
        """
        return Columns(self.topic_partition, self._rows.slice(max(start, 0), max(stop, 0)))

    @property
    def run(self) -> tuple[legacy_consumer_native.Columns, str, int]:
        """As the native decoder wants it, to make messages of it."""
        return self._rows, *self.topic_partition

    def messages(self) -> list[Message]:
        """One light object a record."""
        return messages_of([self.run])

    def to_arrow(self, columns: Collection[str] = ARROW_COLUMNS) -> pa.RecordBatch:
        """The wanted columns, in the order of ALL_COLUMNS; keys, values, offsets and timestamps are not copied.

        Raises: ValueError for a column that is not there.
        """
        import pyarrow as pa

        topic, partition = self.topic_partition
        return pa.record_batch(self._rows.arrow(_in_order(columns), topic, partition))


def _in_order(wanted: Collection[str]) -> tuple[str, ...]:
    unknown = [name for name in wanted if name not in ALL_COLUMNS]
    if unknown:
        msg = f"no column {', '.join(map(repr, unknown))}: there are {', '.join(ALL_COLUMNS)}"
        raise ValueError(msg)
    return tuple(name for name in ALL_COLUMNS if name in wanted)
