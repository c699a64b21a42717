"""Addresses, as users write them."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(?:([^\s:/,\[\]]+)|\[([0-9A-Fa-f:.]+)\]):([0-9]{1,5})")


def parse_address(text: str) -> tuple[str, int] | None:
    """Parse `host:port` or `[IPv6]:port`. Returns: (host without brackets, port), None for another text."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[3]) < 65536:
        return None
    return match[1] or match[2], int(match[3])
