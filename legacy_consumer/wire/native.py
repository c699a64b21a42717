"""Record sets by way of the native decoder, legacy-consumer-native: decoded when they are wanted, into Arrow's layout.

Chosen by fetcher=native. Decoding runs without the interpreter's lock, copies keys and values together, and holds
nothing of the response afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import legacy_consumer_native
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from legacy_consumer.errors import CorruptRecordsError, FetchError
from legacy_consumer.wire.backlog import RecordSet
from legacy_consumer.wire.records.arrow import wanted_names
from legacy_consumer.wire.records.columns import ARROW_COLUMNS, Int64s
from legacy_consumer.wire.records.decoding import MAX_BATCH_BYTES
from legacy_consumer.wire.records.messages import messages_of

if TYPE_CHECKING:
    from legacy_consumer.wire.records.columns import Int8s
    from legacy_consumer.wire.records.headers import HeaderList
    from legacy_consumer.wire.records.messages import ColumnMessage
    from zk_layout.model import TopicPartition

_MOST_BYTES = 2**31 - 1


class NativeColumns:
    """As records.Columns, over memory of the native decoder's."""

    def __init__(self, topic_partition: TopicPartition, rows: legacy_consumer_native.Columns) -> None:
        self.topic_partition = topic_partition
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def next_offset(self) -> int:
        """See records.Columns."""
        return self._rows.next_offset

    @property
    def has_more(self) -> bool:
        """See records.Columns."""
        return self._rows.has_more

    @property
    def incomplete_size(self) -> int | None:
        """See records.Columns."""
        return self._rows.incomplete_size

    @property
    def nbytes(self) -> int:
        """See records.Columns."""
        return self._rows.nbytes

    @cached_property
    def offsets(self) -> Int64s:
        """See records.Columns."""
        return self._numbers("offset", np.int64)

    @cached_property
    def timestamps(self) -> Int64s:
        """See records.Columns."""
        return self._numbers("timestamp", np.int64)

    @cached_property
    def timestamp_types(self) -> Int8s:
        """See records.Columns."""
        return self._numbers("timestampType", np.int32).astype(np.int8)

    def _numbers(self, name: str, kind: type[np.int64 | np.int32]) -> NDArray[Any]:
        """Of a column without a look at its nulls."""
        column = self.to_arrow([name]).column(0)
        return np.frombuffer(column.buffers()[1], kind)[column.offset :][: len(self)]

    def slice(self, start: int, stop: int) -> NativeColumns:
        """See records.Columns."""
        return NativeColumns(self.topic_partition, self._rows.slice(max(start, 0), max(stop, 0)))

    def fields(self, start: int, stop: int) -> NativeFields:
        """What messages of these records share."""
        return NativeFields(self.topic_partition, self._rows.slice(start, stop))

    def cut_values(self, start: int, stop: int) -> list[bytes | None]:
        """The values of these records as bytes objects, all at once."""
        return self._rows.slice(start, stop).values()

    def messages(self) -> list[ColumnMessage]:
        """One light object a record."""
        return messages_of(self)

    def to_arrow(self, columns: Collection[str] = ARROW_COLUMNS) -> pa.RecordBatch:
        """See records.Columns; keys, values, offsets and timestamps are not copied."""
        topic, partition = self.topic_partition
        return pa.record_batch(self._rows.arrow(wanted_names(columns), topic, partition))


class NativeFields:
    """The fields of some rows as Python objects, each made for all of the rows at its first use."""

    def __init__(self, topic_partition: TopicPartition, rows: legacy_consumer_native.Columns) -> None:
        self.topic, self.partition = topic_partition
        self._rows = rows

    @cached_property
    def offsets(self) -> list[int]:
        """See messages.Fields."""
        return self._rows.offsets()

    @cached_property
    def keys(self) -> list[bytes | None]:
        """See messages.Fields."""
        return self._rows.keys()

    @cached_property
    def timestamps(self) -> list[tuple[int, int]]:
        """See messages.Fields."""
        return self._rows.timestamps()

    def headers_of(self, row: int) -> HeaderList | None:
        """Parsed anew each time: few records have any, and fewer are asked for them twice."""
        return self._rows.headers(row)


class NativeDecoder:
    """As decoder.Decoder, for the consuming thread of one fetcher."""

    def __init__(self, *, read_committed: bool, most_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        """most_batch_bytes: what one batch may decompress to, if that is more than usual."""
        self._read_committed = read_committed
        self._most_batch_bytes = min(max(MAX_BATCH_BYTES, most_batch_bytes), _MOST_BYTES)

    def look_ahead(self, waiting: Iterable[RecordSet]) -> None:
        """Nothing is decoded before it is wanted."""

    def decode(self, records: RecordSet, position: int) -> NativeColumns:
        """Raises: CorruptRecordsError; FetchError if only a limit, whose setting it names, or memory is in the way."""
        partition = records.partition
        try:
            rows = legacy_consumer_native.decode(
                records.records,
                position,
                aborted=records.aborted if self._read_committed else None,
                max_batch_bytes=self._most_batch_bytes,
            )
        except legacy_consumer_native.TooLargeError as error:
            raise FetchError(
                partition, f"offset {position}: {error}, which are allowed: raise fetch.message.max.bytes"
            ) from error
        except legacy_consumer_native.DamagedRecordsError as error:
            raise CorruptRecordsError(partition, position, str(error)) from error
        except MemoryError as error:
            raise FetchError(partition, f"offset {position}: there is no memory to decode the records") from error
        except Exception as error:
            raise CorruptRecordsError(partition, position, f"they cannot be decoded: {error!r}") from error
        return NativeColumns(partition, rows)

    def close(self) -> None:
        """There is nothing to end."""
