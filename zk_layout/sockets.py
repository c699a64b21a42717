"""Opens a socket to a server, TLS included; another thread can cancel that at any moment."""

from __future__ import annotations

import errno
import selectors
import socket
import ssl
import time

from zk_layout.errors import ConfigError
from zk_layout.settings import TlsSettings
from zk_layout.signals import Flag

_SLICE_S = 0.1


def make_tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """The context for all connections. Raises: ConfigError naming the file that cannot be used."""
    try:
        # with a CA file the context trusts that file alone, and none of the system's authorities
        context = ssl.create_default_context(cafile=tls.ca or None)
    except OSError as error:
        raise ConfigError("zookeeper.ssl.truststore.location", tls.ca, f"cannot be read as PEM: {error}") from error
    context.check_hostname = tls.check_hostname and tls.verify_certs
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify_certs else ssl.CERT_NONE
    if tls.certfile:
        try:
            context.load_cert_chain(tls.certfile, tls.keyfile, tls.keyfile_password or "")
        except OSError as error:
            raise ConfigError(
                "zookeeper.ssl.keystore.location", tls.certfile, f"cannot be read as PEM: {error}"
            ) from error
    return context


def open_socket(
    address: tuple[str, int],
    server_name: str,
    timeout_s: float,
    context: ssl.SSLContext | None,
    cancelled: Flag,
) -> socket.socket:
    """Connect, and do the TLS handshake if there is a context.

    Raises: OSError (TimeoutError and ssl.SSLError are such) if that fails, takes longer than timeout_s or cancelled
    is set meanwhile. The socket is closed then.
    """
    deadline = time.monotonic() + timeout_s
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    plain = socket.socket(family, socket.SOCK_STREAM)
    opened: socket.socket = plain
    try:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        error = plain.connect_ex(address)
        if error not in (0, errno.EINPROGRESS):  # it goes on in the background
            raise OSError(error, f"cannot connect to {address[0]}:{address[1]}")
        _wait(plain, selectors.EVENT_WRITE, deadline, cancelled)
        error = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, f"cannot connect to {address[0]}:{address[1]}")
        if context is not None:
            wrapped = context.wrap_socket(plain, server_hostname=server_name, do_handshake_on_connect=False)
            opened = wrapped
            _shake_hands(wrapped, deadline, cancelled)
    except BaseException:
        opened.close()
        raise
    return opened


def _shake_hands(wrapped: ssl.SSLSocket, deadline: float, cancelled: Flag) -> None:
    while True:
        try:
            wrapped.do_handshake()
        except ssl.SSLWantReadError:
            _wait(wrapped, selectors.EVENT_READ, deadline, cancelled)
        except ssl.SSLWantWriteError:
            _wait(wrapped, selectors.EVENT_WRITE, deadline, cancelled)
        else:
            return


def _wait(sock: socket.socket, events: int, deadline: float, cancelled: Flag) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(sock, events)
        _select(selector, deadline, cancelled)


def _select(selector: selectors.BaseSelector, deadline: float, cancelled: Flag) -> None:
    while not cancelled.is_set():
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        if selector.select(min(left, _SLICE_S)):
            return
    raise ConnectionAbortedError("given up")
