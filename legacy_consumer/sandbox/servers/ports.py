"""Chooses loopback ports for servers that are about to start."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from legacy_consumer.errors import PortInUseError
from zk_layout.errors import ConfigError

LOOPBACK = "127.0.0.1"

_LOWEST = 10_000
_HIGHEST = 65_535
_TRIES = 500
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_choose = random.SystemRandom()  # processes forked from one another must not draw the same ports


def free_port(taken: set[int] | None = None) -> int:
    """Return a port on which nothing listens, and add it to taken, whose ports are never returned.

    Below the range from which the system gives ports to outgoing connections: a client that tries to reconnect to a
    server that is down could otherwise be given the server's own port, connect to itself, and bar the server's return.
    """
    taken = set() if taken is None else taken
    highest = _lowest_ephemeral() - 1
    for _ in range(_TRIES):
        port = _choose.randint(_LOWEST, highest)
        if port not in taken and is_free(port):
            taken.add(port)
            return port
    raise PortInUseError("an embedded server", highest)


def claim_port(server: str, wanted: int, taken: set[int] | None = None) -> int:
    """The wanted port, or a free one for 0.

    Raises: PortInUseError if a process listens on the wanted port, ConfigError if this user may never listen on it.
    """
    if wanted == 0:
        return free_port(taken)
    if not 0 < wanted <= _HIGHEST:
        raise ConfigError("port", wanted, f"must be 1 to {_HIGHEST}, or 0 for any free one")
    try:
        _bind(wanted)
    except PermissionError:
        raise ConfigError("port", wanted, "this user may not listen on it: choose a port above 1023") from None
    except OSError:
        raise PortInUseError(server, wanted) from None
    if taken is not None:
        taken.add(wanted)
    return wanted


def is_free(port: int) -> bool:
    """Return whether a server could listen on the loopback port now."""
    try:
        _bind(port)
    except OSError:
        return False
    return True


def _bind(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as servers do: connections that linger after a close are not in the way
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))


def accepts_connections(port: int, timeout_s: float = 1.0) -> bool:
    """Return whether something accepts connections on the loopback port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout_s).close()
    except OSError:
        return False
    return True


def _lowest_ephemeral() -> int:
    try:
        lowest = int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        lowest = 32_768
    return lowest if lowest > _LOWEST + _TRIES else _HIGHEST + 1
