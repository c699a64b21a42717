"""The proxy of chaos runs delays bytes, and keeps their order."""

import contextlib
import socket
import socketserver
import threading
import time

import pytest

from tests.support.tcp_proxy import TcpProxy


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            self.wfile.write(line)


@pytest.fixture
def proxy():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        proxy = TcpProxy(*server.server_address)
        proxy.start()
        yield proxy
        proxy.close()
        server.shutdown()
        serving.join()


def test_slow_connection_takes_its_time_both_ways(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), 10) as client, client.makefile("rwb", 0) as lines:
        proxy.slow(0.15)
        began = time.monotonic()
        lines.write(b"there and back\n")
        assert lines.readline() == b"there and back\n"
        assert time.monotonic() - began >= 0.3


def test_bytes_that_were_held_back_arrive_in_order(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), 10) as client, client.makefile("rwb", 0) as lines:
        proxy.slow(60)
        lines.write(b"first\n")
        proxy.slow(30)
        lines.write(b"second\n")
        proxy.restore()
        lines.write(b"third\n")
        assert [lines.readline() for _ in range(3)] == [b"first\n", b"second\n", b"third\n"]


def test_cut_ends_a_slow_connection_and_what_is_kept_back_is_lost(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), 10) as client, client.makefile("rwb", 0) as lines:
        proxy.slow(60)
        lines.write(b"lost\n")
        proxy.cut()
        with contextlib.suppress(ConnectionResetError):  # when the proxy had not read the line yet
            assert lines.readline() == b""
    proxy.restore()
    with socket.create_connection(("127.0.0.1", proxy.port), 10) as client, client.makefile("rwb", 0) as lines:
        lines.write(b"anew\n")
        assert lines.readline() == b"anew\n"
