"""Records of batches of format 2, decompressed, into columns.

A record: its length, attributes 1 byte, time since the batch's first, offset since the batch's first, key length, key,
value length, value, count of headers, of each key length, key, value length, value. All numbers are varints: 7 bits a
byte, lowest first, the highest bit set on all but the last, zigzag. 32 bits in at most 5 bytes; times 64 in 10.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legacy_consumer.wire.records.compiling import BYTES, helper, loop

# the columns of a frame
START, END, BASE, LAST_OFFSET, TIME_TYPE, TIME, COUNT = range(7)
FRAME_COLUMNS = 7
"""TIME is the first record's for TIME_TYPE 1, that of all for 2. A frame without bytes only moves the position."""

# the state, shared with message_format
WRITTEN, POSITION, ERROR, FRAME, AT, STOPPED = range(6)

BAD_LENGTH, BAD_TIME, BAD_OFFSET, BAD_KEY, BAD_VALUE, BAD_HEADERS, NOT_FILLED = range(1, 8)
REASONS = {
    BAD_LENGTH: "a record that does not end inside its batch",
    BAD_TIME: "a timestamp of more than 64 bits",
    BAD_OFFSET: "a record whose offset lies outside its batch",
    BAD_KEY: "a key that does not end inside its record",
    BAD_VALUE: "a value that does not end inside its record",
    BAD_HEADERS: "headers that do not end where their record does",
    NOT_FILLED: "a batch with more bytes than its records",
}


_USUAL_HEAD = 16
_USUAL_TAIL = 4
"""Bytes that can be read without a look: up to where the key begins, and from where it ends."""


@helper
def _varint(data: Any, at: Any, end: Any) -> Any:
    """(number, where it ends), or (0, -1) if it is cut or has more than 32 bits."""
    value = np.int64(0)
    shift = 0
    while at < end and shift < 35:
        byte = np.int64(data[np.uint64(at)])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                break
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return np.int64(0), np.int64(-1)


@helper
def _are_headers(data: Any, at: Any, end: Any, count: Any) -> Any:
    """Whether so many headers lie exactly between `at` and `end`."""
    if count > (end - at) // 2:
        return False
    for _ in range(count):
        length, at = _varint(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return False
        at += length
        length, at = _varint(data, at, end)
        if at < 0 or length < -1 or length > end - at:
            return False
        at += max(length, 0)
    return at == end


@loop(
    f"void({BYTES}, int64[:, ::1], boolean, int64[::1], int64[::1], int8[::1], int32[::1], int32[::1], int32[::1], "
    "int32[::1], int32[::1], int32[::1], int64[::1])"
)
def decode_batches(
    data: Any,
    frames: Any,
    with_headers: bool,
    offsets: Any,
    times: Any,
    time_types: Any,
    key_starts: Any,
    key_lengths: Any,
    value_starts: Any,
    value_lengths: Any,
    header_starts: Any,
    header_lengths: Any,
    state: Any,
) -> None:
    """Append the records of the frames to the columns from WRITTEN on, those at POSITION and behind it only.

    Headers are only looked at, and their columns only written, if wanted. state afterwards: how many are written, the
    next position, what is wrong (ERROR, in which FRAME, AT which byte; nothing of that frame is written), and whether
    it STOPPED because the columns are full.
    """
    written = state[WRITTEN]
    position = state[POSITION]
    limit = offsets.shape[0]
    error = 0
    for frame in range(frames.shape[0]):
        at, end = frames[frame, START], frames[frame, END]
        base, highest = frames[frame, BASE], frames[frame, LAST_OFFSET]
        time, time_type = frames[frame, TIME], frames[frame, TIME_TYPE]
        begun_with, begun_at = written, position
        if at < 0 or end > data.shape[0]:
            error = BAD_LENGTH
        record = at
        for _ in range(frames[frame, COUNT] if error == 0 else 0):
            record = at
            stop = end
            time_delta = offset_delta = header_count = np.int64(0)
            key_start = key_length = value_start = value_length = headers_start = np.int64(0)
            # What most records are like, straight on: numbers of at most three bytes, no headers, nothing wrong. What
            # is otherwise in any way is read once more, with everything looked after. Bytes are only read where END is
            # known to lie behind them; that all fields lie inside of the record shows at its end.
            # A number is read so in four places: as a function, inlined by the compiler or not, it takes four times as
            # long, since references to the array are counted.
            is_usual = end - at >= _USUAL_HEAD
            if is_usual:
                octet = np.int64(data[np.uint64(at)])
                at += 1
                zigzag = octet & 0x7F
                if octet >= 0x80:
                    octet = np.int64(data[np.uint64(at)])
                    at += 1
                    zigzag |= (octet & 0x7F) << 7
                    if octet >= 0x80:
                        octet = np.int64(data[np.uint64(at)])
                        at += 1
                        zigzag |= octet << 14
                        is_usual &= octet < 0x80
                stop = at + (zigzag >> 1)
                is_usual &= zigzag & 1 == 0 and stop <= end
                at += 1  # the record's attributes, which mean nothing
                octet = np.int64(data[np.uint64(at)])
                at += 1
                zigzag = octet & 0x7F
                if octet >= 0x80:
                    octet = np.int64(data[np.uint64(at)])
                    at += 1
                    zigzag |= (octet & 0x7F) << 7
                    if octet >= 0x80:
                        octet = np.int64(data[np.uint64(at)])
                        at += 1
                        zigzag |= octet << 14
                        is_usual &= octet < 0x80
                time_delta = (zigzag >> 1) ^ -(zigzag & 1)
                octet = np.int64(data[np.uint64(at)])
                at += 1
                zigzag = octet & 0x7F
                if octet >= 0x80:
                    octet = np.int64(data[np.uint64(at)])
                    at += 1
                    zigzag |= (octet & 0x7F) << 7
                    if octet >= 0x80:
                        octet = np.int64(data[np.uint64(at)])
                        at += 1
                        zigzag |= octet << 14
                        is_usual &= octet < 0x80
                offset_delta = zigzag >> 1
                is_usual &= zigzag & 1 == 0 and offset_delta <= highest - base
                zigzag = np.int64(data[np.uint64(at)])
                key_start = at + 1
                key_length = (zigzag >> 1) ^ -(zigzag & 1)
                at = key_start + max(key_length, np.int64(0))
                is_usual &= zigzag < 0x80 and key_length >= -1 and end - at >= _USUAL_TAIL
            if is_usual:
                octet = np.int64(data[np.uint64(at)])
                at += 1
                zigzag = octet & 0x7F
                if octet >= 0x80:
                    octet = np.int64(data[np.uint64(at)])
                    at += 1
                    zigzag |= (octet & 0x7F) << 7
                    if octet >= 0x80:
                        octet = np.int64(data[np.uint64(at)])
                        at += 1
                        zigzag |= octet << 14
                        is_usual &= octet < 0x80
                value_start = at
                value_length = (zigzag >> 1) ^ -(zigzag & 1)
                at += max(value_length, np.int64(0))
                headers_start = at
                # the count of headers is all that may follow
                is_usual &= value_length >= -1 and at == stop - 1
                if is_usual:
                    is_usual = data[np.uint64(at)] == 0
            if not is_usual:
                at = record
                stop = end
                header_count = np.int64(0)
                # in a loop and not in a function: the compiler counts references to an array that is passed on
                for field in range(1, 7):
                    bits = np.uint64(0)
                    shift = np.uint64(0)
                    byte = np.uint64(0x80)
                    while byte >= np.uint64(0x80):
                        if at >= stop or shift > np.uint64(63):
                            error = field
                            break
                        byte = np.uint64(data[np.uint64(at)])
                        bits |= (byte & np.uint64(0x7F)) << shift
                        shift += np.uint64(7)
                        at += 1
                    if field == BAD_TIME:
                        if shift == np.uint64(70) and byte > np.uint64(1):
                            error = field
                    elif shift > np.uint64(35) or bits >> np.uint64(32):
                        error = field
                    number = np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1))
                    left = stop - at
                    if field == BAD_LENGTH:
                        if number < 1 or number > left:
                            error = field
                        stop = at + number
                        at += 1  # the record's attributes, which mean nothing
                    elif field == BAD_TIME:
                        time_delta = number
                    elif field == BAD_OFFSET:
                        if number < 0 or number > highest - base:
                            error = field
                        offset_delta = number
                    elif field == BAD_KEY:
                        if number < -1 or number > left:
                            error = field
                        key_start, key_length = at, number
                        at += max(number, 0)
                    elif field == BAD_VALUE:
                        if number < -1 or number > left:
                            error = field
                        value_start, value_length = at, number
                        at += max(number, 0)
                    elif number < 0 or (number == 0 and at != stop):
                        error = field
                    else:
                        header_count = number
                        headers_start = value_start + (value_length if value_length > 0 else np.int64(0))
                    if error:
                        break
            if header_count and with_headers and error == 0 and not _are_headers(data, at, stop, header_count):
                error = BAD_HEADERS
            if error:
                break
            at = stop
            offset = base + offset_delta
            if offset < position:
                continue
            if written == limit:
                state[WRITTEN] = written
                state[POSITION] = position
                state[STOPPED] = 1
                return
            offsets[written] = offset
            times[written] = time + time_delta if time_type == 1 else time
            time_types[written] = time_type
            key_starts[written] = key_start
            key_lengths[written] = key_length
            value_starts[written] = value_start
            value_lengths[written] = value_length
            if with_headers:
                header_starts[written] = headers_start
                header_lengths[written] = stop - headers_start if header_count else 0
            written += 1
            position = offset + 1
        if error == 0 and at != end:
            error = NOT_FILLED
        if error:
            written, position = begun_with, begun_at
            state[ERROR] = error
            state[FRAME] = frame
            state[AT] = record
            break
        if highest >= position:
            position = highest + 1
    state[WRITTEN] = written
    state[POSITION] = position
