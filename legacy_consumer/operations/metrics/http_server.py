"""A small HTTP server for scrapes and health checks: /metrics, /healthz, /readyz, and nothing else.

Slow clients must not keep a liveness probe waiting. So the number of connections is bounded, and a new connection
closes the oldest. A whole request has one deadline, and so has its answer. (waitress and cheroot have a deadline only
for silence, and do not accept connections at their bound.)
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from legacy_consumer.errors import MetricsServerError
from legacy_consumer.operations.metrics.health import Judgement
from zk_layout.loggers import safe_logger
from zk_layout.plain_text import printable
from zk_layout.running_threads import is_running

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

logger = safe_logger(__name__)

TEXT = "text/plain; version=0.0.4; charset=utf-8"
_PLAIN = "text/plain; charset=utf-8"
MAX_CONNECTIONS = 128
DEADLINE_S = 75.0
"""Seconds from the opening of a connection until its request has arrived, then until that is answered, and so on.

More than a minute, so that a connection does not end just when a scraper with a usual interval asks again.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a scrape, in parts, so that a big part is not copied. encoding: gzip, or empty."""

    parts: Sequence[bytes]
    encoding: str = ""
    content_type: str = TEXT


@dataclass(frozen=True, slots=True)
class Pages:
    """The functions that answer the paths; several threads call them. metrics gets whether the client accepts gzip."""

    metrics: Callable[[bool], Page]
    alive: Callable[[], Judgement]
    ready: Callable[[], Judgement]


class MetricsServer:
    """Serves from start(), which binds, until close(); it cannot start again. port: 0 = any free one, see port.

    Raises (start): MetricsServerError if the address cannot be used, or after close().
    """

    def __init__(self, pages: Pages, *, port: int, host: str = "127.0.0.1") -> None:
        self._pages = pages
        self._host = host
        self._wanted_port = port
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def host(self) -> str:
        """The address at which the server listens."""
        return self._host

    @property
    def port(self) -> int:
        """The port at which the server listens; before start() the wanted one."""
        return self._server.server_address[1] if self._server is not None else self._wanted_port

    @property
    def url(self) -> str:
        """The URL of /metrics."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/metrics"

    def start(self) -> Self:
        """Bind and serve, on the server's own threads. Twice is harmless."""
        if self._server is not None and self._server.fileno() < 0:
            raise MetricsServerError(self._host, self.port, "this server was closed: make another one")
        if self._server is not None:
            return self
        try:
            server = _make_server(self._host, self._wanted_port, _handler(self._pages))
        except (OSError, OverflowError, ValueError) as error:  # ValueError: a host that can be no name
            in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            reason = "something listens there: choose another port, 0 for any" if in_use else str(error)
            raise MetricsServerError(self._host, self._wanted_port, reason) from error
        self._server = server
        # serve_forever checks every 0.05 s whether to end, and shutdown() waits for that check
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="metrics-server", daemon=True)
        self._thread.start()
        return self

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._server.connections) if self._server is not None else 0

    def close(self) -> None:
        """Stop listening, and end each open connection after its present answer; twice is harmless."""
        server, thread = self._server, self._thread
        if server is None:
            return
        if thread is not None and is_running(thread):
            server.shutdown()
            thread.join()
        server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], host: str) -> None:
        self.connections: dict[socket.socket, float] = {}
        """{open connection: its deadline}, the oldest first."""
        self._lock = threading.Lock()
        self._host = host
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer's own method would look up the host's name, which may take seconds and is not used
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self._host, self.server_address[1]

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        with self._lock:
            while len(self.connections) >= MAX_CONNECTIONS:
                _hang_up(self._oldest())
            self.connections[request] = time.monotonic() + DEADLINE_S
        super().process_request(request, client_address)

    def renew(self, request: socket.socket) -> None:
        """Start a new deadline: a request has arrived, or its answer was sent."""
        with self._lock:
            if self.connections.pop(request, None) is not None:
                self.connections[request] = time.monotonic() + DEADLINE_S

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        with self._lock:
            self.connections.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        # a scraper keeps its connection, and would never reach the next server at this port
        with self._lock:
            for connection in self.connections:
                _hang_up(connection, socket.SHUT_RD)

    def service_actions(self) -> None:
        # serve_forever calls this between two checks for a new connection
        now = time.monotonic()
        with self._lock:
            while self.connections and next(iter(self.connections.values())) < now:
                _hang_up(self._oldest())

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        # a scraper that closes its connection in the middle is no error of this server
        logger.debug("a request from %s failed: %s", client_address, sys.exc_info()[1])

    def _oldest(self) -> socket.socket:
        oldest = next(iter(self.connections))
        del self.connections[oldest]
        return oldest


def _hang_up(connection: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """Shut the connection down, which wakes the thread that reads from it; that thread closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(how)


def _make_server(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    found, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]

    class Server(_Server):
        address_family = found

    return Server(address[:2], handler, host)  # type: ignore[arg-type]  # of AF_INET6 too


def _handler(pages: Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "legacy-consumer"
        sys_version = ""  # hide the Python version from clients
        timeout = DEADLINE_S
        server: _Server

        def do_GET(self) -> None:
            self.server.renew(self.connection)
            path = self.path.partition("?")[0]
            try:
                match path:
                    case "/metrics":
                        gzip = "gzip" in self.headers.get("Accept-Encoding", "")
                        self._answer(HTTPStatus.OK, pages.metrics(gzip))
                    case "/healthz":
                        self._judged(pages.alive())
                    case "/readyz":
                        self._judged(pages.ready())
                    case _:
                        self._say(HTTPStatus.NOT_FOUND, "there are /metrics, /healthz and /readyz")
            except (ConnectionError, TimeoutError):  # the client is gone, or reads nothing
                self.close_connection = True
            except Exception as error:
                logger.exception("%s cannot be answered", path)
                self.close_connection = True
                self._say(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")

        do_HEAD = do_GET  # noqa: N815

        def _judged(self, judgement: Judgement) -> None:
            self._say(HTTPStatus.OK if judgement.holds else HTTPStatus.SERVICE_UNAVAILABLE, judgement.text)

        def _say(self, status: HTTPStatus, text: str) -> None:
            self._answer(status, Page((f"{printable(text)}\n".encode(),), content_type=_PLAIN))

        def _answer(self, status: HTTPStatus, page: Page) -> None:
            self.send_response(status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(sum(map(len, page.parts))))
            if page.encoding:
                self.send_header("Content-Encoding", page.encoding)
            self.end_headers()
            if self.command != "HEAD":
                for part in page.parts:
                    self.wfile.write(part)
            self.server.renew(self.connection)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            logger.debug("%s %s", self.address_string(), format % args)

    return Handler
