"""From the bytes of a partition in a Fetch response to columns, by the native decoder, with errors of our own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import legacy_consumer_native
from legacy_consumer_native import crc32c, glance

from legacy_consumer.errors import CorruptRecordsError, FetchError
from legacy_consumer.wire.records.columns import Columns
from zk_layout.model import TopicPartition

__all__ = ["MAX_BATCH_BYTES", "AbortedTransaction", "crc32c", "decode_records", "glance"]

MAX_BATCH_BYTES = 128 * 1024 * 1024
"""What one batch may decompress to. Producers limit a batch before they compress it, by default to 1 MB."""
MAX_DECOMPRESSED_BYTES = 32 * 1024 * 1024
"""Once so much is decompressed the columns end with that batch."""
MOST_RECORDS = 1 << 20
"""Of one call: a batch of 150 KB may hold millions of empty records, and each takes some bytes of columns."""
_MOST_BYTES = 2**31 - 1


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, as a Fetch response lists it: from this offset to the producer's next marker."""

    producer_id: int
    first_offset: int


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
    the log after it has noted that offset, so that what lies behind it is committed too.

    Columns.next_offset says where to go on, Columns.has_more whether in the same record set, and
    Columns.incomplete_size that nothing whole was there.

    Raises: CorruptRecordsError if what comes first at the position cannot be read, whatever the decoder raises: it is
    damage of that partition alone. FetchError if only a limit, whose setting it names, or memory is in the way.
    """
    try:
        rows = legacy_consumer_native.decode(
            record_set,
            position,
            aborted=aborted if read_committed else None,
            max_records=max_records,
            max_batch_bytes=min(max_batch_bytes, _MOST_BYTES),
            max_decompressed_bytes=max_decompressed_bytes,
            check_crcs=check_crcs,
        )
    except legacy_consumer_native.TooLargeError as error:
        reason = f"offset {position}: {error}, which are allowed: raise fetch.message.max.bytes"
        raise FetchError(partition, reason) from error
    except legacy_consumer_native.DamagedRecordsError as error:
        raise CorruptRecordsError(partition, position, str(error)) from error
    except MemoryError as error:
        raise FetchError(partition, f"offset {position}: there is no memory to decode the records") from error
    except Exception as error:
        raise CorruptRecordsError(partition, position, f"they cannot be decoded: {error!r}") from error
    return Columns(partition, rows)
