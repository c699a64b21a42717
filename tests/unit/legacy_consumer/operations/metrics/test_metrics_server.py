"""The HTTP server of members and the exporter: hostile requests, slow clients, and its close."""

import contextlib
import http.client
import re
import socket
import threading
import urllib.request
from types import SimpleNamespace

import pytest

from legacy_consumer.errors import MetricsServerError
from legacy_consumer.operations.metrics import http_server
from legacy_consumer.operations.metrics.health import Judgement
from legacy_consumer.operations.metrics.http_server import MAX_CONNECTIONS, MetricsServer, Page, Pages
from tests.support.interrupting import interrupt_join
from tests.support.waiting import eventually

WELL = Judgement(True, "well")


@pytest.fixture
def server():
    pages = Pages(lambda _: Page((b"x 1\n",)), lambda: WELL, lambda: WELL)
    with MetricsServer(pages, port=0) as server:
        yield server


def test_a_strangers_text_in_a_reason_moves_no_cursor_and_forges_no_line():
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


ODD_REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: \x1b[2J\r\n\r\n",
    b"GET /healthz HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    b"GET http://x/metrics HTTP/1.1\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde",
    b"TRACE / HTTP/1.1\r\nX: <script>\r\n\r\n",
    b"<script>\x1b[2J / HTTP/1.1\r\n\r\n",
    b"\0" * 1000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", ODD_REQUESTS, ids=lambda data: repr(data[:25]))
def test_an_odd_request_is_refused_in_harmless_words_and_the_next_client_is_answered(server, request_bytes):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(request_bytes)
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    assert re.search(rb"(?m)^(HTTP/1.1 |\s*<p>Error code: )(400|404|414|431|501|505)", answer)
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|<script>|Python", answer.partition(b"\r\n")[2])
    assert healthz(server) == b"well\n"


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


def test_a_scraper_that_asks_once_a_minute_keeps_its_connection_and_gets_whole_answers(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(http_server, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def slow(_):
        now[0] += 60.0
        server._server.service_actions()
        return Page((b"x 1\n",))

    with MetricsServer(Pages(slow, lambda: WELL, lambda: WELL), port=0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with contextlib.closing(connection):
            for _ in range(3):
                connection.request("GET", "/metrics")
                assert connection.getresponse().read() == b"x 1\n"
                assert eventually(lambda: [*server._server.connections.values()] == [now[0] + http_server.DEADLINE_S])
                now[0] += 60.0
                server._server.service_actions()
            assert server.connections == 1


@pytest.mark.parametrize("host", ["..", "x" * 64, "a\0b"], ids=["dots", "long", "zero"])
def test_a_host_that_can_be_no_name_is_an_error_that_names_it(host):
    with pytest.raises(MetricsServerError) as raised:
        MetricsServer(Pages(lambda _: Page(()), lambda: WELL, lambda: WELL), port=0, host=host).start()
    assert raised.value.host == host


def test_a_close_that_was_interrupted_is_finished_by_the_next_one(server):
    interrupt_join(server._thread)
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=60)


def test_a_server_that_was_closed_says_that_it_does_not_start_again(server):
    assert server.start() is server
    server.close()
    with pytest.raises(MetricsServerError, match="this server was closed: make another one"):
        server.start()


def test_a_server_that_is_closed_answers_no_more_on_connections_that_are_open(server):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as scraper:
        scraper.request("GET", "/metrics")
        assert scraper.getresponse().read() == b"x 1\n"
        server.close()
        # the scraper must then open a new connection, which reaches the next server at the port
        successor = Pages(lambda _: Page((b"x 2\n",)), lambda: WELL, lambda: WELL)
        with MetricsServer(successor, port=server.port):
            assert scraper.sock.recv(1) == b""
            assert eventually(lambda: server.connections == 0)
            scraper.close()
            scraper.request("GET", "/metrics")
            assert scraper.getresponse().read() == b"x 2\n"


def test_an_answer_that_is_under_way_is_finished_when_the_server_is_closed():
    is_asked, may_answer = threading.Event(), threading.Event()

    def slow(_):
        is_asked.set()
        may_answer.wait(60)
        return Page((b"x 1\n",))

    with MetricsServer(Pages(slow, lambda: WELL, lambda: WELL), port=0) as server:
        scraper = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with contextlib.closing(scraper):
            scraper.request("GET", "/metrics")
            assert is_asked.wait(60)
            server.close()
            may_answer.set()
            assert scraper.getresponse().read() == b"x 1\n"
            assert scraper.sock.recv(1) == b""
