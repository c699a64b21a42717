"""Messages of formats 0 and 1, one after the other, into columns.

offset 8, size 4, CRC 4, magic 1, attributes 1, timestamp 8 (format 1 only), key length 4, key, value length 4, value.
Lengths are -1 for null. Inside a wrapper of format 1 offsets count from the wrapper's first message and the wrapper's
attributes say what the timestamps mean; if they are times of appending, the wrapper's own is that of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legacy_consumer.wire.records.compiling import BYTES, helper, loop

# the columns of a frame
START, END, BASE, LAST_OFFSET, TIME_TYPE, TIME, IS_WHOLE = range(7)
FRAME_COLUMNS = 7
"""BASE is added to the offsets; none may then lie above LAST_OFFSET. TIME_TYPE -1: each message says for itself, 2:
TIME holds for all. IS_WHOLE: if a message is damaged none of the frame counts, else those before it do."""

# the state, shared with batch_format
WRITTEN, POSITION, ERROR, FRAME, AT, STOPPED = range(6)
STATE_COLUMNS = 6

# what a survey tells
COUNT, LAST_INNER, SURVEY_ERROR, SURVEY_AT = range(4)
SURVEY_COLUMNS = 4

CUT, BAD_MAGIC, NESTED, BAD_KEY, BAD_VALUE, OFFSET_BEYOND = range(1, 7)
REASONS = {
    CUT: "a message that does not end inside what holds it",
    BAD_MAGIC: "a message inside a compressed one that has another format than 0 or 1",
    NESTED: "a compressed message inside a compressed one",
    BAD_KEY: "a key that does not end inside its message",
    BAD_VALUE: "a value that does not end where its message does",
    OFFSET_BEYOND: "an offset beyond that of the compressed message around it",
}

_HEAD = 12
_NOT_COMPRESSED = 7
_APPEND_TIME = 8


@helper
def _int32(data: Any, at: int) -> Any:
    number = (
        np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16 | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])
    )
    return number - (np.int64(1) << 32) if number >= np.int64(1) << 31 else number


@helper
def _int64(data: Any, at: int) -> Any:
    return _int32(data, at) << 32 | _int32(data, at + 4) & np.int64(0xFFFFFFFF)


@loop(f"void({BYTES}, int64, int64, int64[::1])")
def survey(data: Any, at: int, end: int, found: Any) -> None:
    """Count the messages of a decompressed set, note the last one's offset, and check that all lie inside."""
    count = 0
    last = np.int64(-1)
    error = 0
    while at < end:
        if end - at < _HEAD + 14:
            error = CUT
            break
        size = _int32(data, at + 8)
        magic = data[at + 16]
        if magic > 1:
            error = BAD_MAGIC
            break
        if size > end - at - _HEAD or size < (14 if magic == 0 else 22):
            error = CUT
            break
        if data[at + 17] & _NOT_COMPRESSED:
            error = NESTED
            break
        last = _int64(data, at)
        count += 1
        at += _HEAD + size
    found[COUNT] = count
    found[LAST_INNER] = last
    found[SURVEY_ERROR] = error
    found[SURVEY_AT] = at


@loop(
    f"void({BYTES}, int64[:, ::1], int64[::1], int64[::1], int8[::1], int32[::1], int32[::1], int32[::1], int32[::1], "
    "int64[::1])"
)
def decode_messages(
    data: Any,
    frames: Any,
    offsets: Any,
    times: Any,
    time_types: Any,
    key_starts: Any,
    key_lengths: Any,
    value_starts: Any,
    value_lengths: Any,
    state: Any,
) -> None:
    """Append the messages of the frames to the columns from WRITTEN on, those at POSITION and behind it only.

    state afterwards: how many are written, the next position, what is wrong (ERROR, in which FRAME, AT which byte), and
    whether it STOPPED because the columns are full.
    """
    written = state[WRITTEN]
    position = state[POSITION]
    limit = offsets.shape[0]
    error = 0
    at = np.int64(0)
    for frame in range(frames.shape[0]):
        at, end = frames[frame, START], frames[frame, END]
        base, highest = frames[frame, BASE], frames[frame, LAST_OFFSET]
        time_type = frames[frame, TIME_TYPE]
        begun_with, begun_at = written, position
        if at < 0 or end > data.shape[0]:
            error = CUT
        while at < end and error == 0:
            if end - at < _HEAD + 14:
                error = CUT
                break
            size = _int32(data, at + 8)
            magic = data[at + 16]
            smallest = 14 if magic == 0 else 22
            if size > end - at - _HEAD or size < smallest:
                error = CUT
                break
            after = at + _HEAD + size
            offset = _int64(data, at)
            # both are below 2^63 - 2^32, or the difference of two such: the sum can only be too small
            if offset < 0 or offset > highest - base:
                error = OFFSET_BEYOND
                break
            offset += base
            key_start = at + _HEAD + smallest - 4
            key_length = _int32(data, key_start - 4)
            if key_length < -1 or key_length > after - key_start - 4:
                error = BAD_KEY
                break
            value_start = key_start + max(key_length, 0) + 4
            value_length = _int32(data, value_start - 4)
            if value_length < -1 or max(value_length, 0) != after - value_start:
                error = BAD_VALUE
                break
            if offset >= position:
                if written == limit:
                    state[WRITTEN] = written
                    state[POSITION] = position
                    state[STOPPED] = 1
                    return
                offsets[written] = offset
                if magic == 0:
                    times[written] = -1
                    time_types[written] = 0
                elif time_type == 2:
                    times[written] = frames[frame, TIME]
                    time_types[written] = 2
                else:
                    times[written] = _int64(data, at + 18)
                    own = 2 if data[at + 17] & _APPEND_TIME else 1
                    time_types[written] = own if time_type < 0 else time_type
                key_starts[written] = key_start
                key_lengths[written] = key_length
                value_starts[written] = value_start
                value_lengths[written] = value_length
                written += 1
                position = offset + 1
            at = after
        if error:
            if frames[frame, IS_WHOLE]:
                written, position = begun_with, begun_at
            state[ERROR] = error
            state[FRAME] = frame
            state[AT] = at
            break
        if frames[frame, IS_WHOLE] and highest >= position:
            position = highest + 1
    state[WRITTEN] = written
    state[POSITION] = position
