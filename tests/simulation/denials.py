"""Permissions that ZooKeeper denies to members of a simulated world, for a while or for good.

An ACL closes an offset, an owner, a registration, a topic or a list: members may not read it. ZooKeeper 3.9 also hides
that such a znode exists. ZooKeeper refuses the ACL of a znode that a member writes. A request ends in
SessionExpiredError if the session is over. ZooKeeper refuses a member's credentials when the member connects again:
then it answers no request any more, and the user shuts the member down.
"""

from __future__ import annotations

import random

from tests.simulation.zookeeper import IDS, OFFSETS, OWNERS
from zk_layout.errors import AuthenticationError, SessionExpiredError
from zk_layout.memory_store import Refusal
from zk_layout.model import TopicPartition

_WRITES = ("create", "multi")


class Denials:
    """The denials of a world. Its generator is its own: the other choices of a seed do not depend on it."""

    def __init__(self, world, *, may_be):
        self._world = world
        self._rng = rng = random.Random(f"denials {world.seed}")
        self._closes = rng.random() < 0.1 and may_be
        world.server.tree.hides = rng.random() < 0.5
        self._refuses = rng.choice((0.01, 0.04)) if rng.random() < 0.07 and may_be else 0.0
        self._expires = rng.random() < 0.1 and may_be
        self._refuses_credentials = rng.choice((0.1, 0.5)) if rng.random() < 0.07 and may_be else 0.0

    @property
    def are_possible(self):
        """Whether ZooKeeper may refuse a member something in this world."""
        return bool(self._closes or self._refuses or self._refuses_credentials)

    def act(self):
        """Now and then close a znode to members or open it again, or let users shut down refused members."""
        if self._closes and self._rng.random() < 0.05:
            self._close_or_open()
        if self._refuses_credentials and self._rng.random() < 0.2:
            self.shut_down_refused()

    def shut_down_refused(self):
        """Shut down members whose credentials ZooKeeper refuses: their streams raise AuthenticationError."""
        for member in self._world.members:
            if member.store.is_refused and not (member.closing or member.turning or member.using):
                member.ask_to_close()

    def open_everything(self):
        """Open all closed znodes, when the faults are over."""
        self._world.server.tree.closed.clear()

    def _close_or_open(self):
        tree, world = self._world.server.tree, self._world
        if tree.closed and self._rng.random() < 0.6:
            path = self._rng.choice(sorted(tree.closed))
            tree.closed.discard(path)
            world.record("opened", path)
            return
        topic = self._rng.choice(sorted(world.partitions))
        tp = TopicPartition(topic, self._rng.randrange(world.partitions[topic]))
        offset, owner = f"{OFFSETS}/{tp.topic}/{tp.partition}", f"{OWNERS}/{tp.topic}/{tp.partition}"
        ids = [f"{IDS}/{name}" for name in sorted(world.checker.registered)]
        path = self._rng.choice((offset, offset, owner, owner, *ids, IDS, f"/brokers/topics/{topic}"))
        if path == offset:
            world.record("forbidden", tp)
        tree.closed.add(path)
        world.record("closed", path)

    def refusal(self, kind):
        """Return how ZooKeeper refuses this request of a member; None if it does not."""
        if kind in _WRITES and self._refuses and self._rng.random() < self._refuses:
            return Refusal(AuthenticationError("injected: nobody knows whom the ACL should name"))
        return None

    def note_lost(self, store, *, is_over):
        """Raise SessionExpiredError now and then for a lost request of a member.

        is_over: its session has ended, and the member has not got that event yet.
        """
        if is_over and self._expires and store in self._world.by_store and self._rng.random() < 0.7:
            raise SessionExpiredError("injected: the session has expired")

    def refuses_credentials(self, store):
        """Return whether ZooKeeper refuses this store's credentials when the store connects again."""
        is_members = store in self._world.by_store and self._world.faults
        return is_members and self._rng.random() < self._refuses_credentials
