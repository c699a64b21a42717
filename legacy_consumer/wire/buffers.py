"""Memory for responses, used again when nobody refers to it any more.

A fresh buffer of some megabytes costs a page fault for every 4 KiB of it, as long as receiving into it takes. But
columns and Arrow arrays refer to a buffer for as long as a user likes, so a buffer is only handed out again when
the pool holds the last reference to it.
"""

from __future__ import annotations

import sys

_GRAIN_BYTES = 64 * 1024
_ONLY_OURS = 3
"""References that sys.getrefcount counts when nobody else has any: the list's, take()'s, its own argument."""
_WASTE = 4
"""A buffer so many times larger than what is wanted is left for something larger."""


class BufferPool:
    """Buffers of one fetcher, for one thread at a time. It keeps few: what is in use elsewhere is not its own."""

    def __init__(self, keep: int = 4) -> None:
        self._keep = keep
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """So many bytes with any content; they come back by themselves."""
        for place in range(len(self._buffers)):
            buffer = self._buffers[place]
            if size <= len(buffer) <= max(_WASTE * size, _GRAIN_BYTES) and sys.getrefcount(buffer) <= _ONLY_OURS:
                self._buffers.append(self._buffers.pop(place))
                return memoryview(buffer)[:size]
        fresh = bytearray(-(-max(size, 1) // _GRAIN_BYTES) * _GRAIN_BYTES)
        self._buffers.append(fresh)
        if len(self._buffers) > self._keep:
            # the one that was handed out longest ago: if it is still in use, its user keeps it
            del self._buffers[0]
        return memoryview(fresh)[:size]
