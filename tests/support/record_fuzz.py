"""Fuzzes the decoder: `python -m tests.support.record_fuzz [-runs=N] [-max_total_time=S] [libFuzzer's options] FOLDER`.

FOLDER is the corpus; what is found interesting is added to it, and filled with the recordings if it is empty. Every
input is decoded by the compiled loops and by the same loops as plain Python over checked arrays, which also tell the
fuzzer where it has been. Both must say the same. The first two bytes choose position and options.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

from legacy_consumer.errors import FetchError
from legacy_consumer.wire.records import (
    AbortedTransaction,
    Columns,
    batch_format,
    compression,
    decode_records,
    frames,
    headers,
    warm_up,
)
from tests.support.record_checked_loops import checked_loops, plain_functions
from tests.support.record_sets import TP, arrow_rows, recorded, rows_of

LIMIT = 1 << 20


def outcome(data: bytes, position: int, **options: object) -> object:
    """All that decoding yields, to its end; what is promised is checked."""
    rows: list[object] = []
    for _ in range(1000):
        columns = attempt(data, position, **options)
        if isinstance(columns, FetchError):
            assert columns.partition == TP
            assert f"offset {position}" in str(columns)
            return rows, str(columns)
        check(columns, position)
        rows += rows_of(columns) if options.get("with_headers") else arrow_rows(columns)
        has_moved, position = columns.next_offset > position, columns.next_offset
        if not columns.has_more or not has_moved:
            return rows, position, columns.incomplete_size
    return rows, position


def attempt(data: bytes, position: int, **options: object) -> Columns | FetchError:
    try:
        return decode_records(data, TP, position, max_batch_bytes=LIMIT, **options)
    except FetchError as error:
        return error


def check(columns, position: int) -> None:
    """Every span lies in the buffer and every offset ascends from the position."""
    last = position - 1
    for offset in columns.offsets.tolist():
        assert last < offset < columns.next_offset
        last = offset
    assert columns.next_offset >= position
    for spans in (columns.keys, columns.values, *([columns.headers] if columns.headers else [])):
        for start, length in zip(spans.starts.tolist(), spans.lengths.tolist(), strict=True):
            assert length >= -1
            assert 0 <= start <= start + max(length, 0) <= columns.data.nbytes
    if columns.incomplete_size is not None:
        assert not len(columns)


def options_of(choice: int) -> dict[str, object]:
    return {
        "with_headers": bool(choice & 1),
        "check_crcs": choice & 6 == 6,
        "read_committed": bool(choice & 8),
        "aborted": [AbortedTransaction(n, 0) for n in range(4)] if choice & 16 else [],
        "max_records": choice >> 6 if choice & 32 else None,
    }


def main() -> None:
    corpus = Path(next((a for a in sys.argv[1:] if not a.startswith("-")), ""))
    if corpus.is_dir() and not any(corpus.iterdir()):
        for recording in recorded():
            (corpus / recording.name.replace("/", "-")).write_bytes(bytes(2) + recording.data)
            (corpus / f"{recording.name.replace('/', '-')}-headers").write_bytes(b"\1\0" + recording.data)
    warm_up()
    plain = plain_functions(atheris.instrument_func)
    for module in (frames, compression, headers):
        for name, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__module__", "") == module.__name__ and not isinstance(value, type):
                setattr(module, name, atheris.instrument_func(value))
    assert batch_format.decode_batches is not plain[-3][2]

    def one(data: bytes) -> None:
        if len(data) < 2:
            return
        options = options_of(data[0])
        compiled = outcome(data[2:], data[1], **options)
        with checked_loops(plain):
            assert outcome(data[2:], data[1], **options) == compiled

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
