"""Walks over what lies side by side in a record set, whatever its format, and checks that each lies inside.

Every format begins alike: offset 8 bytes, size of the rest 4, four bytes, magic 1. Formats 0 and 1 have single
messages, or messages whose value is a compressed set of messages (a wrapper); format 2 has batches. Uncompressed
messages that follow each other make one run, and each wrapper and each batch a run of its own.

A scan fills one row a run, the columns named below, and says in a state how far it came. Offsets are not
covered by any CRC; they are only made sure to leave room for sums. Numbers are big-endian.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legacy_consumer.wire.records.compiling import BYTES, helper, loop

# the columns of a row
KIND, START, END, COUNT, BASE_OFFSET, LAST_OFFSET, MAGIC, ATTRIBUTES = range(8)
BASE_TIME, MAX_TIME, PRODUCER_ID, PAYLOAD, CRC = range(8, 13)
ROW_COLUMNS = 13

# kinds of runs
MESSAGES, WRAPPER, BATCH = range(3)

# the state of a scan
ROWS, AT, ERROR, NEEDED = range(4)
STATE_COLUMNS = 4

# what a scan can find wrong
SIZE_TOO_SMALL, UNKNOWN_MAGIC, OFFSET_OUT_OF_RANGE, BAD_LAST_OFFSET, BAD_COUNT = range(1, 6)
REASONS = {
    SIZE_TOO_SMALL: "a size smaller than what the format begins with",
    UNKNOWN_MAGIC: "a message format that does not exist",
    OFFSET_OUT_OF_RANGE: "an offset that cannot be",
    BAD_LAST_OFFSET: "a batch whose last offset lies before its first",
    BAD_COUNT: "a batch that counts more records than its bytes can hold",
}

CODEC_MASK, APPEND_TIME_FLAG, TRANSACTIONAL_FLAG, CONTROL_FLAG = 7, 8, 16, 32
ENTRY_HEAD = 12
MESSAGE_MINIMUM = (14, 22)
"""Bytes behind the size of an empty message: CRC, magic, attributes, (timestamp,) lengths of key and value."""
BATCH_HEAD = 61
SMALLEST_RECORD = 7
"""One byte each: length, attributes, time, offset, key length, value length, count of headers."""
HIGHEST_OFFSET = 2**63 - 2**32


@helper
def _int32(data: Any, at: int) -> Any:
    number = (
        np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16 | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])
    )
    return number - (np.int64(1) << 32) if number >= np.int64(1) << 31 else number


@helper
def _int64(data: Any, at: int) -> Any:
    return _int32(data, at) << 32 | _int32(data, at + 4) & np.int64(0xFFFFFFFF)


@loop(f"void({BYTES}, int64, int64[:, ::1], int64[::1])")
def scan(data: Any, at: int, rows: Any, state: Any) -> None:
    """Fill rows with the runs from byte `at` on, until they are full, the data ends or something is wrong.

    state: ROWS that were filled, AT which byte it ended, ERROR (0 none), NEEDED: the size of what begins at AT and has
    no end, at most 2 GiB - 1, or 12 if not even that is known; 0 if the data ends there.
    """
    end = data.shape[0]
    found = 0
    is_open = False
    error = 0
    needed = np.int64(0)
    while at < end:
        if end - at < ENTRY_HEAD:
            needed = np.int64(ENTRY_HEAD)
            break
        offset = _int64(data, at)
        size = _int32(data, at + 8)
        if size < MESSAGE_MINIMUM[0]:
            error = SIZE_TOO_SMALL
            break
        if size > end - at - ENTRY_HEAD:
            needed = min(size + ENTRY_HEAD, np.int64(2**31 - 1))
            break
        magic = np.int64(data[at + 16])
        if magic > 2:
            error = UNKNOWN_MAGIC
            break
        if offset < 0 or offset > HIGHEST_OFFSET:
            error = OFFSET_OUT_OF_RANGE
            break
        after = at + ENTRY_HEAD + size
        if magic == 2:
            if size < BATCH_HEAD - ENTRY_HEAD:
                error = SIZE_TOO_SMALL
                break
            last_delta = _int32(data, at + 23)
            count = _int32(data, at + 57)
            attributes = np.int64(data[at + 22])
            if last_delta < 0:
                error = BAD_LAST_OFFSET
                break
            if count < 0 or (attributes & CODEC_MASK == 0 and count > (after - at - BATCH_HEAD) // SMALLEST_RECORD):
                error = BAD_COUNT
                break
            if found == rows.shape[0]:
                break
            is_open = False
            rows[found, KIND] = BATCH
            rows[found, COUNT] = count
            rows[found, LAST_OFFSET] = offset + last_delta
            rows[found, BASE_TIME] = _int64(data, at + 27)
            rows[found, MAX_TIME] = _int64(data, at + 35)
            rows[found, PRODUCER_ID] = _int64(data, at + 43)
            rows[found, PAYLOAD] = at + BATCH_HEAD
            rows[found, CRC] = _int32(data, at + 17) & np.int64(0xFFFFFFFF)
        else:
            if magic == 1 and size < MESSAGE_MINIMUM[1]:
                error = SIZE_TOO_SMALL
                break
            attributes = np.int64(data[at + 17])
            is_wrapper = attributes & CODEC_MASK != 0
            if is_open and not is_wrapper:
                rows[found - 1, END] = after
                rows[found - 1, COUNT] += 1
                rows[found - 1, LAST_OFFSET] = max(offset, rows[found - 1, LAST_OFFSET])
                at = after
                continue
            if found == rows.shape[0]:
                break
            is_open = not is_wrapper
            rows[found, KIND] = WRAPPER if is_wrapper else MESSAGES
            rows[found, COUNT] = 1
            rows[found, LAST_OFFSET] = offset
            rows[found, BASE_TIME] = rows[found, MAX_TIME] = _int64(data, at + 18) if magic == 1 else np.int64(-1)
            rows[found, PRODUCER_ID] = -1
            rows[found, PAYLOAD] = at
            rows[found, CRC] = 0
        rows[found, START] = at
        rows[found, END] = after
        rows[found, BASE_OFFSET] = offset
        rows[found, MAGIC] = magic
        rows[found, ATTRIBUTES] = attributes
        found += 1
        at = after
    state[ROWS] = found
    state[AT] = at
    state[ERROR] = error
    state[NEEDED] = needed
