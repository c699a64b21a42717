"""CRC-32C by the processor's own instruction, for loops that cannot call the crc32c library.

The instruction takes three cycles until the next one can go on with its result, but one can begin in each cycle. So
three blocks that lie side by side are taken at once, and put together by tables: what a block makes of the checksum
before it is the same as what so many zeros make of it, whatever is in the block.

Not among the record decoders: what is not Python at all cannot be fuzzed as Python.
"""

from __future__ import annotations

import platform
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from legacy_consumer.wire.records.checksums import CRC32C_TABLES
from legacy_consumer.wire.records.compiling import helper
from legacy_consumer.wire.records.scanning import CRC, END, START

_numba: Any = numba
_types: Any = types
_intrinsic: Any = intrinsic
_ir: Any = ir
_binding: Any = binding

HAS_INSTRUCTION = (
    platform.machine() in ("x86_64", "AMD64")
    and bool(_binding.get_host_cpu_features().get("sse4.2"))
    # compiled for another processor than this one, by NUMBA_CPU_NAME or NUMBA_CPU_FEATURES
    and not _numba.config.CPU_NAME
    and not _numba.config.CPU_FEATURES
)
"""Whether damaged_batch() may be compiled, and called."""

_COVERS_FROM = 21
"""Of a batch of format 2."""
_BLOCK = 256
_AHEAD = 4096
"""So far before they are wanted bytes are called into the cache: they come from another processor."""
_CACHE_LINE = 64


def _after_zeros(count: int) -> NDArray[np.uint32]:
    """Tables, by each byte of a checksum, of what so many zero bytes make of it."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(count):
        bits = CRC32C_TABLES[0][bits & np.uint32(0xFF)] ^ bits >> np.uint32(8)
    bytes_ = np.arange(256)[:, None]
    has_bit = (bytes_ >> np.arange(8) & 1).astype(bool)
    return np.stack(
        [np.bitwise_xor.reduce(np.where(has_bit, bits[8 * at : 8 * at + 8], np.uint32(0)), axis=1) for at in range(4)]
    )


_AFTER_ONE, _AFTER_TWO = _after_zeros(_BLOCK), _after_zeros(2 * _BLOCK)


@_intrinsic  # type: ignore[untyped-decorator]
def _step(typing_context: Any, crc: Any, data: Any, at: Any) -> Any:  # noqa: ARG001 - numba calls it so
    """The CRC-32C that goes on with the eight bytes that begin at data[at]: one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        crc_before, array, place = arguments
        view = context.make_array(signature.args[1])(context, builder, array)
        wide = crc_before.type
        piece = builder.load(builder.bitcast(builder.gep(view.data, [place]), wide.as_pointer()), align=1)
        kind = _ir.FunctionType(wide, [wide, wide])
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), kind)
        return builder.call(function, [crc_before, piece])

    return _types.uint64(_types.uint64, data, _types.uint64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def _call_for(typing_context: Any, data: Any, at: Any) -> Any:  # noqa: ARG001 - numba calls it so
    """Have the line of the cache that data[at] is in brought, if it exists; waits for nothing, reads nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(view.data, [arguments[1]])
        number = _ir.IntType(32)
        kind = _ir.FunctionType(_ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), kind)
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return _types.void(data, _types.uint64), generate


@helper
def _moved(crc: Any, tables: Any) -> Any:
    byte = np.uint32(0xFF)
    return (
        tables[0, crc & byte]
        ^ tables[1, crc >> np.uint32(8) & byte]
        ^ tables[2, crc >> np.uint32(16) & byte]
        ^ tables[3, crc >> np.uint32(24)]
    )


@helper
def crc32c_of(data: Any, begin: Any, stop: Any, tables: Any) -> Any:
    """The CRC-32C of these bytes, which must lie inside of the data. See HAS_INSTRUCTION."""
    at, end = np.uint64(begin), np.uint64(stop)
    step, block = np.uint64(8), np.uint64(_BLOCK)
    crc = np.uint64(0xFFFFFFFF)
    while end - at >= np.uint64(3) * block:
        for line in range(3 * _BLOCK // _CACHE_LINE):
            _call_for(data, at + np.uint64(_AHEAD + _CACHE_LINE * line))
        second = third = np.uint64(0)
        after = at + block
        while at < after:
            crc = _step(crc, data, at)
            second = _step(second, data, at + block)
            third = _step(third, data, at + block + block)
            at += step
        at += block + block
        crc = np.uint64(_moved(np.uint32(crc), _AFTER_TWO) ^ _moved(np.uint32(second), _AFTER_ONE)) ^ third
    while end - at >= step:
        crc = _step(crc, data, at)
        at += step
    short = np.uint32(crc)
    while at < end:
        short = tables[0, (short ^ np.uint32(data[at])) & np.uint32(0xFF)] ^ short >> np.uint32(8)
        at += np.uint64(1)
    return short ^ np.uint32(0xFFFFFFFF)


@helper
def is_damaged(data: Any, row: Any, tables: Any) -> Any:
    """Whether the batch of this row of a scan has a wrong CRC. See HAS_INSTRUCTION."""
    return np.int64(crc32c_of(data, row[START] + _COVERS_FROM, row[END], tables)) != row[CRC]


@helper
def damaged_batch(data: Any, rows: Any, tables: Any) -> Any:
    """The number of the first row of batches with a wrong CRC; -1 if there is none. See HAS_INSTRUCTION."""
    for row in range(rows.shape[0]):
        if is_damaged(data, rows[row], tables):
            return np.int64(row)
    return np.int64(-1)
