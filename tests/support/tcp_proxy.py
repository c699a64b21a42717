"""A TCP proxy on the loopback address that can cut, pause, slow down and restore connections."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque


def _opcode(data: bytes) -> int:
    """Return the kind of the ZooKeeper request at the beginning of these bytes: it follows the length and the xid."""
    return int.from_bytes(data[8:12], "big")


class TcpProxy:
    """Passes bytes between clients and one server, from start() to close().

    cut(): close all connections and refuse new ones. pause(): keep connections, pass no bytes, accept no new ones.
    slow(): delay all bytes, in both directions. restore(): end a cut, pause or delay, also for delayed bytes.
    lead_to(): connect new clients to another server. garble_next(): falsify the next bytes that the server sends.
    hang_up_at(): close the connection of a ZooKeeper client that sends a request of this kind. swallow(): drop
    requests of this kind.
    """

    def __init__(self, host: str, port: int, bind: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._listener = socket.create_server((bind, 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._to_garble = threading.Event()
        self._opcode: int | None = None
        self._swallowed: int | None = None
        self.hung_up = self.swallowed = 0
        self._servers: set[socket.socket] = set()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._delay_s = 0.0
        self._kept_back: deque[tuple[float, socket.socket, bytes]] = deque()
        self._state = "open"
        self._applied = threading.Condition()
        self._applied_state = "open"
        self._thread = threading.Thread(target=self._run, name="tcp-proxy", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._set("closed")
        self._thread.join()
        for sock in (self._listener, self._wake_in, self._wake_out):
            sock.close()

    def cut(self) -> None:
        self._set("cut")

    def lead_to(self, host: str, port: int) -> None:
        """Connect to another server, from the next connection on."""
        self._target = (host, port)

    def pause(self) -> None:
        self._set("paused")

    def slow(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._set("open")

    def restore(self) -> None:
        self._delay_s = 0.0
        self._set("open")

    def hang_up_at(self, opcode: int) -> None:
        self._opcode = opcode

    def swallow(self, opcode: int) -> None:
        self._swallowed = opcode

    def garble_next(self) -> None:
        self._to_garble.set()

    def _set(self, state: str) -> None:
        self._state = state
        self._wake_out.send(b"\0")
        with self._applied:
            self._applied.wait_for(lambda: self._applied_state == state, 10)

    def _run(self) -> None:
        while True:
            state = self._state
            if state in ("cut", "closed"):
                self._drop_all()
            with self._applied:
                self._applied_state = state
                self._applied.notify_all()
            if state == "closed":
                return
            with selectors.DefaultSelector() as selector:
                selector.register(self._wake_in, selectors.EVENT_READ)
                if state != "paused":
                    selector.register(self._listener, selectors.EVENT_READ)
                    for sock in self._peers:
                        selector.register(sock, selectors.EVENT_READ)
                ready = [key.fileobj for key, _ in selector.select(self._until_due() if state != "paused" else None)]
            if state != "paused":
                self._hand_on_what_is_due()
            if self._wake_in in ready:
                with contextlib.suppress(BlockingIOError):
                    self._wake_in.recv(1)
                continue
            for sock in ready:
                if sock is self._listener:
                    self._accept(state)
                elif sock in self._peers:
                    self._pass_on(sock)

    def _accept(self, state: str) -> None:
        client, _ = self._listener.accept()
        if state == "cut":
            client.close()
            return
        try:
            server = socket.create_connection(self._target, 5)
        except OSError:
            client.close()
            return
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers[client] = server
        self._peers[server] = client
        self._servers.add(server)

    def _pass_on(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(1 << 16)
            if sock not in self._servers and self._opcode == _opcode(data):
                self.hung_up += 1
            elif sock not in self._servers and self._swallowed == _opcode(data):
                self.swallowed += 1
                return
            elif data:
                if sock in self._servers and self._to_garble.is_set():
                    self._to_garble.clear()
                    data = data[:4] + bytes(255 - byte for byte in data[4:8]) + data[8:]  # bytes after the length
                if self._delay_s or self._kept_back:
                    self._kept_back.append((time.monotonic() + self._delay_s, sock, data))
                else:
                    self._peers[sock].sendall(data)
                return
        except OSError:
            pass
        self._part(sock)

    def _until_due(self) -> float | None:
        return max(0.0, self._kept_back[0][0] - time.monotonic()) if self._kept_back else None

    def _hand_on_what_is_due(self) -> None:
        """Pass on delayed bytes in the order in which they came, also if the delay has changed."""
        while self._kept_back and (not self._delay_s or self._kept_back[0][0] <= time.monotonic()):
            _, sock, data = self._kept_back.popleft()
            if sock not in self._peers:
                continue
            try:
                self._peers[sock].sendall(data)
            except OSError:
                self._part(sock)

    def _part(self, sock: socket.socket) -> None:
        self._servers -= {sock, self._peers[sock]}
        peer = self._peers.pop(sock)
        self._peers.pop(peer, None)
        sock.close()
        peer.close()

    def _drop_all(self) -> None:
        for sock in self._peers:
            sock.close()
        self._peers.clear()
        self._servers.clear()
        self._kept_back.clear()
