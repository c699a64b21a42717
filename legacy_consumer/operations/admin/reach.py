"""Checks whether servers listen at addresses: many at once, each with the same timeout."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

_AT_ONCE = 32
_SERVER = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d+))?")
_ZOOKEEPER_PORT = 2181
_LONGEST_ANSWER = 10_000


def try_addresses(addresses: Sequence[tuple[str, int]], timeout_s: float) -> dict[tuple[str, int], str | None]:
    """Return {address: why no connection was possible, None = a server listens}."""
    wanted = list(dict.fromkeys(addresses))
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(wanted))) as pool:
        return dict(zip(wanted, pool.map(lambda address: _try(address, timeout_s), wanted), strict=True))


def try_servers(connect: str, timeout_s: float) -> dict[str, str | None]:
    """Return {server: as try_addresses} for the servers in zookeeper.connect."""
    servers = [server.strip() for server in connect.partition("/")[0].split(",")]
    addresses = {server: _address(server) for server in servers if _SERVER.fullmatch(server)}
    reached = try_addresses(list(addresses.values()), timeout_s)
    return {server: reached[address] for server, address in addresses.items()}


def _address(server: str) -> tuple[str, int]:
    found = _SERVER.fullmatch(server)
    assert found is not None
    return found["v6"] or found["name"], int(found["port"] or _ZOOKEEPER_PORT)


def tell_zookeeper(connect: str, timeout_s: float) -> dict[str, str]:
    """Return {server: why it does not serve, or its state} for the servers in zookeeper.connect."""
    reached = try_servers(connect, timeout_s)
    addresses = {server: _address(server) for server in reached}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        said = dict(zip(reached, pool.map(lambda server: _status(addresses[server], timeout_s), reached), strict=True))
    return {server: problem or said[server] for server, problem in reached.items()}


def _status(address: tuple[str, int], timeout_s: float) -> str:
    """Return the state of a server, by its answer to `srvr`, the one command that ZooKeeper allows by default."""
    answer = b""
    try:
        with socket.create_connection(address, timeout_s) as link:
            link.settimeout(timeout_s)
            link.sendall(b"srvr")
            while len(answer) < _LONGEST_ANSWER and (more := link.recv(1024)):
                answer += more
    except (OSError, ValueError, OverflowError):
        pass
    if b"not currently serving requests" in answer:
        return (
            "it is ZooKeeper and serves no client: too few servers of its ensemble reach each other, start the others"
        )
    if b"version" in answer.lower():
        return "it is ZooKeeper and serves, but did not answer in time"
    return "the server there does not answer as ZooKeeper does"


def _try(address: tuple[str, int], timeout_s: float) -> str | None:
    try:
        socket.create_connection(address, timeout_s).close()
    except socket.gaierror as error:
        return f"the name is not known ({error.strerror})"
    except (ValueError, OverflowError):  # any client may have written the broker's znode
        return "no host can have such a name or port"
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return None
