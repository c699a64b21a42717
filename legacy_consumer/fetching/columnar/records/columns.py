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
"""The default columns of to_arrow(). Spark's Kafka source has the same names in the same order."""
ALL_COLUMNS = (*ARROW_COLUMNS, "headers")


class Columns:
    """Columns in memory of the native decoder; they keep no bytes of the response."""

    def __init__(self, topic_partition: TopicPartition, rows: legacy_consumer_native.Columns) -> None:
        self.topic_partition = topic_partition
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def next_offset(self) -> int:
        """The position after all decoded entries, including gaps, control records and aborted transactions.

        So it may move although there is no record. If it equals the requested position, no entry was complete.
        """
        return self._rows.next_offset

    @property
    def has_more(self) -> bool:
        """Whether the record set holds more from next_offset on.

        Then the decoder reached a limit, or the next record is damaged; decoding from there raises the error.
        """
        return self._rows.has_more

    @property
    def incomplete_size(self) -> int | None:
        """The bytes to fetch at least, if the record set ends inside the first wanted batch; else None.

        It is the size of the record set up to that batch's end. The batch states its own size, which is not checked and
        may be absurd; it counts as 2 GiB - 1 at most.
        """
        return self._rows.incomplete_size

    @property
    def nbytes(self) -> int:
        """The bytes in memory. A slice keeps the whole memory of the columns from which it was cut."""
        return self._rows.nbytes

    @cached_property
    def offsets(self) -> Int64s:
        """The offsets, not copied."""
        return self._numbers("offset", "int64")

    @cached_property
    def timestamps(self) -> Int64s:
        """The timestamps in ms since 1970, -1 = none, not copied."""
        return self._numbers("timestamp", "int64")

    @cached_property
    def timestamp_types(self) -> Int8s:
        """The type of each timestamp: 0 none, 1 create time, 2 log append time."""
        return self._numbers("timestampType", "int32").astype("int8")

    def offset(self, row: int) -> int:
        """Return the offset of one record."""
        return self._rows.offset(row)

    def _numbers(self, name: str, kind: str) -> NDArray[Any]:
        """Return a column's values without regard to its nulls. Only Spark needs numpy, so it is imported here."""
        import numpy as np

        column = self.to_arrow([name]).column(0)
        return np.frombuffer(column.buffers()[1], kind)[column.offset :][: len(self)]

    def slice(self, start: int, stop: int) -> Columns:
        """Return the records from start, included, to stop, excluded, as far as they exist, in constant time.

        A slice up to the end has the same next_offset. Otherwise next_offset is the offset after the slice's last
        record; for an empty slice, the offset of the record at start.
        """
        return Columns(self.topic_partition, self._rows.slice(max(start, 0), max(stop, 0)))

    @property
    def run(self) -> tuple[legacy_consumer_native.Columns, str, int]:
        """These columns as the native decoder takes them to make messages: (columns, topic, partition)."""
        return self._rows, *self.topic_partition

    def messages(self) -> list[Message]:
        """Return a light object for each record."""
        return messages_of([self.run])

    def to_arrow(self, columns: Collection[str] = ARROW_COLUMNS) -> pa.RecordBatch:
        """Return these columns, in the order of ALL_COLUMNS; keys, values, offsets and timestamps are not copied.

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
