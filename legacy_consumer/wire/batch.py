"""What a poll of the columnar fetcher brought: runs of columns, each of one partition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, cast, overload

from legacy_consumer.arrow_batches import COLUMNS, ColumnSequence
from legacy_consumer.fetcher import Message
from legacy_consumer.portions import Portion, all_of
from legacy_consumer.wire.records import Columns
from legacy_consumer.wire.records.messages import Rows
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_RUN = 4096
"""Runs of fewer messages are put together into one record batch: what a batch costs would weigh more than copying."""

_MOST_RUNS = 100
"""Of one record batch: each may be of another topic, and topics are numbered by int8."""


class ColumnarBatch(ColumnSequence):
    """Implements FetchedBatch over columns. A batch without any tells that positions moved: see next_offsets."""

    __slots__ = ("_count", "_next_offsets", "_rows", "_runs")

    def __init__(
        self,
        runs: Sequence[Columns],
        next_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._runs = runs
        # asked for several times on its way to the user
        self._count = sum(map(len, runs))
        self._next_offsets = next_offsets
        self._rows: list[Rows] | None = None

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
        for run in self._runs if number >= 0 else ():
            if number < len(run):
                return cast("Message", run.slice(number, number + 1).messages()[0])
            number -= len(run)
        msg = f"no message {index} of {len(self)}"
        raise IndexError(msg)

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(map(all_of, self.portions(0, self._count)))

    def portions(self, start: int, stop: int) -> Sequence[Portion]:
        """Some of the messages, each made as it is asked for; each portion of one run."""
        if self._rows is None:
            self._rows = [Rows(run) for run in self._runs]
        places = self._places(start, stop)
        return [portion for number, begin, end in places for portion in self._rows[number].portions(begin, end)]

    def _places(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """In which run these messages are, and where there."""
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
        """The same of some of the messages."""
        # not Columns.next_offset, which goes over what follows the last message, too
        return {
            self._runs[number].topic_partition: self._runs[number].offset(end - 1) + 1
            for number, _, end in self._places(start, stop)
        }

    @property
    def runs(self) -> Sequence[Columns]:
        """The columns; a partition may have several runs."""
        return self._runs

    def first(self, most: int) -> int:
        """The first run, or some that are small."""
        count = 0
        for run in self._runs[:_MOST_RUNS]:
            if count and count + len(run) > SMALL_RUN:
                break
            count += len(run)
        return min(count, most)

    def part(self, start: int, stop: int) -> ColumnarBatch:
        """Some of the messages; the same object if they are all."""
        if start == 0 and stop == self._count:
            return self
        places = self._places(start, stop)
        return ColumnarBatch([self._runs[number].slice(begin, end) for number, begin, end in places])

    def messages(self) -> Sequence[Message]:
        """The messages, in order, made anew with each call."""
        if len(self._runs) == 1:
            return cast("Sequence[Message]", self._runs[0].messages())
        return cast("Sequence[Message]", [message for run in self._runs for message in run.messages()])

    def to_arrow(self, columns: Collection[str] = COLUMNS) -> pa.RecordBatch:
        """One record batch; of several runs it is a copy."""
        if len(self._runs) == 1:
            return self._runs[0].to_arrow(columns)
        import pyarrow as pa

        table = pa.Table.from_batches([run.to_arrow(columns) for run in self._runs])
        return table.unify_dictionaries().combine_chunks().to_batches()[0]

    def without(self, partitions: Collection[TopicPartition]) -> ColumnarBatch:
        """The batch less these partitions; the same object if it has none of them."""
        unwanted = self.next_offsets.keys() & partitions
        if not unwanted:
            return self
        kept = [run for run in self._runs if run.topic_partition not in unwanted]
        next_offsets = {tp: at for tp, at in self.next_offsets.items() if tp not in unwanted}
        return ColumnarBatch(kept, next_offsets)
