"""The HTTP server of members and the exporter, against clients that mean no good."""

import contextlib
import http.client
import socket
import urllib.request

import pytest

from legacy_consumer.operations.metrics import http_server
from legacy_consumer.operations.metrics.health import Judgement
from legacy_consumer.operations.metrics.http_server import MAX_CONNECTIONS, MetricsServer, Page, Pages
from tests.support.waiting import eventually

WELL = Judgement(True, "well")


@pytest.fixture
def server():
    pages = Pages(lambda _: Page((b"x 1\n",)), lambda: WELL, lambda: WELL)
    with MetricsServer(pages, port=0) as server:
        yield server


def test_what_a_stranger_wrote_into_a_reason_moves_no_cursor_and_forges_no_line():
    def reason():
        return Judgement(False, "group a\x1b[2Jb\u202ec\u2028d\ne: \ud800")

    def broken():
        raise ValueError(reason().text)

    made = "group a\\x1b[2Jb\\u202ec\\u2028d\\ne: \\ud800\n"
    with MetricsServer(Pages(lambda _: Page(()), broken, reason), port=0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", "/readyz")
            assert connection.getresponse().read().decode() == made
            connection.request("GET", "/healthz")
            assert connection.getresponse().read().decode() == f"ValueError: {made}"


def healthz(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=60) as answer:
        return answer.read()


def slow_client(server):
    client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    return client


def test_slow_clients_do_not_keep_a_probe_waiting_and_are_bounded(server):
    with contextlib.ExitStack() as held:
        slow = [held.enter_context(slow_client(server)) for _ in range(MAX_CONNECTIONS + 50)]
        assert healthz(server) == b"well\n"
        assert server.connections <= MAX_CONNECTIONS
        assert slow[0].recv(1) == b"", "the oldest was closed for a new one"
    eventually(lambda: server.connections == 0)


def test_a_request_that_comes_byte_by_byte_has_one_deadline(server, monkeypatch):
    monkeypatch.setattr(http_server, "DEADLINE_S", 0.2)
    with slow_client(server) as client:

        def dripped():
            try:
                client.sendall(b"a")
            except OSError:
                return True
            return server.connections == 0

        assert eventually(dripped)


def test_a_client_that_asks_again_keeps_its_connection(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        for _ in range(3):
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"well\n"
            assert server.connections == 1
