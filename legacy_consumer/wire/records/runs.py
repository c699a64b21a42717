"""What a fetcher hands on: decoded records of one partition, whichever decoder made them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from legacy_consumer.wire.records.columns import ARROW_COLUMNS, Int8s, Int64s
from legacy_consumer.wire.records.messages import ColumnMessage, MessageColumns
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class Run(MessageColumns, Protocol):
    """What all of them have."""

    @property
    def topic_partition(self) -> TopicPartition:
        """See columns.Columns."""
        ...

    @property
    def offsets(self) -> Int64s:
        """See columns.Columns."""
        ...

    @property
    def timestamps(self) -> Int64s:
        """See columns.Columns."""
        ...

    @property
    def timestamp_types(self) -> Int8s:
        """See columns.Columns."""
        ...

    @property
    def next_offset(self) -> int:
        """See columns.Columns."""
        ...

    @property
    def has_more(self) -> bool:
        """See columns.Columns."""
        ...

    def slice(self, start: int, stop: int) -> Run:
        """See columns.Columns."""
        ...

    def messages(self) -> Sequence[ColumnMessage]:
        """See columns.Columns."""
        ...

    def to_arrow(self, columns: Collection[str] = ARROW_COLUMNS) -> pa.RecordBatch:
        """See columns.Columns."""
        ...
