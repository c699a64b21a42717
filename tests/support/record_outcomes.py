"""Decodes any bytes to their end, and checks that the decoder keeps its promises at each step."""

from __future__ import annotations

from legacy_consumer.errors import FetchError
from legacy_consumer.fetching.columnar.records import Columns, decode_records
from tests.support.record_sets import TP, rows_of

LIMIT = 1 << 20


def outcome(data: bytes, position: int, **options: object) -> object:
    """Return the rows, and how decoding ended."""
    rows: list[object] = []
    for _ in range(1000):
        columns = attempt(data, position, **options)
        if isinstance(columns, FetchError):
            assert columns.partition == TP
            assert f"offset {position}" in str(columns)
            return rows, str(columns)
        check(columns, position)
        rows += rows_of(columns)
        has_moved, position = columns.next_offset > position, columns.next_offset
        if not columns.has_more or not has_moved:
            return rows, position, columns.incomplete_size
    return rows, position


def attempt(data: bytes, position: int, **options: object) -> Columns | FetchError:
    try:
        return decode_records(data, TP, position, max_batch_bytes=LIMIT, **options)
    except FetchError as error:
        return error


def check(columns: Columns, position: int) -> None:
    """Check that offsets ascend from the position, and that Arrow finds the columns valid."""
    last = position - 1
    for offset in columns.offsets.tolist():
        assert last < offset < columns.next_offset
        last = offset
    assert columns.next_offset >= position
    columns.to_arrow(["key", "value", "headers"]).validate(full=True)
    if columns.incomplete_size is not None:
        assert not len(columns)


def options_of(choice: int) -> dict[str, object]:
    options: dict[str, object] = {"max_records": choice >> 6} if choice & 32 else {}
    return options | {
        "check_crcs": choice & 6 == 6,
        "read_committed": bool(choice & 8),
        "aborted": [(n, 0) for n in range(4)] if choice & 16 else [],
    }
