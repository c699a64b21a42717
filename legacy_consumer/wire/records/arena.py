"""One growing buffer for what is decompressed, so that all columns of a record set point into one place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 2**31 - 1
"""Positions are kept in 32 bits."""


class Arena:
    """Pieces, one behind the other. Memory is taken for what was announced, or twice what there is."""

    def __init__(self) -> None:
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.size = 0

    def room(self, size: int) -> NDArray[np.uint8]:
        """A place for so many bytes behind the last piece; what was given before moves away, so hold none of it.

        Raises: ValueError if the buffer would become too large for the columns.
        """
        needed = self.size + size
        if needed > MOST_BYTES:
            msg = "more than 2 GiB decompressed"
            raise ValueError(msg)
        if needed > len(self._bytes):
            grown = np.empty(min(max(needed, 2 * len(self._bytes)), MOST_BYTES), np.uint8)
            grown[: self.size] = self._bytes[: self.size]
            self._bytes = grown
        return self._bytes[self.size : needed]

    def keep(self, size: int) -> int:
        """Make the first bytes of the room a piece; where it begins."""
        self.size += size
        return self.size - size

    def add(self, piece: NDArray[np.uint8] | bytes) -> int:
        """Copy a piece in; where it begins."""
        source = np.frombuffer(piece, np.uint8) if isinstance(piece, bytes) else piece
        self.room(len(source))[:] = source
        return self.keep(len(source))

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """All pieces."""
        return self._bytes[: self.size]
