"""Sending and receiving of what is there, without letting go of the interpreter lock.

Python lets go of its lock around each call of a socket and then has to wait for it again: of use where a call may take
long. One that never waits is over in the time in which another thread would just wake up. With many members in a
process that turn was most of what a request cost them.
"""

from __future__ import annotations

import ctypes
import socket
import ssl
import sys

IS_POSSIBLE = sys.platform == "linux"
"""Elsewhere a socket's flags, or the way to the C library, are others."""

_LARGEST_BYTES = 1 << 14
"""Copying more takes longer than waking up."""

if IS_POSSIBLE:
    # PyDLL is the one that keeps the lock
    _library = ctypes.PyDLL(None)
    _flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
    _send = _library.send
    _send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
    _send.restype = ctypes.c_ssize_t
    _recv = _library.recv
    _recv.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    _recv.restype = ctypes.c_ssize_t


class ShortCalls:
    """The calls of one connection: one thread at a time sends, one receives. What fails is for the socket to tell."""

    def __init__(self) -> None:
        self._room = bytearray(_LARGEST_BYTES)
        self._address = ctypes.addressof((ctypes.c_char * _LARGEST_BYTES).from_buffer(self._room))
        self._view = memoryview(self._room)

    def send(self, sock: socket.socket, message: bytes) -> int:
        """How much of it was sent; 0 also if this cannot be, or failed."""
        if not IS_POSSIBLE or len(message) > _LARGEST_BYTES or isinstance(sock, ssl.SSLSocket):
            return 0
        return max(0, int(_send(sock.fileno(), message, len(message), _flags)))

    def receive(self, sock: socket.socket, into: bytearray) -> bool:
        """Add what has come; False if nothing has, if this cannot be, or failed."""
        if not IS_POSSIBLE or isinstance(sock, ssl.SSLSocket):
            return False
        count: int = _recv(sock.fileno(), self._address, _LARGEST_BYTES, _flags)
        if count <= 0:
            return False
        into += self._view[:count]
        return True
