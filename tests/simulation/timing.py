"""Time of a simulated world: events on their way, frozen processes, and all that happens when the clock moves.

The ZooKeeper server ends a session from which nothing has come for long enough, whether its client knows or not.
"""

from __future__ import annotations

from tests.simulation.zookeeper import SESSION_TIMEOUT_MS
from zk_layout.store import SessionEvent, SessionKind

TIMEOUT_S = SESSION_TIMEOUT_MS / 1000
NETWORK_S = 1.0
"""The longest time, in seconds, that an event is on its way to a client."""
NOTICE_S = TIMEOUT_S * 2 / 3
"""The longest time, in seconds, until a client notices that its connection is dead."""

# seconds for which a process stands still: from less than a session's timeout to longer than any session lasts
_FREEZES = (1.0, 5.0, 7.0, 9.5, 12.0)


class Timing:
    """Moves the clock of a world."""

    def __init__(self, world):
        self._world = world
        self.cut = {}
        """{disconnected store: the time when the server ends its session}."""
        self.frozen = {}
        """{frozen member: the time when it continues}."""
        self.orphans = {}
        """{session that no client uses any more: the time when it ends}."""
        self._unheard = {}
        """{store of a frozen member: the time when the server ends its session}."""
        self._due = {}
        """{store: the latest time when the events on their way to it arrive}."""

    def stop(self, member):
        """Freeze the member's process."""
        self._world.record("freezes", member.name)
        self._world.server.stall(member.store)
        self.frozen[member] = self._world.clock.now + self._world.rng.choice(_FREEZES)
        if member.store.linked:
            self._unheard[member.store] = self._world.clock.now + TIMEOUT_S * (1 + self._world.rng.random() / 2)

    def go_on(self, member):
        """Let a frozen member's process continue; harmless if it is not frozen."""
        if self.frozen.pop(member, None) is not None:
            self._world.record("thaws", member.name)
            self._unheard.pop(member.store, None)
            self._world.server.wake(member.store)

    def forget_store(self, store):
        """Forget the store, which no client uses any more; a session that it could not end lives on for a while."""
        self._due.pop(store, None)
        self.cut.pop(store, None)
        self._unheard.pop(store, None)
        if not store.linked and self._world.server.is_alive(store.server_session_id):
            self.orphans[store.server_session_id] = self._world.clock.now + TIMEOUT_S

    def heal(self, store):
        """Restore the store's connection."""
        self._world.record("healed", self._world.server.actors[store])
        del self.cut[store]
        self._world.server.resume(store)

    def refuse(self, store):
        """Refuse the store's credentials as it connects again."""
        self._world.record("credentials refused", self._world.server.actors[store])
        due = self.cut.pop(store)
        if self._world.server.is_alive(store.server_session_id):
            self.orphans[store.server_session_id] = due
        store.refuse()

    def end_session(self, session_id, reason):
        """End a session at the server; its store gets the event later."""
        self._world.server.reason = reason
        self._world.server.expire(session_id)
        self._world.server.reason = "closed"

    def advance(self, seconds):
        """Move the clock; on the way, let everything happen that is due."""
        end = self._world.clock.now + seconds
        while True:
            for store in self._world.server._stores:
                if not store.queue or store.is_stalled:
                    self._due.pop(store, None)
                elif store not in self._due:
                    first = store.queue[0].event
                    lost = isinstance(first, SessionEvent) and first.kind is SessionKind.SUSPENDED
                    self._due[store] = self._world.clock.now + (NOTICE_S if lost else NETWORK_S)
            due = (self._due, self.cut, self.orphans, self.frozen, self._unheard)
            now = min(end, self._next_alarm(), *(at for waiting in due for at in waiting.values()))
            self._world.clock.now = max(now, self._world.clock.now)
            self._let_happen(self._world.clock.now)
            if self._world.clock.now >= end:
                return

    def _next_alarm(self):
        at = [
            member.wake_at
            for member in self._world.members
            if not (member.turning or member.committing or member in self.frozen)
        ]
        return max(min(at, default=1e12), self._world.clock.now + 0.001)

    def _let_happen(self, now):
        for store, due in list(self._due.items()):
            if due <= now and self._due.pop(store, None) is not None and store in self._world.server._stores:
                store.deliver()
        for session_id, due in list(self.orphans.items()):
            if due <= now:
                del self.orphans[session_id]
                self.end_session(session_id, "expired")
        for store, due in list(self.cut.items()):
            if due <= now and store in self.cut:
                # the store stays disconnected, and its client does not know of the end
                self.cut[store] = 1e12
                self.end_session(store.server_session_id, "expired")
        for store, due in list(self._unheard.items()):
            if due <= now and self._unheard.pop(store, None) is not None:
                self.end_session(store.server_session_id, "expired")
        for member, due in list(self.frozen.items()):
            if due <= now:
                self.go_on(member)
                if self._world.faults and self._world.rng.random() < 0.5:
                    # all threads of the process continue together, and a consuming thread may be the first
                    self._world.let_use(member, self._world.one_of(member.users))
        for member in list(self._world.members):
            if member.wake_at > now or not member.alive or member.turning or member.committing:
                continue
            if member in self.frozen:
                continue
            if self._world.settings.punctual or not self._world.faults or self._world.rng.random() < 0.5:
                member.come_to_rest()
