"""Decodes the bytes of a partition in a Fetch response into columns; raises the native decoder's errors as our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypedDict

import legacy_consumer_native
from legacy_consumer_native import crc32c, glance

from legacy_consumer.errors import CorruptRecordsError, FetchError
from legacy_consumer.fetching.columnar.records.columns import Columns
from zk_layout.model import TopicPartition

__all__ = ["MAX_BATCH_BYTES", "Ahead", "crc32c", "decode_ahead", "decode_records", "glance"]

MAX_BATCH_BYTES = 128 * 1024 * 1024
"""The largest decompressed size of a batch. Producers limit a batch before compression, by default to 1 MB."""
MAX_DECOMPRESSED_BYTES = 2 * 1024 * 1024
"""The columns end with the batch that reaches this many decompressed bytes: about an uncompressed record set."""
MOST_RECORDS = 1 << 20
"""The most records of one call: a batch of 150 KB may hold millions of empty ones, each with some bytes of columns."""
_MOST_BYTES = 2**31 - 1


class Wishes(TypedDict):
    """The common arguments of decode_records and decode_ahead."""

    aborted: Sequence[tuple[int, int]]
    read_committed: bool
    max_batch_bytes: int


def decode_records(
    record_set: bytes | bytearray | memoryview,
    partition: TopicPartition,
    position: int,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    read_committed: bool = False,
    max_records: int = MOST_RECORDS,
    check_crcs: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Columns:
    """Decode the complete records from the position on, without the interpreter's lock.

    record_set: message sets of formats 0 and 1 and batches of format 2, in a row; the last one may be incomplete. The
    columns keep no bytes of it. aborted: as in the Fetch response, for read_committed. The last stable offset of the
    response is no limit: the broker sends only what readers of committed messages may get. Since 2.3 it notes that
    offset before it reads the log, so the records after the offset are committed, too.

    Continue at Columns.next_offset, in the same record set if Columns.has_more. With Columns.incomplete_size no batch
    was complete.

    Raises: CorruptRecordsError if the first record at the position cannot be read, also for a defect of the decoder:
    the damage concerns only that partition. FetchError if only a limit, whose setting it names, or a lack of memory
    prevents the decoding.
    """
    with _told(partition, position):
        rows = legacy_consumer_native.decode(
            record_set,
            position,
            aborted=aborted if read_committed else None,
            max_records=max_records,
            max_batch_bytes=min(max_batch_bytes, _MOST_BYTES),
            max_decompressed_bytes=max_decompressed_bytes,
            check_crcs=check_crcs,
        )
    return Columns(partition, rows)


class Ahead:
    """A record set that another thread decodes, or has decoded."""

    def __init__(self, partition: TopicPartition, position: int, decoding: legacy_consumer_native.Decoding) -> None:
        self._partition = partition
        self._position = position
        self._decoding = decoding

    def result(self, meanwhile: Ahead | None = None) -> Columns:
        """Return the columns, the same each time. Raises: as decode_records.

        Waits for the thread that decodes it; decodes it on this thread if none has begun.
        meanwhile: a record set that this thread decodes before it waits, unless another thread has begun with it.
        """
        with _told(self._partition, self._position):
            rows = self._decoding.result(None if meanwhile is None else meanwhile._decoding)  # noqa: SLF001
        return Columns(self._partition, rows)


def decode_ahead(
    record_set: bytes | bytearray | memoryview,
    partition: TopicPartition,
    position: int,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    read_committed: bool = False,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Ahead | None:
    """As decode_records, on a thread of the decoder. Returns: None at the process's limit of record sets ahead."""
    with _told(partition, position):
        decoding = legacy_consumer_native.decode_ahead(
            record_set,
            position,
            aborted=aborted if read_committed else None,
            max_records=MOST_RECORDS,
            max_batch_bytes=min(max_batch_bytes, _MOST_BYTES),
            max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
        )
    return None if decoding is None else Ahead(partition, position, decoding)


@contextmanager
def _told(partition: TopicPartition, position: int) -> Iterator[None]:
    """Raise the decoder's errors as this project's."""
    try:
        yield
    except legacy_consumer_native.TooLargeError as error:
        reason = f"offset {position}: {error}, which are allowed: raise fetch.message.max.bytes"
        raise FetchError(partition, reason) from error
    except legacy_consumer_native.DamagedRecordsError as error:
        raise CorruptRecordsError(partition, position, str(error)) from error
    except MemoryError as error:
        raise FetchError(partition, f"offset {position}: there is no memory to decode the records") from error
