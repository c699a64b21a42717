"""The result of a poll of the columnar fetcher: runs of columns, each of one partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from legacy_consumer_native import MessageIterator

from legacy_consumer.fetching.arrow_batches import COLUMNS, ColumnSequence
from legacy_consumer.fetching.columnar.records import Columns
from legacy_consumer.fetching.columnar.records.messages import messages_of
from legacy_consumer.fetching.fetcher import Message
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_RUN = 4096
"""Runs of fewer messages are joined into one record batch: a batch for each would cost more than the copy."""

SMALL_RUN_BYTES = 512 * 1024
"""Runs of more bytes are not joined, however few messages they have."""

_MOST_RUNS = 100
"""The most runs of one record batch: each may have another topic, and topics are numbered by int8."""


class ColumnarBatch(ColumnSequence):
    """Implements FetchedBatch over columns. A batch without columns reports positions that moved: see next_offsets."""

    __slots__ = ("_count", "_next_offsets", "_runs")

    def __init__(
        self,
        runs: Sequence[Columns],
        next_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._runs = runs
        # several callers ask for it before the user's code does
        self._count = sum(map(len, runs))
        self._next_offsets = next_offsets

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return self.messages()[index]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            msg = f"no message {index} of {len(self)}"
            raise IndexError(msg)
        return self.iterator(number, number + 1)[0]

    def iterator(self, start: int, stop: int) -> MessageIterator:
        """Return an iterator over some of the messages, which makes each one when it is asked for."""
        return MessageIterator(
            [self._runs[number].slice(begin, end).run for number, begin, end in self._places(start, stop)]
        )

    def _places(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Return (index of the run, start, stop in it) for these messages."""
        found: list[tuple[int, int, int]] = []
        at = 0
        for number, run in enumerate(self._runs):
            count = len(run)
            begin, end = max(start - at, 0), min(stop - at, count)
            if begin < end:
                found.append((number, begin, end))
            at += count
        return found

    @property
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """The offset after the last message of each partition in the batch."""
        if self._next_offsets is None:
            self._next_offsets = self.next_offsets_of(0, self._count)
        return self._next_offsets

    def next_offsets_of(self, start: int, stop: int) -> Mapping[TopicPartition, int]:
        """Return the offset after the last of these messages for each of their partitions."""
        # not Columns.next_offset, which may lie further after the last message
        return {
            self._runs[number].topic_partition: self._runs[number].offset(end - 1) + 1
            for number, _, end in self._places(start, stop)
        }

    @property
    def runs(self) -> Sequence[Columns]:
        """The columns; a partition may have several runs."""
        return self._runs

    def first(self, most: int) -> int:
        """Return the number of messages in the first run, or in some small runs."""
        count = size = 0
        for run in self._runs[:_MOST_RUNS]:
            size += run.nbytes
            if count and (count + len(run) > SMALL_RUN or size > SMALL_RUN_BYTES):
                break
            count += len(run)
        return min(count, most)

    def part(self, start: int, stop: int) -> ColumnarBatch:
        """Return some of the messages; the same object for all of them."""
        if start == 0 and stop == self._count:
            return self
        places = self._places(start, stop)
        return ColumnarBatch([self._runs[number].slice(begin, end) for number, begin, end in places])

    def messages(self) -> Sequence[Message]:
        """Return the messages, in order; each call makes them again."""
        return messages_of([run.run for run in self._runs])

    def to_arrow(self, columns: Collection[str] = COLUMNS) -> pa.RecordBatch:
        """Return one record batch; of several runs it is a copy."""
        if len(self._runs) == 1:
            return self._runs[0].to_arrow(columns)
        import pyarrow as pa

        table = pa.Table.from_batches([run.to_arrow(columns) for run in self._runs])
        return table.unify_dictionaries().combine_chunks().to_batches()[0]

    def without(self, partitions: Collection[TopicPartition]) -> ColumnarBatch:
        """Return the batch without these partitions; the same object if it has none of them."""
        unwanted = self.next_offsets.keys() & partitions
        if not unwanted:
            return self
        kept = [run for run in self._runs if run.topic_partition not in unwanted]
        next_offsets = {tp: at for tp, at in self.next_offsets.items() if tp not in unwanted}
        return ColumnarBatch(kept, next_offsets)
