"""Decodes record sets before they are wanted, without Python: one thread a fetcher, in one compiled loop.

Who consumes objects spends most of its processor on making them, and the other processor has little to do. So while
one record set is handed out, the next ones are decoded there, and their values are laid out as pickle's loader wants
them. Like the loop that receives (receiving), this one never needs Python's lock.

The two threads speak over a board in shared memory, a row for each record set. Whoever may change a row is told by its
STATE:

    FREE, DONE    the consuming thread
    QUEUED        whoever puts something else there first, in one step
    RUNNING       the loop

So what the loop has not begun when it is wanted, the consuming thread takes back, and decodes itself.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from legacy_consumer.wire import crc_instruction, receiving
from legacy_consumer.wire.crc_instruction import HAS_INSTRUCTION, damaged_batch
from legacy_consumer.wire.records import Columns, batch_format, cutting, scanning
from legacy_consumer.wire.records.batch_format import FRAME_COLUMNS, decode_batches
from legacy_consumer.wire.records.checksums import CRC32C_TABLES
from legacy_consumer.wire.records.compiling import loop, version_of, warm_up
from legacy_consumer.wire.records.cutting import pack
from legacy_consumer.wire.records.frames import APPEND_TIME, CREATE_TIME
from legacy_consumer.wire.records.message_format import ERROR, POSITION, STATE_COLUMNS, STOPPED, WRITTEN
from legacy_consumer.wire.records.plain import INT_ROWS, LONG_ROWS, PlainRecords
from legacy_consumer.wire.system_calls import POLLIN, poll, recv, send

logger = logging.getLogger(__name__)

MOST_AHEAD = 2
"""Record sets that may be on the board: the memory of so many is taken before they are wanted."""
_ROWS = MOST_AHEAD + 1
"""One more, for what nobody wants any more while the loop is still at it."""

FREE, QUEUED, RUNNING, DONE = range(4)
STATE, TURN, DATA, SIZE, ROWS, BATCHES, CAPACITY, MEMORY, PACKED, ROOM, BEGIN_AT = range(11)
DONE_RECORDS, NEXT_OFFSET, IS_WRONG = range(11, 14)
_ROW_COLUMNS = 14
END, WAKE, BELL, BOARD_AT, POLLED_AT, SCRATCH_AT = range(6)
_CONTROL_COLUMNS = 6

IS_POSSIBLE = receiving.IS_POSSIBLE and HAS_INSTRUCTION
"""Elsewhere the consuming thread decodes."""

_SCRATCH_BYTES = 64
_WAIT_SLICE_S = 0.1
_END_WAIT_S = 2.0

_numba: Any = numba
_types: Any = types
_intrinsic: Any = intrinsic


@_intrinsic  # type: ignore[untyped-decorator]
def _pointer(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 - numba calls it so
    """An address as carray() wants it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return _types.voidptr(_types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def _exchange(typing_context: Any, address: Any, seen: Any, wanted: Any) -> Any:  # noqa: ARG001
    """Put what is wanted at this address if what was seen is still there, in one step; whether it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.args[0])
        place = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.extract_value(builder.cmpxchg(place, arguments[1], arguments[2], "seq_cst", "seq_cst"), 1)

    return _types.boolean(_types.int64, _types.int64, _types.int64), generate


def _make_loop(version: int) -> Callable[[Any, Any, Any, Any, Any], None]:
    def _prepare(board: Any, control: Any, state: Any, tables: Any, flags: Any) -> None:
        """Take what is queued, in turn, until END is set. flags: of recv() and send(), which must not wait."""
        polled = _numba.carray(_pointer(control[POLLED_AT]), (2,), np.int32)
        while not control[END] and version >= 0:
            row = -1
            for number in range(board.shape[0]):
                if board[number, STATE] == QUEUED and (row < 0 or board[number, TURN] < board[row, TURN]):
                    row = number
            if row < 0:
                polled[0], polled[1] = control[WAKE], POLLIN
                poll(np.uintp(control[POLLED_AT]), np.uintp(1), np.int32(-1))
                recv(np.int32(control[WAKE]), np.uintp(control[SCRATCH_AT]), np.uintp(_SCRATCH_BYTES), flags)
                continue
            place = control[BOARD_AT] + 8 * (row * board.shape[1] + STATE)
            if not _exchange(place, np.int64(QUEUED), np.int64(RUNNING)):
                continue
            batches, capacity = board[row, BATCHES], board[row, CAPACITY]
            data = _numba.carray(_pointer(board[row, DATA]), (board[row, SIZE],), np.uint8)
            rows = _numba.carray(_pointer(board[row, ROWS]), (batches, scanning.ROW_COLUMNS), np.int64)
            packed = _numba.carray(_pointer(board[row, PACKED]), (board[row, ROOM],), np.uint8)
            # divided as plain.divide() does
            at = board[row, MEMORY]
            frames = _numba.carray(_pointer(at), (batches, FRAME_COLUMNS), np.int64)
            at += 8 * batches * FRAME_COLUMNS
            longs = _numba.carray(_pointer(at), (LONG_ROWS, capacity), np.int64)
            at += 8 * LONG_ROWS * capacity
            ints = _numba.carray(_pointer(at), (INT_ROWS, capacity + 1), np.int32)
            at += 8 * ((INT_ROWS * (capacity + 1) + 1) // 2)
            types = _numba.carray(_pointer(at), (capacity,), np.int8)
            for batch in range(batches):
                is_append = rows[batch, scanning.ATTRIBUTES] & scanning.APPEND_TIME_FLAG != 0
                frames[batch, batch_format.START] = rows[batch, scanning.PAYLOAD]
                frames[batch, batch_format.END] = rows[batch, scanning.END]
                frames[batch, batch_format.BASE] = rows[batch, scanning.BASE_OFFSET]
                frames[batch, batch_format.LAST_OFFSET] = rows[batch, scanning.LAST_OFFSET]
                frames[batch, batch_format.TIME_TYPE] = APPEND_TIME if is_append else CREATE_TIME
                frames[batch, batch_format.TIME] = rows[batch, scanning.MAX_TIME if is_append else scanning.BASE_TIME]
                frames[batch, batch_format.COUNT] = rows[batch, scanning.COUNT]
            for column in range(state.shape[0]):
                state[column] = 0
            state[POSITION] = board[row, BEGIN_AT]
            is_wrong = damaged_batch(data, rows, tables) >= 0
            if not is_wrong:
                fields = (ints[0], ints[1], ints[2], ints[3], ints[4], ints[5])
                decode_batches(data, frames, True, longs[0], longs[1], types, *fields, state)
                is_wrong = state[ERROR] != 0 or state[STOPPED] != 0
            count = state[WRITTEN]
            if not is_wrong:
                is_wrong = pack(data, ints[2, :count], ints[3, :count], packed, ints[6, : count + 1]) < 0
            board[row, DONE_RECORDS] = count
            board[row, NEXT_OFFSET] = state[POSITION]
            board[row, IS_WRONG] = is_wrong
            _exchange(place, np.int64(RUNNING), np.int64(DONE))
            send(np.int32(control[BELL]), np.uintp(control[SCRATCH_AT]), np.uintp(1), flags)

    return _prepare


def _take_back(place: Any) -> Any:
    """Take the row whose state is there, unless the loop has begun with it."""
    return _exchange(place, np.int64(QUEUED), np.int64(FREE))


if IS_POSSIBLE:
    _prepare = loop("void(int64[:, ::1], int64[::1], int64[::1], uint32[:, ::1], int32)")(
        _make_loop(version_of(batch_format, crc_instruction, cutting))
    )
    _take_back = loop("boolean(int64)")(_take_back)


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]  # as array.ctypes.data, in a third of the time
    return address


class Preparer:
    """The thread and the board of one fetcher. For the consuming thread."""

    def __init__(self) -> None:
        self._board = np.zeros((_ROWS, _ROW_COLUMNS), np.int64)
        self._control = np.zeros(_CONTROL_COLUMNS, np.int64)
        self._polled = np.zeros(2, np.int32)
        self._scratch = np.zeros(_SCRATCH_BYTES, np.uint8)
        self._state = np.zeros(STATE_COLUMNS, np.int64)
        self._in_use: dict[int, PlainRecords] = {}
        self._unwanted: set[int] = set()
        self._turn = 0
        self._sockets: tuple[socket.socket, ...] = ()
        self._wakes: socket.socket | None = None
        self._bell: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more can be begun."""
        self._sweep()
        return len(self._in_use) < _ROWS and len(self._in_use) - len(self._unwanted) < MOST_AHEAD

    def begin(self, records: PlainRecords) -> int | None:
        """Have these decoded: their row. None if that is not possible."""
        if not self.has_room or not self._is_running():
            return None
        row = next(row for row in range(_ROWS) if row not in self._in_use)
        self._in_use[row] = records
        self._turn += 1
        self._board[row, TURN : BEGIN_AT + 1] = (
            self._turn,
            _address(records.data),
            len(records.data),
            _address(records.rows),
            len(records.rows),
            records.capacity,
            _address(records.memory),
            _address(records.packed),
            len(records.packed),
            records.position,
        )
        self._board[row, STATE] = QUEUED
        self._wake()
        return row

    def end(self, row: int) -> Columns | None:
        """What was decoded, as soon as that is done; None if it was not begun, or something is wrong with it."""
        if not self._has_let_go(row):
            return None
        records = self._in_use.pop(row)
        state, count, next_offset, is_wrong = self._board[row, [STATE, DONE_RECORDS, NEXT_OFFSET, IS_WRONG]].tolist()
        self._board[row, STATE] = FREE
        return records.columns(count, next_offset) if state == DONE and not is_wrong else None

    def forget(self, row: int) -> None:
        """Nobody wants this any more. Waits for nothing."""
        if _take_back(self._place(row)):
            del self._in_use[row]
        else:
            self._unwanted.add(row)

    def close(self) -> None:
        """End the thread; twice is harmless. Of no use afterwards."""
        self._control[END] = 1
        thread = self._thread
        if thread is None:
            return
        self._wake()
        thread.join(_END_WAIT_S)
        if thread.is_alive():
            # it may still ring: a descriptor that is closed now may be somebody else's socket then
            logger.error("the loop that decodes ahead does not come to an end, its sockets stay open")
            return
        self._thread = None
        for end in self._sockets:
            end.close()

    def _has_let_go(self, row: int) -> bool:
        """Wait for the loop, if it has begun; False if that does not come to an end: then the row stays as it is."""
        if _take_back(self._place(row)):
            return True
        deadline = time.monotonic() + _END_WAIT_S
        assert self._bell is not None
        while self._board[row, STATE] == RUNNING:
            if time.monotonic() >= deadline:
                logger.error("the loop that decodes ahead does not come to an end")
                self._unwanted.add(row)
                return False
            with contextlib.suppress(TimeoutError):
                self._bell.recv(4096)
        return True

    def _place(self, row: int) -> int:
        return int(self._control[BOARD_AT]) + 8 * (row * _ROW_COLUMNS + STATE)

    def _sweep(self) -> None:
        for row in [row for row in self._unwanted if self._board[row, STATE] == DONE]:
            self._unwanted.discard(row)
            del self._in_use[row]
            self._board[row, STATE] = FREE

    def _wake(self) -> None:
        assert self._wakes is not None
        with contextlib.suppress(BlockingIOError):  # full, so it wakes already
            self._wakes.send(b"\0")

    def _is_running(self) -> bool:
        if self._thread is not None:
            return self._thread.is_alive()
        if not IS_POSSIBLE or self._control[END]:
            return False
        warm_up()
        woken, self._wakes = socket.socketpair()
        self._bell, rings = socket.socketpair()
        self._sockets = (woken, self._wakes, self._bell, rings)
        self._wakes.setblocking(False)
        self._bell.settimeout(_WAIT_SLICE_S)
        control = self._control
        control[WAKE], control[BELL] = woken.fileno(), rings.fileno()
        control[BOARD_AT], control[POLLED_AT] = self._board.ctypes.data, self._polled.ctypes.data
        control[SCRATCH_AT] = self._scratch.ctypes.data
        flags = np.int32(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self._thread = threading.Thread(target=self._run, args=(flags,), name="prepare-records", daemon=True)
        self._thread.start()
        return True

    def _run(self, flags: np.int32) -> None:
        # a method, so that all memory that the loop writes to lives as long as the loop
        _prepare(self._board, self._control, self._state, CRC32C_TABLES, flags)
