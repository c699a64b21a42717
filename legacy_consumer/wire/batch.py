"""What a poll of the columnar fetcher brought: runs of columns, each of one partition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, cast, overload

from legacy_consumer.arrow_batches import COLUMNS, ColumnSequence
from legacy_consumer.fetcher import Message
from legacy_consumer.portions import Portion, all_of
from legacy_consumer.wire.records import Columns
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_RUN = 4096
"""Runs of fewer messages are put together into one record batch: what a batch costs would weigh more than copying."""

_MOST_RUNS = 100
"""Of one record batch: each may be of another topic, and topics are numbered by int8."""


class Wish:
    """What a user makes of batches, as he was last seen to: the next ones can be made ready for that."""

    __slots__ = ("joined_values", "objects")

    def __init__(self) -> None:
        self.objects = False
        """Whether he takes messages, not columns."""
        self.joined_values = False
        """Whether he takes columns, the values among them."""


class ColumnarBatch(ColumnSequence):
    """Implements FetchedBatch over columns. A batch without any tells that positions moved: see next_offsets."""

    __slots__ = ("_count", "_next_offsets", "_runs", "_wish")

    def __init__(
        self,
        runs: Sequence[Columns],
        next_offsets: Mapping[TopicPartition, int] | None = None,
        wish: Wish | None = None,
    ) -> None:
        self._runs = runs
        # asked for several times on its way to the user
        self._count = sum(map(len, runs))
        self._wish = wish or Wish()
        if next_offsets is None:
            # not Columns.next_offset, which goes over what follows the last message, too
            next_offsets = {run.topic_partition: int(run.offsets[-1]) + 1 for run in runs}
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
        for run in self._runs if number >= 0 else ():
            if number < len(run):
                return cast("Message", run.slice(number, number + 1).messages()[0])
            number -= len(run)
        msg = f"no message {index} of {len(self)}"
        raise IndexError(msg)

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(map(all_of, self.portions()))

    def portions(self) -> Sequence[Portion]:
        """The messages, each made as it is asked for; a portion of each run."""
        self._wish.objects, self._wish.joined_values = True, False
        return [run.portion() for run in self._runs]

    @property
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """The offset after the last message of each partition in the batch."""
        return self._next_offsets

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

    def up_to(self, count: int) -> ColumnarBatch:
        """The first so many."""
        return ColumnarBatch(_between(self._runs, 0, count), wish=self._wish)

    def behind(self, count: int) -> ColumnarBatch:
        """All but the first so many."""
        return ColumnarBatch(_between(self._runs, count, len(self)), wish=self._wish)

    def messages(self) -> Sequence[Message]:
        """The messages, in order, made anew with each call."""
        self._wish.objects, self._wish.joined_values = True, False
        if len(self._runs) == 1:
            return cast("Sequence[Message]", self._runs[0].messages())
        return cast("Sequence[Message]", [message for run in self._runs for message in run.messages()])

    def to_arrow(self, columns: Collection[str] = COLUMNS) -> pa.RecordBatch:
        """One record batch; of several runs it is a copy."""
        self.expect_arrow(columns)
        if len(self._runs) == 1:
            return self._runs[0].to_arrow(columns)
        import pyarrow as pa

        table = pa.Table.from_batches([run.to_arrow(columns) for run in self._runs])
        return table.unify_dictionaries().combine_chunks().to_batches()[0]

    def expect_arrow(self, columns: Collection[str]) -> None:
        """For who makes record batches of the runs himself: the next ones are made ready for that."""
        self._wish.objects, self._wish.joined_values = False, "value" in columns

    def without(self, partitions: Collection[TopicPartition]) -> ColumnarBatch:
        """The batch less these partitions; the same object if it has none of them."""
        unwanted = self._next_offsets.keys() & partitions
        if not unwanted:
            return self
        kept = [run for run in self._runs if run.topic_partition not in unwanted]
        next_offsets = {tp: at for tp, at in self._next_offsets.items() if tp not in unwanted}
        return ColumnarBatch(kept, next_offsets, self._wish)


def _between(runs: Sequence[Columns], start: int, stop: int) -> list[Columns]:
    found: list[Columns] = []
    at = 0
    for run in runs:
        begin, end = max(start - at, 0), min(stop - at, len(run))
        if begin < end:
            found.append(run.slice(begin, end) if end - begin < len(run) else run)
        at += len(run)
    return found
