"""Messages as Arrow record batches: directly from columns, or built from message objects.

Names, types and order of the columns are the same with either fetcher. For message objects, keys and values are
joined and their lengths summed up, which is about ten times faster than Arrow's conversion of each object.
"""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.fetching.message_iterator import MessageIterator
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The default columns of a batch; "headers" is optional."""
HEADERS = "headers"
_MOST_SMALL_NUMBERS = 127
"""The most topics in one batch that int8 can number."""


class ColumnSequence(Sequence[Message]):
    """Messages as columns; a message object is made when a caller asks for it."""

    @property
    @abstractmethod
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """The offset after the last message of each partition."""

    @abstractmethod
    def next_offsets_of(self, start: int, stop: int) -> Mapping[TopicPartition, int]:
        """Return the offset after the last of these messages for each of their partitions."""

    @abstractmethod
    def first(self, most: int) -> int:
        """Return how many of the first messages make one record batch cheaply; at least one, if there is any."""

    @abstractmethod
    def part(self, start: int, stop: int) -> ColumnSequence:
        """Return some of the messages; the same object for all of them."""

    @abstractmethod
    def without(self, partitions: Collection[TopicPartition]) -> ColumnSequence:
        """Return all messages except the ones of these partitions."""

    @abstractmethod
    def messages(self) -> Sequence[Message]:
        """Return the messages as objects."""

    @abstractmethod
    def iterator(self, start: int, stop: int) -> MessageIterator:
        """Return an iterator over some of the messages, which makes each one when it is asked for."""

    @abstractmethod
    def to_arrow(self, columns: Collection[str] = COLUMNS) -> pa.RecordBatch:
        """Return the messages as one record batch."""


class LazyMessages(Sequence[Message]):
    """Some rows of columns as a sequence of messages: each access makes the message again.

    There are thousands of parts, so a part is only two numbers and shares the columns.
    """

    __slots__ = ("_columns", "_start", "_stop")

    def __init__(self, columns: ColumnSequence, start: int = 0, stop: int | None = None) -> None:
        self._columns = columns
        self._start = start
        self._stop = len(columns) if stop is None else stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Message]:
        messages = self.iterator()
        messages.allow(len(self))
        return iter(messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        numbers = range(self._start, self._stop)[index]
        if isinstance(numbers, int):
            return self._columns[numbers]
        if numbers.step == 1:
            return self.part(numbers.start - self._start, max(numbers.start, numbers.stop) - self._start)
        return [self._columns[number] for number in numbers]

    def __repr__(self) -> str:
        return f"<{len(self)} messages>"

    @property
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """The offset after the last message of each partition."""
        return self._columns.next_offsets_of(self._start, self._stop)

    @property
    def columns(self) -> ColumnSequence:
        """The same messages as columns."""
        return self._columns.part(self._start, self._stop)

    def part(self, start: int, stop: int) -> LazyMessages:
        """Return the messages from start, included, to stop, excluded."""
        return LazyMessages(self._columns, self._start + start, self._start + stop)

    def iterator(self) -> MessageIterator:
        """See ColumnSequence.iterator."""
        return self._columns.iterator(self._start, self._stop)


def checked_columns(columns: object) -> tuple[str, ...]:
    """Return the names of columns.

    Raises: TypeError unless they are a list; ValueError for an empty list or an unknown name; ConfigError if pyarrow is
    not installed.
    """
    known = (*COLUMNS, HEADERS)
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        msg = f"columns must be a list of names of {', '.join(known)}, not {columns!r}"
        raise TypeError(msg)
    wanted = tuple(columns)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        msg = f"no column {', '.join(map(repr, unknown))}: there are {', '.join(known)}"
        raise ValueError(msg)
    if not wanted:
        # Arrow gives a batch without columns no rows, so the user's code would skip its messages
        msg = f"columns must name at least one of {', '.join(known)}"
        raise ValueError(msg)
    if importlib.util.find_spec("pyarrow") is None:
        raise ConfigError("arrow_batches", None, "needs pyarrow: install legacy-consumer[fast]")
    return wanted


def record_batch(messages: Sequence[Message], columns: Collection[str] = COLUMNS) -> pa.RecordBatch:
    """Return one record batch of these messages. columns: from checked_columns."""
    if isinstance(messages, ColumnSequence):
        return messages.to_arrow(columns)
    import pyarrow as pa

    names = [name for name in (*COLUMNS, HEADERS) if name in columns]
    arrays = [_MAKERS[name](pa, messages) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


# pyarrow ships no types, so it is passed as Any.


def _binary(pa: Any, values: list[bytes | None]) -> Any:
    sizes = [0 if value is None else len(value) for value in values]
    offsets = pa.array([0, *accumulate(sizes)], pa.int32())
    joined = b"".join([value for value in values if value is not None])
    nulls = values.count(None)
    bitmap = pa.array([value is not None for value in values], pa.bool_()).buffers()[1] if nulls else None
    return pa.Array.from_buffers(
        pa.binary(), len(values), [bitmap, offsets.buffers()[1], pa.py_buffer(joined)], null_count=nulls
    )


def _topics(pa: Any, messages: Sequence[Message]) -> Any:
    names = {name: number for number, name in enumerate(dict.fromkeys(message.topic() for message in messages))}
    numbers = pa.int8() if len(names) <= _MOST_SMALL_NUMBERS else pa.int32()
    indices = pa.array([names[message.topic()] for message in messages], numbers)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), pa.string()))


def _timestamps(pa: Any, messages: Sequence[Message]) -> Any:
    pairs = [message.timestamp() for message in messages]
    return pa.array([ms if kind else None for kind, ms in pairs], pa.timestamp("ms", "UTC"))


def _headers(pa: Any, messages: Sequence[Message]) -> Any:
    wanted = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = [message.headers() for message in messages]
    pairs = [[{"key": key, "value": value} for key, value in row] if row else None for row in rows]
    return pa.array(pairs, wanted)


_MAKERS = {
    "key": lambda pa, messages: _binary(pa, [message.key() for message in messages]),
    "value": lambda pa, messages: _binary(pa, [message.value() for message in messages]),
    "topic": _topics,
    "partition": lambda pa, messages: pa.array([message.partition() for message in messages], pa.int32()),
    "offset": lambda pa, messages: pa.array([message.offset() for message in messages], pa.int64()),
    "timestamp": _timestamps,
    "timestampType": lambda pa, messages: pa.array([message.timestamp()[0] for message in messages], pa.int32()),
    HEADERS: _headers,
}
