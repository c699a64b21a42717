"""Whether something listens at an address. Many at once, each with the same patience."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

_AT_ONCE = 32
_SERVER = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d+))?")
_ZOOKEEPER_PORT = 2181


def try_addresses(addresses: Sequence[tuple[str, int]], timeout_s: float) -> dict[tuple[str, int], str | None]:
    """{address: why nobody could be reached there, None = somebody listens}."""
    wanted = list(dict.fromkeys(addresses))
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(wanted))) as pool:
        return dict(zip(wanted, pool.map(lambda address: _try(address, timeout_s), wanted), strict=True))


def try_servers(connect: str, timeout_s: float) -> dict[str, str | None]:
    """{server: as try_addresses} of the servers in zookeeper.connect."""
    addresses = {
        host.strip(): (found["v6"] or found["name"], int(found["port"] or _ZOOKEEPER_PORT))
        for host in connect.partition("/")[0].split(",")
        if (found := _SERVER.fullmatch(host.strip()))
    }
    reached = try_addresses(list(addresses.values()), timeout_s)
    return {host: reached[address] for host, address in addresses.items()}


def _try(address: tuple[str, int], timeout_s: float) -> str | None:
    try:
        socket.create_connection(address, timeout_s).close()
    except socket.gaierror as error:
        return f"the name is not known ({error.strerror})"
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return None
