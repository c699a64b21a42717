"""The events of a world, in order, and how they are printed. An event is (seconds, kind, *details)."""

from __future__ import annotations


class History:
    """Records events with the world's time, and shows each to the checker."""

    def __init__(self, clock):
        self._clock = clock
        self.events = []
        self.observers = {}

    @property
    def now(self):
        """The world's time."""
        return self._clock.now

    def record(self, kind, *details):
        """Record an event and show it to the observer of its kind, which may raise Violation."""
        now = self._clock.now
        self.events.append((now, kind, *details))
        observer = self.observers.get(kind)
        if observer is not None:
            observer(now, *details)

    def lines(self):
        """Yield one line for each event, for people and for comparing histories."""
        for now, kind, *details in self.events:
            yield f"{now:9.3f}  {kind:<10} " + "  ".join(map(_text, details))


def _text(detail):
    if isinstance(detail, int) and detail > 0x1000000:
        return f"s{detail - 0x1000000}"
    if isinstance(detail, (dict, frozenset, set)):
        return "{" + ", ".join(sorted(map(str, detail))) + "}"
    return str(detail)
