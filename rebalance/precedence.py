"""Among the members of one process: who has something to do about a change goes before who has not.

They share one interpreter lock, so what one of them does the others wait for. When one of fifty members leaves, nine
have partitions to give up or to take, and the others would look at the group only to find that they keep what they
have; but each look takes its time from those whom partitions wait for. So:

- Of members that hear of a change one looks first. What it finds tells the others, before they have looked, whether
  their share changes. If so they look at once, else WAIT_MS later.
- Who moves claims when the others have released, or it would mostly be refused and have to ask again; and it begins to
  fetch when the others have claimed.
- Who has joined waits for those that are about to, before it looks for the first time: or each would look at the group
  anew for everyone that comes after it, claim what it must give up at once, and keep the others from coming.

These are hints and no more: every member looks at the group for itself before it does anything. All waits are bounded,
whatever others of the process do or fail to do: each of the first two by WAIT_MS, the last by GATHER_MS after the last
arrival, and by LONGEST_GATHER_MS. A member that waits to look owns what it owned: who has to give something up is told
so, and if the group has changed once more since, waits no longer than that. A lone member never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

from rebalance.clock import Clock
from rebalance.plan import Share, owned_by
from rebalance.snapshot import Assignment

WAIT_MS = 50
"""How long a look, a claim or a beginning may be put off: a change that goes well is over by then."""
GATHER_MS = 200
"""How long the next one of those that are about to join may take."""
LONGEST_GATHER_MS = 1000


class Precedence:
    """The members of one group in one process. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looking: str | None = None
        self._looking_until = 0.0
        self._seen: Assignment | None = None
        self._version = 0
        self._waiting: dict[str, tuple[Share, Callable[[], None]]] = {}
        self._arriving: set[str] = set()
        self._gathering: dict[str, Callable[[], None]] = {}
        self.arrivals = 0
        """How many have joined so far, or gave it up."""
        self.to_release = _Stage()
        self.to_claim = _Stage()

    # Joining.

    def begin_arriving(self, consumer_id: str) -> None:
        """A member is about to join: those that have just done so wait for it."""
        with self._lock:
            self._arriving.add(consumer_id)

    def end_arriving(self, consumer_id: str) -> None:
        """It has joined, or will not. Twice is harmless."""
        with self._lock:
            if consumer_id not in self._arriving:
                return
            self._arriving.discard(consumer_id)
            self.arrivals += 1
            if self._arriving:
                return
            gathering, self._gathering = self._gathering, {}
        for ring in gathering.values():
            ring()

    def gather(self, consumer_id: str, ring: Callable[[], None]) -> bool:
        """A member has joined; whether it waits for others that are about to. ring is called when all are there.

        It goes on all the same when there was no arrival for GATHER_MS, and after LONGEST_GATHER_MS.
        """
        with self._lock:
            waits = not self._arriving <= {consumer_id}
            if waits:
                self._gathering[consumer_id] = ring
        self.end_arriving(consumer_id)
        return waits

    # A change of the group.

    def may_look(self, consumer_id: str, owned: Share, version: int, ring: Callable[[], None], now_s: float) -> bool:
        """Whether a member that heard of a change looks at the group now; if not, it does so when it is rung.

        version: of what it saw last, see note. ring is called, on any thread, when the member is to look; it need not
        be, so the member is to look after WAIT_MS at the latest.
        """
        with self._lock:
            if self._version > version and self._seen is not None:
                moves = owned_by(self._seen, consumer_id) != owned
                if moves:
                    self._expect([consumer_id], now_s)
                return moves
            if self._looking not in (None, consumer_id) and now_s < self._looking_until:
                self._waiting[consumer_id] = (owned, ring)
                return False
            self._looking = consumer_id
            self._looking_until = now_s + WAIT_MS / 1000
            return True

    def note(self, consumer_id: str, assignment: Assignment, now_s: float) -> int:
        """What a member sees now; the version of it. Rings those that wait and whose share changes."""
        with self._lock:
            if assignment is not self._seen and assignment != self._seen:
                self._seen = assignment
                self._version += 1
            version = self._version
            waiting = self._end_look(consumer_id)
            moving = {waits: ring for waits, (owned, ring) in waiting.items() if owned_by(assignment, waits) != owned}
            self._expect(moving, now_s)
        for ring in moving.values():
            ring()
        return version

    def end_look(self, consumer_id: str) -> None:
        """A member has looked, or failed to: who still waits for it looks for itself."""
        with self._lock:
            waiting = self._end_look(consumer_id)
        for _, ring in waiting.values():
            ring()

    def _end_look(self, consumer_id: str) -> dict[str, tuple[Share, Callable[[], None]]]:
        self._waiting.pop(consumer_id, None)
        if self._looking != consumer_id:
            return {}
        self._looking = None
        waiting, self._waiting = self._waiting, {}
        return waiting

    def _expect(self, moving: Iterable[str], now_s: float) -> None:
        for stage in (self.to_release, self.to_claim):
            stage.expect(moving, now_s)


class _Stage:
    """What those that move have to do before others go on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._done = threading.Event()

    def expect(self, those: Iterable[str], now_s: float) -> None:
        """These will do it, or are waited for no longer than WAIT_MS."""
        with self._lock:
            for consumer_id in those:
                self._due[consumer_id] = now_s + WAIT_MS / 1000

    def pass_by(self, consumer_id: str) -> None:
        """This one has done it, or will not."""
        with self._lock:
            if self._due.pop(consumer_id, None) is not None and not self._due:
                self._done.set()
                self._done = threading.Event()

    def wait(self, clock: Clock) -> bool:
        """Wait until all have done it, a while; whether there was anybody to wait for."""
        now = clock.monotonic()
        with self._lock:
            until = max(self._due.values(), default=now)
            if until <= now:
                self._due.clear()
                return False
            done = self._done
        clock.wait(done, until - now)
        return True


class Turn:
    """One member's part in it, for its coordinator's thread; arrivals and rings come from others."""

    def __init__(self, precedence: Precedence, consumer_id: str, clock: Clock, ring: Callable[[], None]) -> None:
        """ring: have the member look at the group; called on any thread."""
        self._precedence = precedence
        self._consumer_id = consumer_id
        self._clock = clock
        self._ring = ring
        self._version = 0
        self._has_arrived = False
        self._arrivals = 0
        self._gathers_until = 0.0

    # Joining.

    def arrive(self, ring: Callable[[], None]) -> bool:
        """I have joined; whether I wait for others that are about to, which I do once. ring: when all are there."""
        if self._has_arrived:
            return False
        self._has_arrived = True
        waits = self._precedence.gather(self._consumer_id, ring)
        self._arrivals = self._precedence.arrivals
        self._gathers_until = self._clock.monotonic() + LONGEST_GATHER_MS / 1000
        return waits

    def come_late(self) -> None:
        """I am about to join, but nobody is to wait for it; nor do I."""
        self._has_arrived = True
        self._precedence.end_arriving(self._consumer_id)

    def arrivals_wait_ms(self) -> int:
        """How long I wait on for those that are about to join: not at all if nobody has come for GATHER_MS."""
        before, self._arrivals = self._arrivals, self._precedence.arrivals
        left_ms = round((self._gathers_until - self._clock.monotonic()) * 1000)
        return 0 if self._arrivals == before else max(0, min(GATHER_MS, left_ms))

    # A change of the group.

    def may_look(self, owned: Share) -> bool:
        """See Precedence."""
        now = self._clock.monotonic()
        return self._precedence.may_look(self._consumer_id, owned, self._version, self._ring, now)

    def note(self, assignment: Assignment) -> None:
        """What the group should be, as I see it."""
        self._version = self._precedence.note(self._consumer_id, assignment, self._clock.monotonic())

    def move(self) -> None:
        """I have something to release or to claim."""
        now = self._clock.monotonic()
        self._precedence.to_release.expect([self._consumer_id], now)
        self._precedence.to_claim.expect([self._consumer_id], now)

    def has_released(self) -> None:
        """What I had to release is released."""
        self._precedence.to_release.pass_by(self._consumer_id)

    def await_releases(self) -> bool:
        """Wait for others that have not yet; whether there were any."""
        return self._precedence.to_release.wait(self._clock)

    def has_claimed(self) -> None:
        """What I had to claim is claimed."""
        self._precedence.to_claim.pass_by(self._consumer_id)

    def await_claims(self) -> None:
        """Wait for others that have not yet."""
        self._precedence.to_claim.wait(self._clock)

    def end(self) -> None:
        """I have done what I can for now: nobody is to wait for me."""
        self._precedence.end_look(self._consumer_id)
        self._precedence.to_release.pass_by(self._consumer_id)
        self._precedence.to_claim.pass_by(self._consumer_id)


_lock = threading.Lock()
_of: WeakValueDictionary[tuple[str, str], Precedence] = WeakValueDictionary()
"""Gone with the last member of a group."""


def precedence_in(zookeeper_connect: str, group: str) -> Precedence:
    """The one of this group; keep what you got for as long as you are a member."""
    with _lock:
        return _of.setdefault((zookeeper_connect, group), Precedence())
