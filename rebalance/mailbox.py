"""The coordinator's mailbox: events that other threads posted, and alarms that the coordinator set for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from rebalance.clock import Clock
from rebalance.events import SESSION_EVENTS, Event, Timer
from zk_layout.signals import Flag
from zk_layout.store import WatchEvent


@dataclass(frozen=True, slots=True)
class Errand:
    """A call to make on the coordinator's thread, which does not concern the ownership of partitions."""

    run: Callable[[], None]


Mail: TypeAlias = Event | WatchEvent | Errand


class Chore(Enum):
    """A task that the coordinator repeats."""

    COMMIT = "commit"
    AUDIT = "audit"


Alarm: TypeAlias = Timer | Chore | Errand


class Mailbox:
    """A queue of events, and alarms. Any thread posts; the coordinator's thread takes, and sets the alarms.

    The queue is bounded because equal mail waits only once: all but session events just mean "read again".
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._bell = Flag()
        self._inbox: dict[object, Mail] = {}
        """{key: mail}. The key is the mail itself; each session event has a key of its own."""
        self._alarms: dict[Alarm, float] = {}

    def post(self, mail: Mail) -> None:
        """Enqueue and return; callbacks do nothing else."""
        key = object() if isinstance(mail, SESSION_EVENTS) else mail
        with self._lock:
            self._inbox.setdefault(key, mail)
        self._bell.set()

    def take(self, *, errands_first: bool = False) -> list[Mail]:
        """Take the first mail, errands last; if it is a watch event, take all watch events, for one common reading.

        Errands wait because they concern this member only, while a whole group may wait for a member's rebalance.
        """
        self._bell.clear()
        with self._lock:
            mail = [self._inbox.pop(key) for key in self._first(errands_first=errands_first)]
            if self._inbox:
                # an exception may end the handling of this mail; the coordinator then waits for this flag
                self._bell.set()
            return mail

    def _first(self, *, errands_first: bool) -> list[object]:
        # a copy: a finaliser may post while this thread looks
        waiting = list(self._inbox)
        preferred = (key for key in waiting if isinstance(key, Errand) is errands_first)
        first = next(preferred, waiting[0] if waiting else None)
        if isinstance(first, WatchEvent):
            return [key for key in waiting if isinstance(key, WatchEvent)]
        return [] if first is None else [first]

    def changed(self) -> set[str]:
        """Return the paths of all watch events that wait."""
        with self._lock:
            waiting = list(self._inbox)
        return {key.path for key in waiting if isinstance(key, WatchEvent)}

    def set_alarm(self, alarm: Alarm, delay_ms: int, since_s: float | None = None, *, no_later: bool = False) -> None:
        """Set an alarm for delay_ms after since_s, by default after now; an alarm that is set already begins anew.

        no_later: if the alarm is set already, it keeps the earlier of the two times.
        """
        at = (self._clock.monotonic() if since_s is None else since_s) + delay_ms / 1000
        self._alarms[alarm] = min(at, self._alarms.get(alarm, at)) if no_later else at

    def cancel_alarm(self, alarm: Alarm) -> None:
        """Cancel an alarm; harmless if it is not set."""
        self._alarms.pop(alarm, None)

    def take_alarm(self) -> Alarm | None:
        """Take the earliest alarm whose time has come; None if there is none."""
        alarm = min(self._alarms, key=self._alarms.__getitem__, default=None)
        if alarm is None or self._alarms[alarm] > self._clock.monotonic():
            return None
        del self._alarms[alarm]
        return alarm

    def idle_s(self) -> float:
        """Return the seconds until the next alarm; infinite if none is set."""
        return max(0.0, min(self._alarms.values(), default=float("inf")) - self._clock.monotonic())

    def wait(self, timeout_s: float) -> None:
        """Wait until there is mail, at most timeout_s."""
        self._clock.wait(self._bell, min(timeout_s, 3600.0))
