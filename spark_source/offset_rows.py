"""Rows of offsets to commit: their columns and allowed values. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa

from spark_source.errors import OffsetWriteError, SchemaMismatchError
from spark_source.patterns import is_topic_name
from zk_layout.model import TopicPartition
from zk_layout.paths import is_znode_name

OffsetRow: TypeAlias = "tuple[str, str, int, int | None]"
GroupOffsets: TypeAlias = "dict[str, dict[TopicPartition, int | None]]"

_TYPES = {"group": ("string",), "topic": ("string",), "partition": ("int", "bigint"), "offset": ("bigint", "int")}
_MOST_PARTITION = 2**31 - 1


def offset_columns(fields: Iterable[tuple[str, str]]) -> tuple[str, str, str, str]:
    """Return the DataFrame's names of group, topic, partition and offset. fields: (name, Spark's type).

    Raises: SchemaMismatchError for a column that is missing, occurs twice, has another type, or is unknown.
    """
    found: dict[str, str] = {}
    for name, type_name in fields:
        known = name.lower()
        if known not in _TYPES:
            raise SchemaMismatchError(name, "is not written: select group, topic, partition and offset")
        if known in found:
            raise SchemaMismatchError(name, "stands twice: select group, topic, partition and offset once each")
        if type_name not in _TYPES[known]:
            raise SchemaMismatchError(name, f"has type {type_name} and must be {_TYPES[known][0]}")
        found[known] = name
    for wanted, types in _TYPES.items():
        if wanted not in found:
            raise SchemaMismatchError(wanted, f"is missing: give group, topic, partition and offset ({types[0]})")
    return found["group"], found["topic"], found["partition"], found["offset"]


def check_batch(batch: pa.RecordBatch, names: tuple[str, str, str, str], *, may_delete: bool) -> Iterator[OffsetRow]:
    """Yield the rows of a batch, each checked. Raises: OffsetWriteError for the first wrong one."""
    columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in names]
    for group, topic, partition, offset in zip(*columns, strict=True):
        row = f"(group {group!r}, topic {topic!r}, partition {partition}, offset {offset})"
        if group is None or topic is None or partition is None:
            raise OffsetWriteError(f"a row has no group, topic or partition: {row}")
        if not is_znode_name(group):
            raise OffsetWriteError(f"there can be no such group: {row}")
        if not is_topic_name(topic) or not 0 <= partition <= _MOST_PARTITION:
            raise OffsetWriteError(f"there can be no such partition: {row}")
        if offset is None and not may_delete:
            raise OffsetWriteError(f"a row has no offset: {row}; nullOffsets=delete takes the committed one away")
        if offset is not None and offset < 0:
            raise OffsetWriteError(f"no log has such an offset: {row}")
        yield group, topic, partition, offset


def merge(rows: Iterable[OffsetRow]) -> GroupOffsets:
    """Return {group: {partition: offset}}. Raises: OffsetWriteError for two offsets of the same partition."""
    merged: GroupOffsets = {}
    for group, topic, partition, offset in rows:
        own = merged.setdefault(group, {})
        tp = TopicPartition(topic, partition)
        if tp in own and own[tp] != offset:
            raise OffsetWriteError(f"group {group!r} has two offsets for {tp}: {own[tp]} and {offset}")
        own[tp] = offset
    return merged


def as_rows(groups: Mapping[str, Mapping[TopicPartition, int | None]]) -> list[OffsetRow]:
    """Return the rows of merged offsets, sorted."""
    return [
        (group, tp.topic, tp.partition, offset)
        for group, own in sorted(groups.items())
        for tp, offset in sorted(own.items())
    ]
