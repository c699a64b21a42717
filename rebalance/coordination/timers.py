"""Timers whose cost does not depend on how many run.

Deadlines are rounded up to slots of SLOT_MS. A timer is an entry of its slot, so a restart takes two changes of a
dictionary. The heap holds slots, not timers. It has at most the longest delay divided by SLOT_MS entries, however
many members extend their sessions. A timer therefore fires up to SLOT_MS late and never early.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

SLOT_MS = 10
NEVER_MS = 1 << 53
"""A timer with this delay does not fire."""

_Key = TypeVar("_Key", bound=Hashable)


class Timers(Generic[_Key]):
    """At most one timer for each key."""

    def __init__(self) -> None:
        self._slot_of: dict[_Key, int] = {}
        self._slots: dict[int, dict[_Key, None]] = {}
        self._order: list[int] = []
        self.operations = 0
        """Changes of the dictionaries and moved entries of the heap so far; for the test of the cost."""

    def __len__(self) -> int:
        return len(self._slot_of)

    def set(self, key: _Key, now: int, delay_ms: int) -> None:
        """Let the timer fire at now + delay_ms, in place of an earlier setting; never at now itself."""
        self.cancel(key)
        if delay_ms >= NEVER_MS:
            # each setting would leave a slot in the heap for ever
            return
        slot = -(-(now + max(delay_ms, 1)) // SLOT_MS)
        if slot not in self._slots:
            self._slots[slot] = {}
            heappush(self._order, slot)
            self.operations += len(self._order).bit_length()
        self._slots[slot][key] = None
        self._slot_of[key] = slot
        self.operations += 2

    def cancel(self, key: _Key) -> None:
        """Cancel the timer; harmless if it does not run."""
        slot = self._slot_of.pop(key, None)
        if slot is not None:
            del self._slots[slot][key]
            self.operations += 2

    def take_due(self, now: int) -> _Key | None:
        """Take one due timer, in the order of slots, and in a slot in the order of setting; None if there is none.

        Only one, because its handler may cancel or restart the next one.
        """
        while self._order and self._order[0] * SLOT_MS <= now:
            slot = self._slots[self._order[0]]
            if slot:
                key = next(iter(slot))
                self.cancel(key)
                return key
            del self._slots[heappop(self._order)]
            self.operations += (len(self._order) + 1).bit_length()
        return None

    def next_deadline(self) -> int | None:
        """Return when to call take_due() next; None without timers. At that time there may be nothing to take."""
        return self._order[0] * SLOT_MS if self._order else None
