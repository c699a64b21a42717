"""The recorded record sets in tests/data/record_sets, and columns as rows that can be compared."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from legacy_consumer.fetching.columnar.records import Columns, decode_records
from tests.support.record_reader import Row
from zk_layout.model import TopicPartition

FOLDER = Path(__file__).parents[1] / "data" / "record_sets"
TP = TopicPartition("t", 3)


@dataclass(frozen=True)
class Recorded:
    name: str
    """Broker version / topic."""
    data: bytes
    rows: list[Row]
    next_offset: int
    options: dict[str, object]
    """For decode_records."""


def recorded() -> list[Recorded]:
    return [
        Recorded(
            f"{folder.name}/{name}",
            (folder / f"{name}.bin").read_bytes(),
            [row_of(row) for row in told["records"]],
            told["next_offset"],
            {
                "read_committed": told["read_committed"],
                "aborted": [tuple(pair) for pair in told["aborted"]],
            },
        )
        for folder in sorted(path.parent for path in FOLDER.glob("*/expected.json"))
        for name, told in json.loads((folder / "expected.json").read_text()).items()
    ]


def row_of(row: list) -> Row:
    offset, kind, timestamp, key, value, headers = row
    return (
        offset,
        kind,
        # librdkafka gives 0 where format 0 has no timestamp
        timestamp if kind else -1,
        bytes_of(key),
        bytes_of(value),
        headers and [(name, bytes_of(data)) for name, data in headers],
    )


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def decoded(data: bytes, position: int = 0, **options: object) -> Columns:
    return decode_records(data, TP, position, **options)


def rows_of(columns: Columns) -> list[Row]:
    """Return the rows of the columns, read from their message objects."""
    return [
        (m.offset(), m.timestamp()[0], m.timestamp()[1], m.key(), m.value(), m.headers()) for m in columns.messages()
    ]


def arrow_rows(columns: Columns) -> list[object]:
    """Return the record batch as lists; times as numbers, because Python's dates end with the year 9999."""
    batch = columns.to_arrow()
    return [
        (name, (column.cast("int64") if name == "timestamp" else column).to_pylist())
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
