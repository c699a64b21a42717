"""Decides what of a record set is to be decoded, and makes it ready: CRCs checked, decompressed, without the aborted.

The result is a list of frames: ranges of bytes with uncompressed records and what is to be known about them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legacy_consumer.wire.records import batch_format, checksums, message_format, scanning
from legacy_consumer.wire.records.arena import Arena
from legacy_consumer.wire.records.compression import decompress
from legacy_consumer.wire.records.transactions import AbortedProducers

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

CREATE_TIME, APPEND_TIME = 1, 2
_ROWS_AT_ONCE = 256


class Frame(NamedTuple):
    """Records to decode: ranges of bytes that follow each other, of one format."""

    is_batch: bool
    rows: Int64s
    """As the loop of their format wants them: batch_format or message_format."""
    records: int
    """How many, at most."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a record set is asked for."""

    position: int
    max_records: int | None
    max_batch_bytes: int
    max_decompressed_bytes: int
    check_crcs: bool
    aborted: AbortedProducers | None
    """None to read what is not committed, too."""


@dataclass(slots=True)
class Frames:
    """The frames of a record set, in order, up to a limit or a fault.

    All lie in one buffer, in their order: the record set itself, or from the first one that is decompressed on an arena
    into which the others are copied.
    """

    data: Bytes
    arena: Arena | None = None
    frames: list[Frame] = field(default_factory=list)
    count: int = 0
    """Records in all frames, at most."""
    sure: int = 0
    """Those of them that do not lie before the position; counted only where batches are made one by one."""
    fault: str | None = None
    """What is wrong with what follows."""
    is_too_large: bool = False
    """Only that it decompresses to more than is allowed."""
    has_more: bool = False
    """A limit was reached."""
    needed: int = 0
    """If what follows is cut: the size of the record set up to its end, as far as is known."""

    @property
    def buffer(self) -> Bytes:
        """What the frames lie in."""
        return self.data if self.arena is None else self.arena.bytes

    @property
    def decompressed(self) -> int:
        """Bytes in the arena."""
        return 0 if self.arena is None else self.arena.size

    def add(self, frame: Frame) -> None:
        """Add a frame that lies in the buffer."""
        self.frames.append(frame)
        self.count += frame.records

    def in_buffer(self, start: int, end: int) -> tuple[int, int]:
        """Where this range of the record set lies in the buffer from now on."""
        if self.arena is None:
            return start, end
        begin = self.arena.add(self.data[start:end])
        return begin, begin + end - start

    def open_arena(self) -> Arena:
        """The arena, with all frames in it."""
        if self.arena is None:
            self.arena = Arena()
            for frame in self.frames:
                for row in frame.rows:  # both formats begin with start and end
                    row[:2] = self.in_buffer(int(row[0]), int(row[1]))
        return self.arena


class _Fault(Exception):  # noqa: N818 - never leaves this file
    """What is wrong with the run that is being made ready."""


class _TooLarge(_Fault):
    """Nothing but that more would come out of it than is allowed."""


def make_frames(data: Bytes, wanted: Wanted) -> Frames:
    """Make everything wanted ready to be decoded."""
    made = Frames(data)
    try:
        for rows, bad in _scanned(data, made, wanted):
            at = 0
            for begin, end in _simple_batches(rows[:bad], wanted):
                if not _add_runs(rows, at, begin, bad, made, wanted):
                    return made
                made.add(_simple_frame(rows[begin:end], made))
                at = end
            if not _add_runs(rows, at, len(rows), bad, made, wanted):
                return made
    except _Fault as fault:
        made.fault, made.is_too_large = str(fault), isinstance(fault, _TooLarge)
    return made


def _simple_batches(rows: Int64s, wanted: Wanted) -> list[tuple[int, int]]:
    """(first, behind the last) of the rows that follow each other and need no more than to be decoded.

    Producers that do not wait for a second record send batches of one, and a step of Python for each would take longer
    than all else.
    """
    if wanted.max_records is not None:
        return []
    troubles = scanning.CODEC_MASK | scanning.CONTROL_FLAG
    simple = (rows[:, scanning.KIND] == scanning.BATCH) & (rows[:, scanning.ATTRIBUTES] & troubles == 0)
    simple &= (rows[:, scanning.LAST_OFFSET] >= wanted.position) & (rows[:, scanning.COUNT] > 0)
    if wanted.aborted is not None:
        simple &= rows[:, scanning.PRODUCER_ID] < 0
    edges = np.flatnonzero(np.diff(simple, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _simple_frame(rows: Int64s, made: Frames) -> Frame:
    frames = np.empty((len(rows), batch_format.FRAME_COLUMNS), np.int64)
    frames[:, batch_format.START] = rows[:, scanning.PAYLOAD]
    frames[:, batch_format.END] = rows[:, scanning.END]
    frames[:, batch_format.BASE] = rows[:, scanning.BASE_OFFSET]
    frames[:, batch_format.LAST_OFFSET] = rows[:, scanning.LAST_OFFSET]
    is_append = rows[:, scanning.ATTRIBUTES] & scanning.APPEND_TIME_FLAG != 0
    frames[:, batch_format.TIME_TYPE] = np.where(is_append, APPEND_TIME, CREATE_TIME)
    frames[:, batch_format.TIME] = np.where(is_append, rows[:, scanning.MAX_TIME], rows[:, scanning.BASE_TIME])
    frames[:, batch_format.COUNT] = rows[:, scanning.COUNT]
    if made.arena is not None:
        for frame in frames:
            frame[:2] = made.in_buffer(int(frame[0]), int(frame[1]))
    return Frame(True, frames, int(frames[:, batch_format.COUNT].sum()))


def _add_runs(rows: Int64s, at: int, end: int, bad: int, made: Frames, wanted: Wanted) -> bool:
    """Add these rows, one by one; whether there can be more. Raises: _Fault at the first that is damaged."""
    for number, row in enumerate(rows[at:end].tolist(), at):
        run = _Run(*row)
        is_needed = run.last_offset >= wanted.position
        if not is_needed and wanted.aborted is None:
            continue
        if made.decompressed >= wanted.max_decompressed_bytes or (
            wanted.max_records is not None and made.sure >= wanted.max_records
        ):
            made.has_more = True
            return False
        if number == bad:
            raise _Fault(_crc_fault(run.start))
        if wanted.check_crcs and is_needed and run.kind != scanning.BATCH:
            run = _checked(made.data, run)
        frame = _frame(run, made, wanted)
        if frame is not None and is_needed:
            made.add(frame)
            if run.base_offset >= wanted.position:
                made.sure += frame.records
        if run.fault:
            raise _Fault(run.fault)
    return True


class _Run(NamedTuple):
    """A row of a scan, by name; see scanning.py."""

    kind: int
    start: int
    end: int
    records: int
    base_offset: int
    last_offset: int
    magic: int
    attributes: int
    base_time: int
    max_time: int
    producer_id: int
    payload: int
    crc: int
    fault: str = ""
    """What is wrong right behind it."""

    @property
    def codec(self) -> int:
        return self.attributes & scanning.CODEC_MASK

    @property
    def has_append_time(self) -> bool:
        return bool(self.attributes & scanning.APPEND_TIME_FLAG)


def _scanned(data: Bytes, made: Frames, wanted: Wanted) -> Iterator[tuple[Int64s, int]]:
    """(rows, the number of the first among them that is a wanted batch with a wrong CRC, or how many there are)."""
    state = np.zeros(scanning.STATE_COLUMNS, np.int64)
    at = 0
    while True:
        rows = np.empty((_ROWS_AT_ONCE, scanning.ROW_COLUMNS), np.int64)
        scanning.scan(data, at, rows, state)
        found, at, error, needed = state.tolist()
        rows = rows[:found]
        yield rows, _first_damaged(data, rows, wanted.position) if wanted.check_crcs else found
        if error:
            raise _Fault(f"{scanning.REASONS[error]}, {at} bytes into the record set")
        if needed:
            made.needed = at + needed
        if needed or at >= len(data):
            return


def _first_damaged(data: Bytes, rows: Int64s, position: int) -> int:
    tables, long_batch = checksums.CRC32C_TABLES, checksums.LONG_BATCH_BYTES
    short = int(checksums.damaged_batch(data, rows, tables, long_batch, position))
    rows = rows[:short] if short >= 0 else rows
    long = checksums.damaged_long_batch(data, rows, position)
    return long if long >= 0 else len(rows)


def _checked(data: Bytes, run: _Run) -> _Run:
    """The run of messages, up to the first with a wrong CRC. Raises: _Fault if there is none before."""
    bad = int(checksums.damaged_message(data, run.start, run.end, checksums.CRC32_TABLES))
    if bad < 0:
        return run
    if bad == run.start:
        raise _Fault(_crc_fault(bad))
    return run._replace(end=bad, fault=_crc_fault(bad))


def _crc_fault(at: int) -> str:
    return f"a CRC that does not match, {at} bytes into the record set"


def _one(is_batch: bool, *row: int, records: int) -> Frame:
    return Frame(is_batch, np.array([row], np.int64), records)


def _frame(run: _Run, made: Frames, wanted: Wanted) -> Frame | None:
    match run.kind:
        case scanning.MESSAGES:
            return _one(False, *made.in_buffer(run.start, run.end), 0, run.last_offset, -1, -1, 0, records=run.records)
        case scanning.WRAPPER:
            return _wrapper_frame(run, made, wanted) if run.last_offset >= wanted.position else None
        case _:
            return _batch_frame(run, made, wanted)


def _batch_frame(run: _Run, made: Frames, wanted: Wanted) -> Frame | None:
    """The frame of a batch; one without bytes if its records are to be left out, so that the position moves over it."""
    nothing = _one(True, 0, 0, run.base_offset, run.last_offset, CREATE_TIME, -1, 0, records=0)
    is_control = bool(run.attributes & scanning.CONTROL_FLAG)
    if wanted.aborted is not None and run.producer_id >= 0:
        wanted.aborted.come_to(run.last_offset)
        if wanted.aborted.has(run.producer_id):
            if is_control:
                if _is_abort_marker(run, made, wanted):
                    wanted.aborted.end(run.producer_id)
            elif run.attributes & scanning.TRANSACTIONAL_FLAG:
                return nothing
    if is_control or (run.records == 0 and run.payload == run.end):
        return nothing
    if run.last_offset < wanted.position:
        return None
    return _records_frame(run, made, wanted)


def _records_frame(run: _Run, made: Frames, wanted: Wanted) -> Frame:
    if not run.codec:
        start, end = made.in_buffer(run.payload, run.end)
    else:
        start, end = _decompressed(run, run.payload, run.end, made, wanted)
        if run.records > (end - start) // scanning.SMALLEST_RECORD:
            raise _Fault(f"{scanning.REASONS[scanning.BAD_COUNT]}, {run.start} bytes into the record set")
    time_type, time = (APPEND_TIME, run.max_time) if run.has_append_time else (CREATE_TIME, run.base_time)
    return _one(True, start, end, run.base_offset, run.last_offset, time_type, time, run.records, records=run.records)


def _is_abort_marker(run: _Run, made: Frames, wanted: Wanted) -> bool:
    """Whether the control batch says so: its record's key is a version and a type, 16 bits each, type 0 for abort."""
    frame = _records_frame(run, made, wanted)
    data = made.buffer
    state = np.zeros(message_format.STATE_COLUMNS, np.int64)
    longs, ints = np.empty((2, 1), np.int64), np.empty((6, 1), np.int32)
    fields = (longs[0], longs[1], np.empty(1, np.int8), ints[0], ints[1], ints[2], ints[3], ints[4], ints[5])
    batch_format.decode_batches(data, frame.rows, False, *fields, state)
    if state[message_format.ERROR] or not state[message_format.WRITTEN] or ints[1, 0] < 4:
        raise _Fault(f"a control batch that cannot be read, {run.start} bytes into the record set")
    (kind,) = struct.unpack_from(">h", data.data, int(ints[0, 0]) + 2)
    return bool(kind == 0)


def _wrapper_frame(run: _Run, made: Frames, wanted: Wanted) -> Frame:
    key_length_at = run.start + scanning.ENTRY_HEAD + scanning.MESSAGE_MINIMUM[run.magic] - 8
    (key_length,) = struct.unpack_from(">i", made.data.data, key_length_at)
    value_at = key_length_at + 8 + max(key_length, 0)
    if key_length < -1 or value_at > run.end:
        raise _Fault(f"{message_format.REASONS[message_format.BAD_KEY]}, {run.start} bytes into the record set")
    (value_length,) = struct.unpack_from(">i", made.data.data, value_at - 4)
    if value_length != run.end - value_at:
        raise _Fault(f"{message_format.REASONS[message_format.BAD_VALUE]}, {run.start} bytes into the record set")
    start, end = _decompressed(run, value_at, run.end, made, wanted)
    inside = np.zeros(message_format.SURVEY_COLUMNS, np.int64)
    message_format.survey(made.buffer, start, end, inside)
    count, last_inner, error, at = inside.tolist()
    where = f"{at - start} bytes into what was compressed"
    if error:
        raise _Fault(f"{message_format.REASONS[error]}, {where}")
    if wanted.check_crcs:
        bad = int(checksums.damaged_message(made.buffer, start, end, checksums.CRC32_TABLES))
        if bad >= 0:
            raise _Fault(f"a CRC that does not match, {bad - start} bytes into what was compressed")
    base = run.last_offset - last_inner if run.magic == 1 else 0
    if not count or not 0 <= base <= run.last_offset:
        what = "offsets beyond its own" if count else "no messages"
        raise _Fault(f"a compressed message that holds {what}, {run.start} bytes into the record set")
    time_type = -1 if run.magic == 0 else APPEND_TIME if run.has_append_time else CREATE_TIME
    return _one(False, start, end, base, run.last_offset, time_type, run.max_time, 1, records=count)


def _decompressed(run: _Run, start: int, end: int, made: Frames, wanted: Wanted) -> tuple[int, int]:
    try:
        source = made.data[start:end].tobytes()
        return decompress(run.codec, run.magic, source, wanted.max_batch_bytes, made.open_arena())
    except OverflowError as error:
        raise _TooLarge(str(error)) from error
    except ValueError as error:
        raise _Fault(f"{error}, {run.start} bytes into the record set") from error
