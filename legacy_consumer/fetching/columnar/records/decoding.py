"""From the bytes of a partition in a Fetch response to columns, by the native decoder, with errors of our own."""

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
"""Once this many bytes are decompressed the columns end with that batch: as much as a record set is that is not."""
MOST_RECORDS = 1 << 20
"""Of one call: a batch of 150 KB may hold millions of empty records, and each takes some bytes of columns."""
_MOST_BYTES = 2**31 - 1


class Wishes(TypedDict):
    """Arguments that decode_records and decode_ahead have in common."""

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
    """Decode the records at the position and behind it, as many as are whole, without the interpreter's lock.

    record_set: message sets of formats 0 and 1 and batches of format 2, one behind the other, the last one may be cut.
    Nothing of it is held afterwards. aborted: as the Fetch response says, for read_committed. The last stable offset
    beside it ends nothing: the broker sends no more than readers of committed messages may have, and since 2.3 it reads
    the log after it has noted that offset, so the records behind it are committed too.

    Columns.next_offset says where to go on, Columns.has_more whether in the same record set, and
    Columns.incomplete_size that nothing whole was there.

    Raises: CorruptRecordsError if the first record at the position cannot be read, with any error of the decoder: it
    is damage of that partition alone. FetchError if only a limit, whose setting it names, or memory is in the way.
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
        """Wait for it, or decode it if no thread has begun to; the same each time. Raises: as decode_records.

        meanwhile: is decoded on this thread, unless another has begun to, while another one decodes this.
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
    """As decode_records, on a thread of the decoder's; None if as many are decoded ahead as may be in this process."""
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
    """Errors of the decoder as our own."""
    try:
        yield
    except legacy_consumer_native.TooLargeError as error:
        reason = f"offset {position}: {error}, which are allowed: raise fetch.message.max.bytes"
        raise FetchError(partition, reason) from error
    except legacy_consumer_native.DamagedRecordsError as error:
        raise CorruptRecordsError(partition, position, str(error)) from error
    except MemoryError as error:
        raise FetchError(partition, f"offset {position}: there is no memory to decode the records") from error
