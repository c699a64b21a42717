"""Whether something listens at an address. Many at once, each with the same patience."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

_AT_ONCE = 32


def try_addresses(addresses: Sequence[tuple[str, int]], timeout_s: float) -> dict[tuple[str, int], str | None]:
    """{address: why nobody could be reached there, None = somebody listens}."""
    wanted = list(dict.fromkeys(addresses))
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(wanted))) as pool:
        return dict(zip(wanted, pool.map(lambda address: _try(address, timeout_s), wanted), strict=True))


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
