"""Receives responses on another processor, without Python: one thread a fetcher, in one compiled loop.

The loop polls the sockets of brokers that were asked, reads what comes into buffers that it was given, and rings the
fetcher's bell when one is whole. It never needs Python's lock, so it takes no time from the thread that consumes, and
does not wait for it. What is to be done about a response is decided by the consuming thread alone, when it polls. So is
what goes wrong: the loop lets go of the socket, and plain receiving meets the same trouble and has words for it.

They speak over a board in shared memory, a row for each connection. Whoever may change a row is told by its STATE:

    FREE, DONE, STOPPED    the consuming thread
    ARMED                  the loop, but for CANCEL, by which the consuming thread asks for the row

A response is a head, which begins with the size of what follows that, and a body. If the buffer has no room for the
body, it is left in the socket (STOPPED, and the head is there).
"""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from legacy_consumer.wire.protocol.framing import HEAD_BYTES, SIZE_BYTES
from legacy_consumer.wire.records.compiling import loop, warm_up
from legacy_consumer.wire.system_calls import POLLIN, poll, recv, send

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 64
"""Those of more brokers are received from by the consuming thread."""

FREE, ARMED, DONE, STOPPED = range(4)
STATE, CANCEL, SOCKET, HEAD_FILLED, BODY, ROOM, SIZE, FILLED = range(8)
_ROW_COLUMNS = 8
NEWS, END, BELL, WAKE, LET_GO, POLLED_AT, HEADS_AT = range(7)
_CONTROL_COLUMNS = 7

_AT_ONCE = 4 * 1024 * 1024
_BODY_STARTS_AT = HEAD_BYTES - SIZE_BYTES
"""So much of what the size counts is head."""
_END_WAIT_S = 2.0
_RINGS = 4096

_config: Any = numba.config
IS_POSSIBLE = sys.platform == "linux" and not _config.DISABLE_JIT
"""Elsewhere the consuming thread receives."""

_types: Any = types
_intrinsic: Any = intrinsic


@_intrinsic  # type: ignore[untyped-decorator]
def _fence(typing_context: Any) -> Any:  # noqa: ARG001 - numba calls it so
    """What is written before is seen before what is written after, by other processors too."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return _types.void(), generate


def _receive(board: Any, control: Any, heads: Any, polled: Any, events: Any, rows: Any, flags: Any) -> None:
    """Receive until END is set. polled and events are one memory, that of poll(), as int32 and as int16.

    heads: for each row, and behind them room for what wakes. flags: of recv() and send(), which must not wait.
    """
    scratch = control[HEADS_AT] + board.shape[0] * HEAD_BYTES
    while True:
        polled[0, 0] = control[WAKE]
        events[0, 2] = POLLIN
        events[0, 3] = 0
        count = 1
        for row in range(board.shape[0]):
            if board[row, STATE] != ARMED:
                continue
            _fence()
            if board[row, CANCEL]:
                board[row, STATE] = FREE
                _fence()
                send(np.int32(control[LET_GO]), np.uintp(scratch), np.uintp(1), flags)
                continue
            polled[count, 0] = board[row, SOCKET]
            events[count, 2] = POLLIN
            events[count, 3] = 0
            rows[count] = row
            count += 1
        if control[END]:
            return
        poll(np.uintp(control[POLLED_AT]), np.uintp(count), np.int32(-1))
        _fence()
        if events[0, 3]:
            recv(np.int32(control[WAKE]), np.uintp(scratch), np.uintp(HEAD_BYTES), flags)
        for number in range(1, count):
            if not events[number, 3]:
                continue
            row = rows[number]
            has_come = False
            state = np.int64(ARMED)
            while state == ARMED and not board[row, CANCEL]:
                if board[row, HEAD_FILLED] < HEAD_BYTES:
                    at = control[HEADS_AT] + row * HEAD_BYTES + board[row, HEAD_FILLED]
                    left = HEAD_BYTES - board[row, HEAD_FILLED]
                else:
                    at = board[row, BODY] + board[row, FILLED]
                    left = min(board[row, SIZE] - board[row, FILLED], np.int64(_AT_ONCE))
                got = recv(np.int32(board[row, SOCKET]), np.uintp(at), np.uintp(left), flags)
                if got <= 0:
                    # after something has come there may be no more for now; poll() says when it is otherwise
                    if got == 0 or not has_come:
                        state = np.int64(STOPPED)
                    break
                has_come = True
                if board[row, HEAD_FILLED] < HEAD_BYTES:
                    board[row, HEAD_FILLED] += got
                    if board[row, HEAD_FILLED] < HEAD_BYTES:
                        continue
                    size = np.int64(0)
                    for i in range(SIZE_BYTES):
                        size = (size << 8) | np.int64(heads[row, i])
                    size -= _BODY_STARTS_AT
                    board[row, SIZE] = size
                    if size <= 0 or size > board[row, ROOM]:
                        state = np.int64(STOPPED)
                else:
                    board[row, FILLED] += got
                    if board[row, FILLED] == board[row, SIZE]:
                        state = np.int64(DONE)
            if state != ARMED:
                _fence()
                board[row, STATE] = state
                control[NEWS] += 1
                send(np.int32(control[BELL]), np.uintp(scratch), np.uintp(1), flags)
                _fence()
                if board[row, CANCEL]:
                    # it is waited for, and was not seen before
                    send(np.int32(control[LET_GO]), np.uintp(scratch), np.uintp(1), flags)


if IS_POSSIBLE:
    _receive = loop("void(int64[:, ::1], int64[::1], uint8[:, ::1], int32[:, ::1], int16[:, ::1], int64[::1], int32)")(
        _receive
    )


class Reception:
    """One response that is being received. For the consuming thread."""

    __slots__ = ("_body", "_receiver", "_row")

    def __init__(self, receiver: Receiver, row: int, body: memoryview) -> None:
        self._receiver = receiver
        self._row = row
        self._body = body

    @property
    def room(self) -> memoryview:
        """The buffer that it was given."""
        return self._body

    @property
    def is_under_way(self) -> bool:
        """Whether the loop is still at it."""
        return bool(self._receiver.board[self._row, STATE] == ARMED)

    @property
    def received(self) -> int:
        """How many bytes have come so far."""
        row = self._receiver.board[self._row]
        return int(row[HEAD_FILLED] + row[FILLED])

    def end(self) -> tuple[bytes, int] | None:
        """Take back socket and buffer: the head, as far as it has come, and how much of the body has.

        None if the loop does not let go of them, which it always does: leave both alone then, for ever.
        """
        return self._receiver.end(self._row)


class Receiver:
    """The thread and the board of one fetcher. bell: a socket to ring when something is there; it stays open."""

    def __init__(self, bell: socket.socket) -> None:
        self.board = np.zeros((MOST_CONNECTIONS, _ROW_COLUMNS), np.int64)
        self._heads = np.zeros((MOST_CONNECTIONS + 1, HEAD_BYTES), np.uint8)
        self._polled = np.zeros((MOST_CONNECTIONS + 1, 2), np.int32)
        self._rows = np.zeros(MOST_CONNECTIONS + 1, np.int64)
        self._bell = bell
        self._control = np.zeros(_CONTROL_COLUMNS, np.int64)
        self._news = self._control.data
        self._in_use: dict[int, memoryview] = {}
        self._wake_in: socket.socket | None = None
        self._wake_out: socket.socket | None = None
        self._let_go: socket.socket | None = None
        self._lets_go: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def news(self) -> int:
        """Grows with each response that is whole, or stopped."""
        count: int = self._news[NEWS]
        return count

    @property
    def under_way_bytes(self) -> int:
        """The size of all buffers that are being received into."""
        return sum(map(len, self._in_use.values()))

    def begin(self, sock: socket.socket, body: memoryview, head: bytes = b"") -> Reception | None:
        """Receive from this socket into body, whatever it has room for, and leave both alone until it has ended.

        head: what of it is known already. None if that is not possible.
        """
        row = next((row for row in range(MOST_CONNECTIONS) if row not in self._in_use), None)
        if row is None or not IS_POSSIBLE or not self._is_running():
            return None
        self._in_use[row] = body
        self._heads[row, : len(head)] = np.frombuffer(head, np.uint8)
        size = int.from_bytes(head[:SIZE_BYTES], "big", signed=True) - _BODY_STARTS_AT if head else 0
        at = np.frombuffer(body, np.uint8).ctypes.data
        self.board[row] = (FREE, 0, sock.fileno(), len(head), at, len(body), size, 0)
        self.board[row, STATE] = ARMED
        self._wake()
        return Reception(self, row, body)

    def end(self, row: int) -> tuple[bytes, int] | None:
        """See Reception.end."""
        board = self.board
        if board[row, STATE] == ARMED and self._thread is not None:
            board[row, CANCEL] = 1
            self._wake()
            assert self._let_go is not None
            while board[row, STATE] == ARMED and self._thread.is_alive():
                try:
                    self._let_go.recv(_RINGS)  # older ones, of what was seen without them, too
                except TimeoutError:
                    logger.exception("the receiving loop does not let go of a socket: it is left open")
                    return None
        found = self._heads[row, : board[row, HEAD_FILLED]].tobytes(), int(board[row, FILLED])
        board[row, STATE] = FREE
        del self._in_use[row]
        return found

    def close(self) -> bool:
        """End the thread; twice is harmless. Of no use afterwards. Whether nobody will ring the bell any more."""
        thread = self._thread
        if thread is None:
            return True
        self._control[END] = 1
        self._wake()
        thread.join(_END_WAIT_S)
        if thread.is_alive():
            # it may still read and ring: a descriptor that is closed now may be somebody else's socket then
            logger.error("the receiving loop does not come to an end, its sockets stay open")
            return False
        self._thread = None
        for end in (self._wake_in, self._wake_out, self._let_go, self._lets_go):
            assert end is not None
            end.close()
        return True

    def _wake(self) -> None:
        assert self._wake_out is not None
        with contextlib.suppress(BlockingIOError):  # full, so it wakes already
            self._wake_out.send(b"\0")

    def _is_running(self) -> bool:
        if self._thread is not None:
            return self._thread.is_alive()
        if self._control[END]:
            return False
        warm_up()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._let_go, self._lets_go = socket.socketpair()
        self._let_go.settimeout(_END_WAIT_S)
        control = self._control
        control[BELL], control[WAKE] = self._bell.fileno(), self._wake_in.fileno()
        control[LET_GO] = self._lets_go.fileno()
        control[POLLED_AT], control[HEADS_AT] = self._polled.ctypes.data, self._heads.ctypes.data
        flags = np.int32(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self._thread = threading.Thread(target=self._run, args=(flags,), name="receive-responses", daemon=True)
        self._thread.start()
        return True

    def _run(self, flags: np.int32) -> None:
        # a method, so that all memory and all sockets that the loop uses live as long as the loop
        revents = self._polled.view(np.int16)
        _receive(self.board, self._control, self._heads, self._polled, revents, self._rows, flags)
