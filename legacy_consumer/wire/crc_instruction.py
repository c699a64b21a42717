"""CRC-32C by the processor's own instruction, for loops that cannot call the crc32c library.

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


@helper
def damaged_batch(data: Any, rows: Any, tables: Any) -> Any:
    """The number of the first row of batches with a wrong CRC; -1 if there is none. See HAS_INSTRUCTION."""
    for row in range(rows.shape[0]):
        at, end = np.uint64(rows[row, START] + _COVERS_FROM), np.uint64(rows[row, END])
        whole = at + ((end - at) & ~np.uint64(7))
        long = np.uint64(0xFFFFFFFF)
        while at < whole:
            long = _step(long, data, at)
            at += np.uint64(8)
        crc = np.uint32(long)
        while at < end:
            crc = tables[0, (crc ^ np.uint32(data[at])) & np.uint32(0xFF)] ^ crc >> np.uint32(8)
            at += np.uint64(1)
        if np.int64(crc ^ np.uint32(0xFFFFFFFF)) != rows[row, CRC]:
            return np.int64(row)
    return np.int64(-1)
