"""Decodes a record set for Arrow in one pass, batch by batch: checksum, columns, and the values joined together.

Each step alone is bound by memory: the bytes of a response come from the processor that received them. So all that is
to be done with a batch, some KB as producers send them, is done while it is in the cache.

That is for sets that need no more than to be decoded (records.plain). What is wrong with another, or with one of
these, decode_records() finds out again, and has the words for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from legacy_consumer.wire import crc_instruction
from legacy_consumer.wire.crc_instruction import HAS_INSTRUCTION, is_damaged
from legacy_consumer.wire.records import Columns, batch_format, plain, scanning
from legacy_consumer.wire.records.batch_format import FRAME_COLUMNS, decode_batches
from legacy_consumer.wire.records.checksums import CRC32C_TABLES
from legacy_consumer.wire.records.columns import JoinedFields, Spans
from legacy_consumer.wire.records.compiling import BYTES, helper, loop, version_of
from legacy_consumer.wire.records.frames import APPEND_TIME, CREATE_TIME
from legacy_consumer.wire.records.message_format import ERROR, POSITION, STATE_COLUMNS, STOPPED, WRITTEN
from zk_layout.model import TopicPartition

_config: Any = numba.config
IS_POSSIBLE = HAS_INSTRUCTION and not _config.DISABLE_JIT

_types: Any = types
_intrinsic: Any = intrinsic
_ir: Any = ir

_WIDE = 32
"""Bytes that are moved at once: a value is moved with what follows it, which the next one is written over."""


@_intrinsic  # type: ignore[untyped-decorator]
def _move(typing_context: Any, into: Any, at: Any, data: Any, start: Any) -> Any:  # noqa: ARG001 - numba calls it so
    """The _WIDE bytes from data[start] on, to into[at] and behind it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into, at, data, start = arguments
        kind = _ir.VectorType(_ir.IntType(8), _WIDE).as_pointer()
        source = context.make_array(signature.args[2])(context, builder, data)
        target = context.make_array(signature.args[0])(context, builder, into)
        piece = builder.load(builder.bitcast(builder.gep(source.data, [start]), kind), align=1)
        builder.store(piece, builder.bitcast(builder.gep(target.data, [at]), kind), align=1)
        return context.get_dummy_value()

    return _types.void(into, _types.uint64, data, _types.uint64), generate


@helper
def _join(data: Any, starts: Any, lengths: Any, first: Any, stop: Any, joined: Any, at: Any, offsets: Any) -> Any:
    """Append the fields from first to before stop, the first of them at `at`; where the last one ends.

    -1 if a field lies outside of the data, or there is no room for it.
    """
    for i in range(first, stop):
        offsets[i] = at
        length, start = np.int64(lengths[i]), np.int64(starts[i])
        if length <= 0:
            continue
        if start < 0 or start + length > data.shape[0] or at + length > joined.shape[0]:
            return np.int64(-1)
        moved, end = np.uint64(0), np.uint64(length)
        if start + length + _WIDE <= data.shape[0] and at + length + _WIDE <= joined.shape[0]:
            while moved < end:
                _move(joined, np.uint64(at) + moved, data, np.uint64(start) + moved)
                moved += np.uint64(_WIDE)
        else:
            while moved < end:
                joined[np.uint64(at) + moved] = data[np.uint64(start) + moved]
                moved += np.uint64(1)
        at += length
    return at


def _make_loop(version: int) -> Callable[..., int]:
    def _decode(
        data: Any, rows: Any, tables: Any, longs: Any, ints: Any, types: Any, joined: Any, offsets: Any, state: Any
    ) -> Any:
        """Decode these batches and join their values; whether all is well. See plain for longs, ints and types."""
        frame = np.zeros((1, FRAME_COLUMNS), np.int64)
        end = np.int64(0)
        for batch in range(rows.shape[0] if version >= 0 else 0):
            if is_damaged(data, rows[batch], tables):
                return False
            is_append = rows[batch, scanning.ATTRIBUTES] & scanning.APPEND_TIME_FLAG != 0
            frame[0, batch_format.START] = rows[batch, scanning.PAYLOAD]
            frame[0, batch_format.END] = rows[batch, scanning.END]
            frame[0, batch_format.BASE] = rows[batch, scanning.BASE_OFFSET]
            frame[0, batch_format.LAST_OFFSET] = rows[batch, scanning.LAST_OFFSET]
            frame[0, batch_format.TIME_TYPE] = APPEND_TIME if is_append else CREATE_TIME
            frame[0, batch_format.TIME] = rows[batch, scanning.MAX_TIME if is_append else scanning.BASE_TIME]
            frame[0, batch_format.COUNT] = rows[batch, scanning.COUNT]
            begun_with = state[WRITTEN]
            fields = (ints[0], ints[1], ints[2], ints[3], ints[4], ints[5])
            decode_batches(data, frame, True, longs[0], longs[1], types, *fields, state)
            if state[ERROR] or state[STOPPED]:
                return False
            end = _join(data, ints[2], ints[3], begun_with, state[WRITTEN], joined, end, offsets)
            if end < 0:
                return False
        offsets[state[WRITTEN]] = end
        return True

    return _decode


_decode: Any = None
if IS_POSSIBLE:
    _decode = loop(
        f"boolean({BYTES}, int64[:, ::1], uint32[:, ::1], int64[:, ::1], int32[:, ::1], int8[::1], uint8[::1], "
        "int32[::1], int64[::1])"
    )(_make_loop(version_of(batch_format, crc_instruction)))


def decode_joined(
    record_set: memoryview,
    partition: TopicPartition,
    position: int,
    *,
    read_committed: bool,
) -> Columns | None:
    """As decode_records() with headers, and the values joined; None if the set needs more, or something is wrong."""
    if not IS_POSSIBLE:
        return None
    data = np.frombuffer(record_set, np.uint8)
    found = plain.plain_batches(data, position, read_committed=read_committed)
    if found is None:
        return None
    rows, capacity = found
    # each for itself: who keeps a record batch keeps no more than is in it
    longs, ints = np.empty((2, capacity), np.int64), np.empty((6, capacity), np.int32)
    times, offsets = np.empty(capacity, np.int8), np.empty(capacity + 1, np.int32)
    joined = np.empty(len(data), np.uint8)
    state = np.zeros(STATE_COLUMNS, np.int64)
    state[POSITION] = position
    if not _decode(data, rows, CRC32C_TABLES, longs, ints, times, joined, offsets, state):
        return None
    count = int(state[WRITTEN])
    fields = ints[:, :count]
    return Columns(
        partition,
        data.data,
        longs[0, :count],
        longs[1, :count],
        times[:count],
        Spans(fields[0], fields[1]),
        Spans(fields[2], fields[3]),
        Spans(fields[4], fields[5]),
        int(state[POSITION]),
        joined_values=JoinedFields(joined, offsets[: count + 1]),
    )
